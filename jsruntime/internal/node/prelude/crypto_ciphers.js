'use strict';
// Ciphers of Node's crypto, and the names of what there is.
const { Buffer } = require('buffer');
const { toBytes } = require('crypto_bytes');
const { validateString } = require('validators');
const { addStream } = require('crypto_streams');
const raise = (...args) => require('codes').raise(...args);
const newCipher = sys('cipher.new');
const updateCipher = sys('cipher.update');
const finalCipher = sys('cipher.final');
const kState = Symbol('kState');

function startCipher(cipher, name, key, iv, options, encrypt) {
  validateString(name, 'cipher');
  const length = (options && options.authTagLength) || 16;
  const secret = require('crypto_keys').secretBytes(key);
  if (iv !== null && typeof iv !== 'string' && !ArrayBuffer.isView(iv) && !(iv instanceof ArrayBuffer)) {
    raise('ERR_INVALID_ARG_TYPE', 'iv', ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], iv);
  }
  cipher[kState] = { id: newCipher(name, secret, iv === null ? new Uint8Array(0) : toBytes(iv, 'utf8', 'iv'), encrypt, length), decoder: null };
}

// cipherOutput holds back bytes of an incomplete character.
function cipherOutput(state, bytes, encoding, last) {
  if (!encoding || encoding === 'buffer') return Buffer.from(bytes);
  if (!Buffer.isEncoding(encoding)) raise('ERR_UNKNOWN_ENCODING', encoding);
  if (!state.decoder) state.decoder = new (require('string_decoder').StringDecoder)(encoding);
  const part = new Uint8Array(bytes);
  return last ? state.decoder.end(part) : state.decoder.write(part);
}

// explained adds the parts of an error of OpenSSL to it.
function explained(err) {
  const found = /^error:[0-9A-F]+:([^:]+):([^:]+):(.+)$/.exec(err.message);
  return found ? Object.assign(err, { library: found[1], function: found[2], reason: found[3] }) : err;
}

const cipherMethods = {
  update(data, inputEncoding, outputEncoding) {
    if (typeof data !== 'string' && !ArrayBuffer.isView(data)) raise('ERR_INVALID_ARG_TYPE', 'data', ['string', 'Buffer', 'TypedArray', 'DataView'], data);
    const state = this[kState];
    return cipherOutput(state, updateCipher(state.id, toBytes(data, inputEncoding, 'data')), outputEncoding, false);
  },
  final(encoding) {
    const state = this[kState];
    try {
      return cipherOutput(state, finalCipher(state.id), encoding, true);
    } catch (err) {
      throw explained(err);
    }
  },
  setAutoPadding(on = true) { sys('cipher.nopadding')(this[kState].id, !on); return this; },
  setAAD(data) { sys('cipher.aad')(this[kState].id, toBytes(data, 'utf8', 'buffer')); return this; },
};

function Cipheriv(name, key, iv, options) {
  if (!(this instanceof Cipheriv)) return new Cipheriv(name, key, iv, options);
  startCipher(this, name, key, iv, options, true);
  return undefined;
}
Object.assign(Cipheriv.prototype, cipherMethods, { getAuthTag() { return Buffer.from(sys('cipher.tag')(this[kState].id)); } });

function Decipheriv(name, key, iv, options) {
  if (!(this instanceof Decipheriv)) return new Decipheriv(name, key, iv, options);
  startCipher(this, name, key, iv, options, false);
  return undefined;
}
Object.assign(Decipheriv.prototype, cipherMethods, {
  setAuthTag(tag, encoding) { sys('cipher.settag')(this[kState].id, toBytes(tag, encoding, 'buffer')); return this; },
});
for (const Class of [Cipheriv, Decipheriv]) {
  sys('enumerable')(Class.prototype, false);
  addStream(Class, (cipher) => cipher.final());
}

const hashNames = ['RSA-MD5', 'RSA-RIPEMD160', 'RSA-SHA1', 'RSA-SHA224', 'RSA-SHA256', 'RSA-SHA384', 'RSA-SHA512', 'md5', 'ripemd160', 'sha1',
  'sha224', 'sha256', 'sha3-224', 'sha3-256', 'sha3-384', 'sha3-512', 'sha384', 'sha512', 'sha512-224', 'sha512-256'];
const cipherNames = ['aes-128-cbc', 'aes-128-ctr', 'aes-128-ecb', 'aes-128-gcm', 'aes-192-cbc', 'aes-192-ctr', 'aes-192-ecb', 'aes-192-gcm',
  'aes-256-cbc', 'aes-256-ctr', 'aes-256-ecb', 'aes-256-gcm', 'chacha20-poly1305', 'des-ede', 'des-ede-cbc', 'des-ede3', 'des-ede3-cbc'];

module.exports = {
  createCipheriv: (name, key, iv, options) => new Cipheriv(name, key, iv, options),
  createDecipheriv: (name, key, iv, options) => new Decipheriv(name, key, iv, options),
  getCipherInfo(name) {
    const info = sys('cipher.info')(name);
    if (!info) return undefined;
    return { mode: info[2] === 'chacha' ? 'stream' : info[2], name: info[3], keyLength: info[0], ...(info[1] ? { ivLength: info[1] < 0 ? 12 : info[1] } : {}) };
  },
  getHashes: () => hashNames.slice(),
  getCiphers: () => cipherNames.slice(),
  getCurves: () => ['prime256v1', 'secp224r1', 'secp384r1', 'secp521r1'],
  Cipheriv, Decipheriv,
};
