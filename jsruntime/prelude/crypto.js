'use strict';
// Node's crypto, over Go's.
const { Buffer } = require('buffer');
const keys = require('crypto_keys');
const { fail, toBytes, output } = keys;
const newHash = sys('hash.new');
const updateHash = sys('hash.update');
const digestHash = sys('hash.digest');
const random = sys('crypto.random');

// lazyTransform gives hashes and ciphers the methods of a stream when they are
// used as one.
function asStream(target, flush) {
  const { Transform } = require('stream');
  const stream = new Transform({
    transform(chunk, encoding, done) { const out = target.update(chunk); if (Buffer.isBuffer(out) && out.length) this.push(out); done(); },
    flush(done) { try { done(null, flush()); } catch (err) { done(err); } },
  });
  return stream;
}
const streamMethods = ['write', 'end', 'on', 'once', 'pipe', 'read', 'setEncoding'];
function addStream(Class, flush) {
  const streams = new WeakMap();
  for (const name of streamMethods) {
    Object.defineProperty(Class.prototype, name, {
      value(...args) {
        if (!streams.has(this)) streams.set(this, asStream(this, () => flush(this)));
        const out = streams.get(this)[name](...args);
        return out === streams.get(this) ? this : out;
      },
      writable: true,
      configurable: true,
    });
  }
}

class Hash {
  #id;
  #done = false;
  #name;
  constructor(name, key, id) {
    if (typeof name !== 'string') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "algorithm" argument must be of type string. Received ' + (name === null ? 'null' : typeof name));
    this.#name = name;
    this.#id = id === undefined ? newHash(name, key) : id;
  }
  update(data, encoding) {
    if (this.#done) fail(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    updateHash(this.#id, toBytes(data, encoding, 'data'));
    return this;
  }
  digest(encoding) {
    if (this.#done) fail(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    this.#done = true;
    return output(digestHash(this.#id), encoding);
  }
  copy() {
    if (this.#done) fail(Error, 'ERR_CRYPTO_HASH_FINALIZED', 'Digest already called');
    return new Hash(this.#name, undefined, sys('hash.copy')(this.#id, this.#name));
  }
}
class Hmac extends Hash {}
Hmac.prototype.copy = undefined;
addStream(Hash, (hash) => hash.digest());

class Cipher {
  constructor(name, key, iv, options, encrypt) {
    if (typeof name !== 'string') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "cipher" argument must be of type string');
    const length = (options && options.authTagLength) || 16;
    const secret = keys.secretBytes(key);
    this._id = sys('cipher.new')(name, secret, iv === null ? new Uint8Array(0) : toBytes(iv, 'utf8', 'iv'), encrypt, length);
    this._text = '';
    Object.defineProperty(this, '_id', { enumerable: false });
    Object.defineProperty(this, '_text', { enumerable: false });
  }
  update(data, inputEncoding, outputEncoding) {
    return this._output(sys('cipher.update')(this._id, toBytes(data, inputEncoding, 'data')), outputEncoding, false);
  }
  final(encoding) { return this._output(sys('cipher.final')(this._id), encoding, true); }
  _output(bytes, encoding, last) {
    if (!encoding || encoding === 'buffer') return Buffer.from(bytes);
    if (!this._decoder) {
      const { StringDecoder } = require('string_decoder');
      Object.defineProperty(this, '_decoder', { value: new StringDecoder(encoding) });
    }
    return last ? this._decoder.end(Buffer.from(bytes)) : this._decoder.write(Buffer.from(bytes));
  }
  setAutoPadding(on = true) { sys('cipher.nopadding')(this._id, !on); return this; }
  setAAD(data) { sys('cipher.aad')(this._id, toBytes(data, 'utf8', 'buffer')); return this; }
  getAuthTag() { return Buffer.from(sys('cipher.tag')(this._id)); }
  setAuthTag(tag, encoding) { sys('cipher.settag')(this._id, toBytes(tag, encoding, 'buffer')); return this; }
}
addStream(Cipher, (cipher) => cipher.final());
class Cipheriv extends Cipher {}
class Decipheriv extends Cipher {}

// later gives the outcome of a synchronous function to a callback.
function later(callback, run) {
  if (typeof callback !== 'function') fail(TypeError, 'ERR_INVALID_CALLBACK', 'Callback must be a function');
  let value;
  let failure = null;
  try { value = run(); } catch (err) { failure = err; }
  require('timers').setImmediate(() => (failure ? callback(failure) : callback(null, value)));
}

function randomBytes(size, callback) {
  if (typeof size !== 'number') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "size" argument must be of type number. Received ' + typeof size);
  if (!(size >= 0 && size <= 2 ** 31 - 1)) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "size" is out of range. It must be >= 0 && <= 2147483647. Received ${size}`);
  if (callback) return later(callback, () => Buffer.from(random(size)));
  return Buffer.from(random(size));
}

function randomFillSync(target, offset = 0, size) {
  const view = target instanceof ArrayBuffer ? new Uint8Array(target) : new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  const unit = target.BYTES_PER_ELEMENT || 1;
  const length = size === undefined ? view.length - offset * unit : size * unit;
  view.set(new Uint8Array(random(length)), offset * unit);
  return target;
}

function randomInt(min, max, callback) {
  if (max === undefined || typeof max === 'function') { callback = max; max = min; min = 0; }
  if (!Number.isSafeInteger(min)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "min" argument must be a safe integer.');
  if (!Number.isSafeInteger(max)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "max" argument must be a safe integer.');
  const range = max - min;
  if (range <= 0) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "max" is out of range. It must be greater than the value of "min" (${min}). Received ${max}`);
  if (range > 2 ** 48 - 1) fail(RangeError, 'ERR_OUT_OF_RANGE', 'The value of "max - min" is out of range. It must be <= 281474976710655.');
  const limit = 2 ** 48 - (2 ** 48 % range);
  let value;
  do { value = Buffer.from(random(6)).readUIntBE(0, 6); } while (value >= limit);
  const out = min + (value % range);
  if (callback) return later(callback, () => out);
  return out;
}

function randomUUID() {
  const b = Buffer.from(random(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  return b.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

function pbkdf2Sync(password, salt, iterations, length, digest) {
  if (typeof digest !== 'string') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "digest" argument must be of type string. Received ' + typeof digest);
  return Buffer.from(sys('crypto.pbkdf2')(toBytes(password, 'utf8', 'password'), toBytes(salt, 'utf8', 'salt'), iterations, length, digest));
}

function scryptSync(password, salt, length, options = {}) {
  const pick = (short, long, standard) => (options[short] !== undefined ? options[short] : options[long] !== undefined ? options[long] : standard);
  const maxmem = options.maxmem === undefined ? 32 * 1024 * 1024 + 1024 * 1024 : options.maxmem;
  return Buffer.from(sys('crypto.scrypt')(toBytes(password, 'utf8', 'password'), toBytes(salt, 'utf8', 'salt'), length,
    pick('N', 'cost', 16384), pick('r', 'blockSize', 8), pick('p', 'parallelization', 1), maxmem));
}

function hkdfSync(digest, key, salt, info, length) {
  return sys('crypto.hkdf')(digest, keys.secretBytes(key), toBytes(salt, 'utf8', 'salt'), toBytes(info, 'utf8', 'info'), length);
}

class ECDH {
  #curve;
  #private;
  constructor(curve) { this.#curve = curve; sys('ecdh.new')(curve); }
  generateKeys(encoding, format) { this.#private = sys('ecdh.new')(this.#curve); return this.getPublicKey(encoding, format); }
  #key() {
    if (!this.#private) fail(Error, 'ERR_CRYPTO_ECDH_INVALID_KEY', 'Failed to get ECDH private key');
    return this.#private;
  }
  getPrivateKey(encoding) { return output(this.#key(), encoding); }
  getPublicKey(encoding, format) { return output(sys('ecdh.public')(this.#curve, this.#key(), format === 'compressed'), encoding); }
  setPrivateKey(key, encoding) { const bytes = toBytes(key, encoding, 'key'); sys('ecdh.public')(this.#curve, bytes, false); this.#private = Buffer.from(bytes); return this; }
  computeSecret(other, inputEncoding, outputEncoding) {
    return output(sys('ecdh.secret')(this.#curve, this.#key(), toBytes(other, inputEncoding, 'otherPublicKey')), outputEncoding);
  }
}

const hashNames = ['RSA-MD5', 'RSA-RIPEMD160', 'RSA-SHA1', 'RSA-SHA224', 'RSA-SHA256', 'RSA-SHA384', 'RSA-SHA512', 'md5', 'ripemd160', 'sha1',
  'sha224', 'sha256', 'sha3-224', 'sha3-256', 'sha3-384', 'sha3-512', 'sha384', 'sha512', 'sha512-224', 'sha512-256'];
const cipherNames = ['aes-128-cbc', 'aes-128-ctr', 'aes-128-ecb', 'aes-128-gcm', 'aes-192-cbc', 'aes-192-ctr', 'aes-192-ecb', 'aes-192-gcm',
  'aes-256-cbc', 'aes-256-ctr', 'aes-256-ecb', 'aes-256-gcm', 'chacha20-poly1305', 'des-ede', 'des-ede-cbc', 'des-ede3', 'des-ede3-cbc'];

module.exports = {
  createHash: (name, options) => new Hash(name),
  createHmac: (name, key) => {
    if (key === null || key === undefined) fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "key" argument must be of type string or an instance of ArrayBuffer, Buffer, TypedArray, DataView, KeyObject, or CryptoKey. Received ' + String(key));
    return new Hmac(name, keys.secretBytes(key));
  },
  createCipheriv: (name, key, iv, options) => new Cipheriv(name, key, iv, options, true),
  createDecipheriv: (name, key, iv, options) => new Decipheriv(name, key, iv, options, false),
  getCipherInfo(name) {
    const info = sys('cipher.info')(name);
    if (!info) return undefined;
    return { mode: info[2] === 'chacha' ? 'stream' : info[2], name: info[3], keyLength: info[0], ...(info[1] ? { ivLength: info[1] < 0 ? 12 : info[1] } : {}) };
  },
  randomBytes, randomFillSync, randomInt, randomUUID, pbkdf2Sync, scryptSync, hkdfSync,
  pseudoRandomBytes: randomBytes,
  randomFill(target, offset, size, callback) {
    const done = [offset, size, callback].find((v) => typeof v === 'function');
    later(done, () => randomFillSync(target, typeof offset === 'number' ? offset : 0, typeof size === 'number' ? size : undefined));
  },
  pbkdf2: (password, salt, iterations, length, digest, callback) => later(callback, () => pbkdf2Sync(password, salt, iterations, length, digest)),
  scrypt(password, salt, length, options, callback) {
    if (typeof options === 'function') { callback = options; options = {}; }
    later(callback, () => scryptSync(password, salt, length, options));
  },
  hkdf: (digest, key, salt, info, length, callback) => later(callback, () => hkdfSync(digest, key, salt, info, length)),
  timingSafeEqual(a, b) {
    for (const [value, name] of [[a, 'buf1'], [b, 'buf2']]) {
      if (!ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be an instance of ArrayBuffer, Buffer, TypedArray, or DataView.`);
    }
    return sys('crypto.equal')(toBytes(a), toBytes(b));
  },
  createECDH: (curve) => new ECDH(curve),
  getHashes: () => hashNames.slice(),
  getCiphers: () => cipherNames.slice(),
  getCurves: () => ['prime256v1', 'secp224r1', 'secp384r1', 'secp521r1'],
  getFips: () => 0,
  Hash, Hmac, Cipheriv, Decipheriv, ECDH,
  ...keys.api,
};
Object.defineProperty(module.exports, 'webcrypto', { get: () => require('webcrypto'), enumerable: true });
Object.defineProperty(module.exports, 'subtle', { get: () => require('webcrypto').subtle });
