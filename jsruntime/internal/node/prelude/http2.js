'use strict';
// http2 without connections. Of its constants only the statuses can be used.
const constants = {};
for (const [code, text] of Object.entries(require('http').STATUS_CODES)) {
  constants['HTTP_STATUS_' + text.replace("I'm a ", '').toUpperCase().replace(/\W/g, '_')] = +code;
}
module.exports = { constants, ...require('denied').each('http2.', 'connect createSecureServer createServer getDefaultSettings getPackedSettings getUnpackedSettings Http2ServerRequest Http2ServerResponse') };
