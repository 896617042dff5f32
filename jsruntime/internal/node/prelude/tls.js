'use strict';
// tls without connections.
const { refuse } = require('denied');
const { Buffer } = require('buffer');
const net = require('net');

const ciphers =
  'aes128-gcm-sha256 aes128-sha aes128-sha256 aes256-gcm-sha384 aes256-sha aes256-sha256 dhe-psk-aes128-cbc-sha dhe-psk-aes128-cbc-sha256 ' +
  'dhe-psk-aes128-gcm-sha256 dhe-psk-aes256-cbc-sha dhe-psk-aes256-cbc-sha384 dhe-psk-aes256-gcm-sha384 dhe-psk-chacha20-poly1305 ' +
  'dhe-rsa-aes128-gcm-sha256 dhe-rsa-aes128-sha dhe-rsa-aes128-sha256 dhe-rsa-aes256-gcm-sha384 dhe-rsa-aes256-sha dhe-rsa-aes256-sha256 ' +
  'dhe-rsa-chacha20-poly1305 ecdhe-ecdsa-aes128-gcm-sha256 ecdhe-ecdsa-aes128-sha ecdhe-ecdsa-aes128-sha256 ecdhe-ecdsa-aes256-gcm-sha384 ' +
  'ecdhe-ecdsa-aes256-sha ecdhe-ecdsa-aes256-sha384 ecdhe-ecdsa-chacha20-poly1305 ecdhe-psk-aes128-cbc-sha ecdhe-psk-aes128-cbc-sha256 ' +
  'ecdhe-psk-aes256-cbc-sha ecdhe-psk-aes256-cbc-sha384 ecdhe-psk-chacha20-poly1305 ecdhe-rsa-aes128-gcm-sha256 ecdhe-rsa-aes128-sha ' +
  'ecdhe-rsa-aes128-sha256 ecdhe-rsa-aes256-gcm-sha384 ecdhe-rsa-aes256-sha ecdhe-rsa-aes256-sha384 ecdhe-rsa-chacha20-poly1305 ' +
  'psk-aes128-cbc-sha psk-aes128-cbc-sha256 psk-aes128-gcm-sha256 psk-aes256-cbc-sha psk-aes256-cbc-sha384 psk-aes256-gcm-sha384 ' +
  'psk-chacha20-poly1305 rsa-psk-aes128-cbc-sha rsa-psk-aes128-cbc-sha256 rsa-psk-aes128-gcm-sha256 rsa-psk-aes256-cbc-sha ' +
  'rsa-psk-aes256-cbc-sha384 rsa-psk-aes256-gcm-sha384 rsa-psk-chacha20-poly1305 srp-aes-128-cbc-sha srp-aes-256-cbc-sha ' +
  'srp-rsa-aes-128-cbc-sha srp-rsa-aes-256-cbc-sha tls_aes_128_ccm_8_sha256 tls_aes_128_ccm_sha256 tls_aes_128_gcm_sha256 ' +
  'tls_aes_256_gcm_sha384 tls_chacha20_poly1305_sha256';

class TLSSocket extends net.Socket {}
class Server extends net.Server {}
class SecureContext { constructor() { this.context = {}; } }
TLSSocket.prototype.connect = refuse('tls.TLSSocket.connect');
Server.prototype.listen = refuse('tls.Server.listen');

// convertALPNProtocols prefixes each name with its length.
function convertALPNProtocols(protocols, out) {
  if (Array.isArray(protocols)) out.ALPNProtocols = Buffer.concat(protocols.map((name) => Buffer.from(String.fromCharCode(Buffer.byteLength(name)) + name, 'latin1')));
  else if (ArrayBuffer.isView(protocols)) out.ALPNProtocols = Buffer.from(protocols);
}

module.exports = {
  CLIENT_RENEG_LIMIT: 3,
  CLIENT_RENEG_WINDOW: 600,
  DEFAULT_CIPHERS:
  'TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:'+
  'ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-SHA256:DHE-RSA-AES128-SHA256:'+
  'ECDHE-RSA-AES256-SHA384:DHE-RSA-AES256-SHA384:ECDHE-RSA-AES256-SHA256:DHE-RSA-AES256-SHA256:HIGH:!aNULL:!eNULL:!EXPORT:!DES:!RC4:'+
  '!MD5:!PSK:!SRP:!CAMELLIA',
  DEFAULT_ECDH_CURVE: 'auto',
  DEFAULT_MIN_VERSION: 'TLSv1.2',
  DEFAULT_MAX_VERSION: 'TLSv1.3',
  rootCertificates: Object.freeze([]),
  getCiphers: () => ciphers.split(' '),
  convertALPNProtocols,
  createSecureContext: () => new SecureContext(),
  createServer: (options, listener) => new Server(options, listener),
  checkServerIdentity: refuse('tls.checkServerIdentity'),
  connect: refuse('tls.connect'),
  SecureContext, TLSSocket, Server,
};
