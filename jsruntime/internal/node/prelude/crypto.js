'use strict';
// Node's crypto, implemented with Go's. Hashes are here; the rest is loaded when it is
// needed.
const { Buffer } = require('buffer');
const { fail, toBytes, output } = require('crypto_bytes');
const { addStream } = require('crypto_streams');
const raise = (...args) => require('codes').raise(...args);
const newHash = sys('hash.new');
const updateHash = sys('hash.update');
const digestHash = sys('hash.digest');

// The state of a hash or a cipher. A WeakMap would cost more than hashing a
// short text.
const kState = Symbol('kState');
const stateOf = (hash) => {
  const state = hash[kState];
  if (state.done) raise('ERR_CRYPTO_HASH_FINALIZED');
  return state;
};
const checkEncoding = (data, encoding) => {
  if (encoding && encoding.toLowerCase && encoding.toLowerCase() === 'hex' && data.length % 2) raise('ERR_INVALID_ARG_VALUE', 'encoding', encoding, `is invalid for data of length ${data.length}`);
};

const hashMethods = {
  update(data, encoding) {
    const { id } = stateOf(this);
    if (typeof data === 'string') checkEncoding(data, encoding);
    updateHash(id, toBytes(data, encoding, 'data'));
    return this;
  },
  digest(encoding) {
    const state = this[kState];
    if (state.done && this instanceof Hmac) return output(new Uint8Array(0), encoding);
    if (state.done) raise('ERR_CRYPTO_HASH_FINALIZED');
    state.done = true;
    let bytes = digestHash(state.id);
    if (state.length !== undefined) bytes = bytes.slice(0, state.length);
    return output(bytes, encoding);
  },
};

// The classes can be called without new, as in Node.
function Hash(name, options) {
  if (!(this instanceof Hash)) return new Hash(name, options);
  if (name instanceof Hash) {
    const from = stateOf(name);
    this[kState] = { ...from, id: sys('hash.copy')(from.id, from.name) };
    return undefined;
  }
  if (typeof name !== 'string') require('validators').validateString(name, 'algorithm');
  const length = typeof options === 'object' && options !== null ? options.outputLength : undefined;
  if (length !== undefined) require('validators').validateUint32(length, 'options.outputLength');
  this[kState] = { name, id: newHash(name), done: false, length };
  if (length !== undefined && length > digestHash(this[kState].id).byteLength) fail(Error, 'ERR_OSSL_EVP_NOT_XOF_OR_INVALID_LENGTH', 'Unsupported state or unable to change the output length');
  return undefined;
}
Object.assign(Hash.prototype, hashMethods, { copy(options) { stateOf(this); return new Hash(this, options); } });

function Hmac(name, key, options) {
  if (!(this instanceof Hmac)) return new Hmac(name, key, options);
  if (typeof name !== 'string') require('validators').validateString(name, 'hmac');
  if (key === null || key === undefined) raise('ERR_INVALID_ARG_TYPE', 'key', ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'string', 'KeyObject', 'CryptoKey'], key);
  this[kState] = { name, id: newHash(name, secretOf(key)), done: false, length: undefined };
  return undefined;
}
Object.assign(Hmac.prototype, hashMethods);
for (const Class of [Hash, Hmac]) {
  sys('enumerable')(Class.prototype, false);
  addStream(Class, (hash) => { const state = hash[kState]; const out = hash.digest(); if (hash instanceof Hash) state.done = false; return out; });
}

// secretOf returns the bytes of a key, which is rarely an object.
function secretOf(key) {
  return typeof key === 'string' || ArrayBuffer.isView(key) ? toBytes(key, 'utf8', 'key') : require('crypto_keys').secretBytes(key);
}

const compared = (value, name) => (typeof value === 'string' ? raise('ERR_INVALID_ARG_TYPE', name, ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], value) : toBytes(value, undefined, name));

const whole = {
  createHash: (name, options) => new Hash(name, options),
  createHmac: (name, key, options) => new Hmac(name, key, options),
  createCipheriv: undefined, createDecipheriv: undefined, getCipherInfo: undefined, randomBytes: undefined, randomFillSync: undefined,
  randomInt: undefined, randomUUID: undefined, pbkdf2Sync: undefined, scryptSync: undefined, hkdfSync: undefined, pseudoRandomBytes: undefined, randomFill: undefined, pbkdf2: undefined, scrypt: undefined, hkdf: undefined,
  timingSafeEqual(a, b) {
    return sys('crypto.equal')(compared(a, 'buf1'), compared(b, 'buf2'));
  },
  createECDH: (curve) => new (require('crypto_dh').ECDH)(curve),
  createDiffieHellman: (...args) => new (require('crypto_dh').DiffieHellman)(...args),
  createDiffieHellmanGroup: (name) => new (require('crypto_dh').DiffieHellmanGroup)(name),
  getDiffieHellman: (name) => new (require('crypto_dh').DiffieHellmanGroup)(name),
  getHashes: undefined, getCiphers: undefined, getCurves: undefined,
  getFips: () => 0,
  Hash,
  Hmac,
  Cipheriv: undefined, Decipheriv: undefined, constants: undefined, KeyObject: undefined, Sign: undefined, Verify: undefined,
  createSecretKey: undefined, generateKeyPairSync: undefined, generateKeyPair: undefined, generateKeySync: undefined, generateKey: undefined,
  createPrivateKey: undefined, createPublicKey: undefined, createSign: undefined, createVerify: undefined, sign: undefined,
  verify: undefined, publicEncrypt: undefined, privateDecrypt: undefined, privateEncrypt: undefined, publicDecrypt: undefined,
  diffieHellman: undefined,
};
for (const name of ['DiffieHellman', 'DiffieHellmanGroup', 'ECDH']) {
  Object.defineProperty(whole, name, { get: () => require('crypto_dh')[name], enumerable: true, configurable: true });
}
Object.defineProperty(whole, 'X509Certificate', { get: () => require('crypto_x509').X509Certificate, enumerable: true, configurable: true });
// They are configurable, unlike Node's, because goja does not accept what a Proxy says
// about an accessor that is not.
Object.defineProperty(whole, 'webcrypto', { get: () => require('webcrypto').crypto, enumerable: true, configurable: true });
Object.defineProperty(whole, 'subtle', { get: () => require('webcrypto').crypto.subtle, configurable: true });

module.exports = require('parts')(whole, {
  __proto__: null,
  createCipheriv: 'crypto_ciphers', createDecipheriv: 'crypto_ciphers', getCipherInfo: 'crypto_ciphers', getHashes: 'crypto_ciphers',
  getCiphers: 'crypto_ciphers', getCurves: 'crypto_ciphers', Cipheriv: 'crypto_ciphers', Decipheriv: 'crypto_ciphers', randomBytes: 'crypto_random', randomFillSync: 'crypto_random', randomInt: 'crypto_random', randomUUID: 'crypto_random', pseudoRandomBytes: 'crypto_random', randomFill: 'crypto_random', pbkdf2Sync: 'crypto_derive', scryptSync: 'crypto_derive', hkdfSync: 'crypto_derive', pbkdf2: 'crypto_derive', scrypt: 'crypto_derive', hkdf: 'crypto_derive', constants: 'crypto_keys', KeyObject: 'crypto_keys', Sign: 'crypto_keys',
  Verify: 'crypto_keys', createSecretKey: 'crypto_keys', generateKeyPairSync: 'crypto_keys', generateKeyPair: 'crypto_keys',
  generateKeySync: 'crypto_keys', generateKey: 'crypto_keys', createPrivateKey: 'crypto_keys', createPublicKey: 'crypto_keys', createSign: 'crypto_keys', createVerify: 'crypto_keys', sign: 'crypto_keys', verify: 'crypto_keys', publicEncrypt: 'crypto_keys', privateDecrypt: 'crypto_keys', privateEncrypt: 'crypto_keys', publicDecrypt: 'crypto_keys', diffieHellman: 'crypto_keys',
});
