'use strict';
// tls without connections.
module.exports = {
  rootCertificates: Object.freeze([]),
  ...require('denied').each('tls.', 'checkServerIdentity connect convertALPNProtocols createSecureContext createServer getCiphers SecureContext Server TLSSocket'),
};
