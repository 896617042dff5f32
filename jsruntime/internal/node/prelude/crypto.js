'use strict';
// Node's crypto, implemented with Go's.
const { Buffer } = require('buffer');
const keys = require('crypto_keys');
const { fail, toBytes, isShared, output } = keys;
const raise = (...args) => require('codes').raise(...args);
const { validateString, validateUint32, validateInteger, validateInt32, validateCallback, validateObject, validateBoolean } = require('validators');
const newHash = sys('hash.new');
const updateHash = sys('hash.update');
const digestHash = sys('hash.digest');
const random = sys('crypto.random');
const newCipher = sys('cipher.new');
const updateCipher = sys('cipher.update');
const finalCipher = sys('cipher.final');

// asStream makes a stream from a hash or a cipher.
function asStream(target, flush) {
  const { Transform } = require('stream');
  return new Transform({
    transform(chunk, encoding, done) {
      try {
        const out = target.update(chunk);
        if (Buffer.isBuffer(out) && out.length) this.push(out);
        done();
      } catch (err) { done(err); }
    },
    flush(done) { try { done(null, flush()); } catch (err) { done(err); } },
  });
}
// Classes that can also be used as streams inherit from streamLike, which
// creates the stream when it is first used.
const streams = new WeakMap();
const kFlush = Symbol('kFlush');
const streamOf = (self) => {
  if (!streams.has(self)) streams.set(self, asStream(self, () => self[kFlush]()));
  return streams.get(self);
};
const streamLike = {
  get _readableState() { return streamOf(this)._readableState; },
  get _writableState() { return streamOf(this)._writableState; },
  get readable() { return streamOf(this).readable; },
  get writable() { return streamOf(this).writable; },
  get writableEnded() { return streamOf(this).writableEnded; },
  get destroyed() { return streamOf(this).destroyed; },
};
const streamMethods = 'write end on once off emit pipe unpipe read setEncoding addListener removeListener removeAllListeners listenerCount prependListener '
  + 'pause resume destroy cork uncork listeners';
sys('lazy')(streamLike, streamMethods, () => {
  for (const name of streamMethods.split(' ')) {
    Object.defineProperty(streamLike, name, {
      value(...args) {
        const stream = streamOf(this);
        const out = stream[name](...args);
        return out === stream ? this : out;
      },
      writable: true,
      configurable: true,
    });
  }
});
function addStream(Class, flush) {
  Object.setPrototypeOf(Class.prototype, streamLike);
  Object.defineProperty(Class.prototype, kFlush, { value() { return flush(this); } });
}

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
  validateString(name, 'algorithm');
  const length = typeof options === 'object' && options !== null ? options.outputLength : undefined;
  if (length !== undefined) validateUint32(length, 'options.outputLength');
  this[kState] = { name, id: newHash(name), done: false, length };
  if (length !== undefined && length > digestHash(this[kState].id).byteLength) fail(Error, 'ERR_OSSL_EVP_NOT_XOF_OR_INVALID_LENGTH', 'Unsupported state or unable to change the output length');
  return undefined;
}
Object.assign(Hash.prototype, hashMethods, { copy(options) { stateOf(this); return new Hash(this, options); } });

function Hmac(name, key, options) {
  if (!(this instanceof Hmac)) return new Hmac(name, key, options);
  validateString(name, 'hmac');
  if (key === null || key === undefined) raise('ERR_INVALID_ARG_TYPE', 'key', ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView', 'string', 'KeyObject', 'CryptoKey'], key);
  this[kState] = { name, id: newHash(name, keys.secretBytes(key, options && options.encoding)), done: false, length: undefined };
  return undefined;
}
Object.assign(Hmac.prototype, hashMethods);
for (const Class of [Hash, Hmac]) {
  sys('enumerable')(Class.prototype, false);
  addStream(Class, (hash) => { const state = hash[kState]; const out = hash.digest(); if (hash instanceof Hash) state.done = false; return out; });
}

function startCipher(cipher, name, key, iv, options, encrypt) {
  validateString(name, 'cipher');
  const length = (options && options.authTagLength) || 16;
  const secret = keys.secretBytes(key);
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

// later passes the result of a synchronous function to a callback.
function later(callback, run) {
  validateCallback(callback);
  let value;
  let failure = null;
  try { value = run(); } catch (err) { failure = err; }
  require('timers').setImmediate(() => (failure ? callback(failure) : callback(null, value)));
}

const maxSize = 2 ** 31 - 1;
function checkSize(value, name, unit, offset, length) {
  if (typeof value !== 'number') raise('ERR_INVALID_ARG_TYPE', name, 'number', value);
  value *= unit;
  if (Number.isNaN(value) || value > maxSize || value < 0) raise('ERR_OUT_OF_RANGE', name, `>= 0 && <= ${maxSize}`, value);
  if (value + offset > length) raise('ERR_OUT_OF_RANGE', name === 'size' ? 'size + offset' : name, `<= ${length}`, value + offset);
  return value;
}

function randomBytes(size, callback) {
  if (typeof size !== 'number') raise('ERR_INVALID_ARG_TYPE', 'size', 'number', size);
  if (!(size >= 0 && size <= maxSize)) raise('ERR_OUT_OF_RANGE', 'size', `>= 0 && <= ${maxSize}`, size);
  if (callback !== undefined) return later(callback, () => Buffer.from(random(size)));
  return Buffer.from(random(size));
}

function randomFillSync(target, offset = 0, size) {
  const whole = target instanceof ArrayBuffer || isShared(target);
  if (!ArrayBuffer.isView(target) && !whole) raise('ERR_INVALID_ARG_TYPE', 'buf', ['ArrayBuffer', 'ArrayBufferView'], target);
  const view = whole ? new Uint8Array(target) : new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  const unit = target.BYTES_PER_ELEMENT || 1;
  const start = checkSize(offset, 'offset', unit, 0, view.length);
  const length = size === undefined ? view.length - start : checkSize(size, 'size', unit, start, view.length);
  if (length > 0) view.set(new Uint8Array(random(length)), start);
  return target;
}

function randomInt(min, max, callback) {
  const short = max === undefined || typeof max === 'function';
  if (short) { callback = max; max = min; min = 0; }
  if (callback !== undefined) validateCallback(callback);
  if (!Number.isSafeInteger(min)) raise('ERR_INVALID_ARG_TYPE', 'min', 'a safe integer', min);
  if (!Number.isSafeInteger(max)) raise('ERR_INVALID_ARG_TYPE', 'max', 'a safe integer', max);
  if (max <= min) raise('ERR_OUT_OF_RANGE', 'max', `greater than the value of "min" (${min})`, max);
  const range = max - min;
  if (!(range <= 2 ** 48 - 1)) raise('ERR_OUT_OF_RANGE', short ? 'max' : 'max - min', `<= ${2 ** 48 - 1}`, range);
  const limit = 2 ** 48 - (2 ** 48 % range);
  let value;
  do { value = Buffer.from(random(6)).readUIntBE(0, 6); } while (value >= limit);
  const out = min + (value % range);
  if (callback) return later(callback, () => out);
  return out;
}

function randomUUID(options) {
  if (options !== undefined) {
    validateObject(options, 'options');
    if (options.disableEntropyCache !== undefined) validateBoolean(options.disableEntropyCache, 'options.disableEntropyCache');
  }
  const b = Buffer.from(random(16));
  b[6] = (b[6] & 0x0f) | 0x40;
  b[8] = (b[8] & 0x3f) | 0x80;
  const hex = b.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

function checkPbkdf2(iterations, length, digest) {
  validateString(digest, 'digest');
  validateInteger(iterations, 'iterations', 1, maxSize);
  validateInteger(length, 'keylen', 0, maxSize);
}
function pbkdf2Sync(password, salt, iterations, length, digest) {
  const secret = secretOf(password, 'password');
  const salted = toBytes(salt, 'utf8', 'salt');
  checkPbkdf2(iterations, length, digest);
  return Buffer.from(sys('crypto.pbkdf2')(secret, salted, iterations, length, digest));
}
const secretOf = (value, name) => (value instanceof keys.KeyObject ? keys.secretBytes(value) : toBytes(value, 'utf8', name));

function scryptOptions(options) {
  const out = { N: 16384, r: 8, p: 1, maxmem: 32 * 1024 * 1024 };
  for (const [short, long] of [['N', 'cost'], ['r', 'blockSize'], ['p', 'parallelization']]) {
    const has = options[short] !== undefined;
    if (has) validateUint32(options[short], short);
    if (has && options[long] !== undefined && options[long] !== options[short]) raise('ERR_INCOMPATIBLE_OPTION_PAIR', short, long);
    if (options[long] !== undefined) validateUint32(options[long], long);
    out[short] = has ? options[short] : options[long] !== undefined ? options[long] : out[short];
  }
  if (options.maxmem !== undefined) { validateInteger(options.maxmem, 'maxmem', 0); out.maxmem = options.maxmem; }
  return out;
}
function scryptSync(password, salt, length, options = {}) {
  const { N, r, p, maxmem } = scryptOptions(options);
  const secret = secretOf(password, 'password');
  const salted = toBytes(salt, 'utf8', 'salt');
  validateInt32(length, 'keylen', 0);
  return Buffer.from(sys('crypto.scrypt')(secret, salted, length, N, r, p, maxmem + 1024 * 1024));
}

function checkHkdf(digest, key, salt, info, length) {
  validateString(digest, 'digest');
  const secret = key instanceof keys.KeyObject || (key && key.handle) ? keys.secretBytes(key) : toBytes(key, 'utf8', 'ikm');
  const salted = toBytes(salt, 'utf8', 'salt');
  const extra = toBytes(info, 'utf8', 'info');
  validateInteger(length, 'length', 0, maxSize);
  if (extra.byteLength > 1024) raise('ERR_OUT_OF_RANGE', 'info', 'must not contain more than 1024 bytes', extra.byteLength);
  const { [digest.toLowerCase().replace('-', '')]: size } = { sha1: 20, sha224: 28, sha256: 32, sha384: 48, sha512: 64 };
  if (length > 255 * size) raise('ERR_CRYPTO_INVALID_KEYLEN');
  return [digest, secret, salted, extra, length];
}
const hkdfSync = (...args) => sys('crypto.hkdf')(...checkHkdf(...args));

const compared = (value, name) => (typeof value === 'string' ? raise('ERR_INVALID_ARG_TYPE', name, ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], value) : toBytes(value, undefined, name));

const hashNames = ['RSA-MD5', 'RSA-RIPEMD160', 'RSA-SHA1', 'RSA-SHA224', 'RSA-SHA256', 'RSA-SHA384', 'RSA-SHA512', 'md5', 'ripemd160', 'sha1',
  'sha224', 'sha256', 'sha3-224', 'sha3-256', 'sha3-384', 'sha3-512', 'sha384', 'sha512', 'sha512-224', 'sha512-256'];
const cipherNames = ['aes-128-cbc', 'aes-128-ctr', 'aes-128-ecb', 'aes-128-gcm', 'aes-192-cbc', 'aes-192-ctr', 'aes-192-ecb', 'aes-192-gcm',
  'aes-256-cbc', 'aes-256-ctr', 'aes-256-ecb', 'aes-256-gcm', 'chacha20-poly1305', 'des-ede', 'des-ede-cbc', 'des-ede3', 'des-ede3-cbc'];

module.exports = {
  createHash: (name, options) => new Hash(name, options),
  createHmac: (name, key, options) => new Hmac(name, key, options),
  createCipheriv: (name, key, iv, options) => new Cipheriv(name, key, iv, options),
  createDecipheriv: (name, key, iv, options) => new Decipheriv(name, key, iv, options),
  getCipherInfo(name) {
    const info = sys('cipher.info')(name);
    if (!info) return undefined;
    return { mode: info[2] === 'chacha' ? 'stream' : info[2], name: info[3], keyLength: info[0], ...(info[1] ? { ivLength: info[1] < 0 ? 12 : info[1] } : {}) };
  },
  randomBytes, randomFillSync, randomInt, randomUUID, pbkdf2Sync, scryptSync, hkdfSync,
  pseudoRandomBytes: randomBytes,
  randomFill(target, offset, size, callback) {
    if (!ArrayBuffer.isView(target) && !(target instanceof ArrayBuffer) && !isShared(target)) raise('ERR_INVALID_ARG_TYPE', 'buf', ['ArrayBuffer', 'ArrayBufferView'], target);
    if (typeof offset === 'function') { callback = offset; offset = 0; size = undefined; } else if (typeof size === 'function') { callback = size; size = undefined; }
    validateCallback(callback);
    const unit = target.BYTES_PER_ELEMENT || 1;
    const start = checkSize(offset, 'offset', unit, 0, target.byteLength);
    if (size !== undefined) checkSize(size, 'size', unit, start, target.byteLength);
    later(callback, () => randomFillSync(target, offset, size));
  },
  pbkdf2(password, salt, iterations, length, digest, callback) {
    if (typeof digest === 'function') { callback = digest; digest = undefined; }
    const secret = secretOf(password, 'password');
    const salted = toBytes(salt, 'utf8', 'salt');
    checkPbkdf2(iterations, length, digest);
    validateCallback(callback);
    sys('crypto.digest.type')(digest);
    later(callback, () => pbkdf2Sync(secret, salted, iterations, length, digest));
  },
  scrypt(password, salt, length, options, callback) {
    if (typeof options === 'function') { callback = options; options = {}; }
    const secret = secretOf(password, 'password');
    const salted = toBytes(salt, 'utf8', 'salt');
    validateInt32(length, 'keylen', 0);
    scryptOptions(options);
    validateCallback(callback);
    later(callback, () => scryptSync(secret, salted, length, options));
  },
  hkdf(digest, key, salt, info, length, callback) {
    const args = checkHkdf(digest, key, salt, info, length);
    validateCallback(callback);
    sys('crypto.digest.type')(digest);
    later(callback, () => sys('crypto.hkdf')(...args));
  },
  timingSafeEqual(a, b) {
    return sys('crypto.equal')(compared(a, 'buf1'), compared(b, 'buf2'));
  },
  createECDH: (curve) => new (require('crypto_dh').ECDH)(curve),
  createDiffieHellman: (...args) => new (require('crypto_dh').DiffieHellman)(...args),
  createDiffieHellmanGroup: (name) => new (require('crypto_dh').DiffieHellmanGroup)(name),
  getDiffieHellman: (name) => new (require('crypto_dh').DiffieHellmanGroup)(name),
  getHashes: () => hashNames.slice(),
  getCiphers: () => cipherNames.slice(),
  getCurves: () => ['prime256v1', 'secp224r1', 'secp384r1', 'secp521r1'],
  getFips: () => 0,
  Hash, Hmac, Cipheriv, Decipheriv,
  ...keys.api,
};
for (const name of ['DiffieHellman', 'DiffieHellmanGroup', 'ECDH']) {
  Object.defineProperty(module.exports, name, { get: () => require('crypto_dh')[name], enumerable: true, configurable: true });
}
Object.defineProperty(module.exports, 'X509Certificate', { get: () => require('crypto_x509').X509Certificate, enumerable: true, configurable: true });
Object.defineProperty(module.exports, 'webcrypto', { get: () => require('webcrypto').crypto, enumerable: true });
Object.defineProperty(module.exports, 'subtle', { get: () => require('webcrypto').crypto.subtle });
