'use strict';
// X509Certificate.
const { Buffer } = require('buffer');
const { raise } = require('codes');
const { validateString, validateObject } = require('validators');
const { wrap, rawOf, KeyObject } = require('crypto_keys');
const parts = new WeakMap();
const of = (cert) => parts.get(cert) || raise('ERR_INVALID_THIS', 'X509Certificate');

class X509Certificate {
  constructor(data) {
    if (typeof data === 'string') data = Buffer.from(data);
    else if (!ArrayBuffer.isView(data)) raise('ERR_INVALID_ARG_TYPE', 'buffer', ['string', 'Buffer', 'TypedArray', 'DataView'], data);
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    parts.set(this, { ...sys('x509.parse')(bytes) });
  }
  get raw() { return Buffer.from(of(this).raw); }
  get publicKey() { return wrap(of(this).key); }
  get subjectAltName() { return of(this).subjectAltName || undefined; }
  get infoAccess() { return undefined; }
  get keyUsage() { return undefined; }
  get issuerCertificate() { return undefined; }
  #check(kind, value, name, options) {
    validateString(value, name);
    if (options !== undefined) validateObject(options, 'options');
    return sys('x509.check')(new Uint8Array(of(this).raw), kind, value);
  }
  checkHost(name, options) { return this.#check('host', name, 'name', options); }
  checkEmail(email, options) { return this.#check('email', email, 'email', options); }
  checkIP(ip, options) { return this.#check('ip', ip, 'ip', options); }
  checkIssued(other) {
    if (!(other instanceof X509Certificate)) raise('ERR_INVALID_ARG_TYPE', 'otherCert', 'X509Certificate', other);
    return sys('x509.issued')(new Uint8Array(of(this).raw), new Uint8Array(of(other).raw));
  }
  checkPrivateKey(key) {
    if (!(key instanceof KeyObject)) raise('ERR_INVALID_ARG_TYPE', 'pkey', 'KeyObject', key);
    if (key.type !== 'private') raise('ERR_INVALID_ARG_VALUE', 'pkey', key);
    return this.publicKey.equals(wrap(sys('key.public')(rawOf(key))));
  }
  verify(key) {
    if (!(key instanceof KeyObject)) raise('ERR_INVALID_ARG_TYPE', 'pkey', 'KeyObject', key);
    if (key.type !== 'public') raise('ERR_INVALID_ARG_VALUE', 'pkey', key);
    return sys('x509.verify')(new Uint8Array(of(this).raw), rawOf(key));
  }
  toString() { return of(this).pem; }
  toJSON() { return this.toString(); }
  toLegacyObject() {
    const split = (text) => Object.assign(Object.create(null), Object.fromEntries(text.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)])));
    const { subject, issuer, validFrom, validTo, fingerprint, fingerprint256, serialNumber } = of(this);
    return { subject: split(subject), issuer: split(issuer), valid_from: validFrom, valid_to: validTo, fingerprint, fingerprint256, serialNumber, raw: this.raw };
  }
}
for (const name of ['subject', 'issuer', 'validFrom', 'validTo', 'fingerprint', 'fingerprint256', 'fingerprint512', 'serialNumber', 'ca']) {
  Object.defineProperty(X509Certificate.prototype, name, { get() { return of(this)[name]; }, configurable: true });
}

module.exports = { X509Certificate };
