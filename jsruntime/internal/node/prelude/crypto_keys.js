'use strict';
// Keys, signatures and RSA encryption of Node's crypto.
const { Buffer } = require('buffer');
const { fail, toBytes, isShared, output } = require('crypto_bytes');
const constants = {
  RSA_PKCS1_PADDING: 1, RSA_NO_PADDING: 3, RSA_PKCS1_OAEP_PADDING: 4, RSA_PKCS1_PSS_PADDING: 6,
  RSA_PSS_SALTLEN_DIGEST: -1, RSA_PSS_SALTLEN_MAX_SIGN: -2, RSA_PSS_SALTLEN_AUTO: -2,
  defaultCoreCipherList: '', TLS1_2_VERSION: 771, TLS1_3_VERSION: 772, POINT_CONVERSION_COMPRESSED: 2, POINT_CONVERSION_UNCOMPRESSED: 4,
};

const { validateString, validateObject, validateInteger, validateCallback } = require('validators');
const raise = (...args) => require('codes').raise(...args);

const make = Symbol('make');
const materials = new WeakMap();

class KeyObject {
  constructor(token, type, material) {
    if (token !== make) {
      if (typeof token === 'string' && !['secret', 'public', 'private'].includes(token)) raise('ERR_INVALID_ARG_VALUE', 'type', token);
      raise('ERR_INVALID_ARG_TYPE', 'handle', 'object', type);
    }
    Object.defineProperty(this, 'type', { value: type, enumerable: true });
    materials.set(this, material);
  }
  get asymmetricKeyType() { return this.type === 'secret' ? undefined : materials.get(this).kind; }
  get asymmetricKeyDetails() {
    if (this.type === 'secret') return undefined;
    const { kind, bits, exponent, curve } = materials.get(this);
    if (kind === 'rsa' || kind === 'rsa-pss') return { modulusLength: bits, publicExponent: BigInt(exponent) };
    return kind === 'ec' ? { namedCurve: curve } : {};
  }
  get symmetricKeySize() { return this.type === 'secret' ? materials.get(this).length : undefined; }
  equals(other) { return other instanceof KeyObject && this.type === other.type && Buffer.from(rawOf(this)).equals(Buffer.from(rawOf(other))); }
  export(options = {}) {
    if (this.type === 'secret') {
      const bytes = materials.get(this);
      return options.format === 'jwk' ? { kty: 'oct', k: Buffer.from(bytes).toString('base64url') } : Buffer.from(bytes);
    }
    const { der, kind } = materials.get(this);
    const type = options.type || (this.type === 'private' ? 'pkcs8' : 'spki');
    if (kind === 'rsa-pss' && (options.format === 'jwk' || type === 'pkcs1')) {
      if (options.format === 'jwk') fail(Error, 'ERR_CRYPTO_JWK_UNSUPPORTED_KEY_TYPE', 'Unsupported JWK Key Type.');
      raise('ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS', 'pkcs1', 'can only be used for RSA keys');
    }
    if (options.format === 'jwk') return sys('key.jwk')(der);
    const out = options.cipher === undefined ? sys('key.export')(der, options.format || 'pem', type, kind === 'rsa-pss') : this.#seal(der, type, options);
    return typeof out === 'string' ? out : Buffer.from(out);
  }
  #seal(der, type, { format = 'pem', cipher, passphrase }) {
    if (type !== 'pkcs8' || this.type !== 'private') raise('ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS', type, 'does not support encryption');
    if (typeof cipher !== 'string') raise('ERR_INVALID_ARG_VALUE', 'options.cipher', cipher);
    if (passphrase === undefined || passphrase === null) raise('ERR_INVALID_ARG_VALUE', 'options.passphrase', passphrase);
    return sys('key.seal')(der, format, cipher, toBytes(passphrase, 'utf8', 'options.passphrase'));
  }
  static from(key) { return (key && key.handle) || raise('ERR_INVALID_ARG_TYPE', 'key', 'CryptoKey', key); }
  get [Symbol.toStringTag]() { return 'KeyObject'; }
}
const rawOf = (key) => (key.type === 'secret' ? materials.get(key) : materials.get(key).der);
const wrap = (found) => new KeyObject(make, found.type, found);

// secretBytes returns the bytes of a symmetric key.
function secretBytes(key) {
  if (key instanceof KeyObject) {
    if (key.type !== 'secret') fail(TypeError, 'ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE', `Invalid key object type ${key.type}, expected secret.`);
    return materials.get(key);
  }
  if (key && key.handle instanceof KeyObject) return secretBytes(key.handle);
  return toBytes(key, 'utf8', 'key');
}

// parseKey reads any form of asymmetric key that Node accepts.
function parseKey(input) {
  if (input instanceof KeyObject) return input;
  if (input && input.handle instanceof KeyObject) return input.handle;
  if (typeof input === 'string' || ArrayBuffer.isView(input) || input instanceof ArrayBuffer) {
    if (isEncrypted(input)) fail(TypeError, 'ERR_MISSING_PASSPHRASE', 'Passphrase required for encrypted key');
    return wrap(sys('key.parse')(toBytes(input, 'utf8', 'key')));
  }
  if (input === null || typeof input !== 'object' || input.key === undefined) {
    return fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "key" argument must be of type object or an instance of Buffer, KeyObject or string.');
  }
  if (input.format === 'jwk') return wrap(sys('key.fromjwk')(JSON.stringify(input.key)));
  if (input.format === 'der' && (input.type !== 'pkcs8' || input.passphrase === undefined)) return wrap(sys('key.parse')(toBytes(input.key, input.encoding, 'key.key'), input.type));
  if (input.passphrase === undefined || input.key instanceof KeyObject || !(input.format === 'der' || isEncrypted(input.key))) return parseKey(input.key);
  return wrap(sys('key.parse')(sys('key.open')(toBytes(input.key, input.encoding, 'key.key'), toBytes(input.passphrase, input.encoding, 'key.passphrase'))));
}
const isEncrypted = (key) => /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(Buffer.from(toBytes(key, 'utf8', 'key')).toString('latin1'));

function privateKey(input) {
  const key = parseKey(input);
  if (key.type !== 'private') fail(TypeError, 'ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE', `Invalid key object type ${key.type}, expected private.`);
  return key;
}

function publicKey(input) {
  const key = parseKey(input);
  return key.type === 'private' ? publicHalf(key) : key;
}
const publicHalf = (key) => wrap({ ...sys('key.public')(rawOf(key)), kind: materials.get(key).kind });
const paddingFor = (key, padding) => padding || (key.asymmetricKeyType === 'rsa-pss' ? constants.RSA_PKCS1_PSS_PADDING : constants.RSA_PKCS1_PADDING);

const optionsOf = (key) => (key !== null && typeof key === 'object' && !(key instanceof KeyObject) && !ArrayBuffer.isView(key) ? key : {});

function signNow(name, data, key) {
  const { padding, saltLength, dsaEncoding } = optionsOf(key);
  const parsed = privateKey(key);
  return Buffer.from(sys('key.sign')(rawOf(parsed), name || defaultDigest(parsed), data, paddingFor(parsed, padding), saltLength, dsaEncoding === 'ieee-p1363'));
}

function verifyNow(name, data, key, signature) {
  const { padding, saltLength, dsaEncoding } = optionsOf(key);
  const parsed = parseKey(key);
  return sys('key.verify')(rawOf(parsed), name || defaultDigest(parsed), data, signature, paddingFor(parsed, padding), saltLength, dsaEncoding === 'ieee-p1363');
}

const defaultDigest = (key) => (key.asymmetricKeyType === 'ed25519' ? '' : 'sha256');

// Sign and Verify can be called without new, like all of Node's classes.
function signerOf(name, method) {
  const Class = function (algorithm) {
    if (!(this instanceof Class)) return new Class(algorithm);
    require('validators').validateString(algorithm, 'algorithm');
    sys('crypto.digest')(algorithm);
    for (const [key, value] of [['_name', algorithm], ['_chunks', []]]) Object.defineProperty(this, key, { value });
    return undefined;
  };
  Object.defineProperty(Class, 'name', { value: name });
  Object.assign(Class.prototype, {
    update(data, encoding) { this._chunks.push(Buffer.from(toBytes(data, encoding))); return this; },
    write(data, encoding) { this.update(data, encoding); return true; },
    end(data, encoding) { if (data !== undefined) this.update(data, encoding); return this; },
    ...method,
  });
  return Class;
}
const Sign = signerOf('Sign', {
  sign(key, encoding) {
    if (!key) raise('ERR_CRYPTO_SIGN_KEY_REQUIRED');
    return output(signNow(this._name, Buffer.concat(this._chunks), key), encoding);
  },
});
const Verify = signerOf('Verify', {
  verify(key, signature, encoding) { return verifyNow(this._name, Buffer.concat(this._chunks), key, toBytes(signature, encoding, 'signature')); },
});

function rsa(op, key, data, padding, other) {
  const options = optionsOf(key);
  const label = options.oaepLabel === undefined ? new Uint8Array(0) : toBytes(options.oaepLabel, 'utf8', 'key.oaepLabel');
  return Buffer.from(sys(op)(rawOf(parseKey(key)), toBytes(data, options.encoding, 'buffer'), options.padding || padding, options.oaepHash || 'sha1', label, other));
}

// encoded exports a generated key according to the options.
const encoded = (key, options) => (options ? key.export(options) : key);

function generateKeyPairSync(type, options = {}) {
  const kind = type === 'rsa-pss' ? 'rsa' : type;
  if (kind === 'rsa' && typeof options.modulusLength !== 'number') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "options.modulusLength" property must be of type number.');
  const found = sys('key.generate')(kind, kind === 'rsa' ? options.modulusLength : options.namedCurve);
  const made = wrap(type === 'rsa-pss' ? { ...found, kind: type } : found);
  const open = publicHalf(made);
  return { publicKey: encoded(open, options.publicKeyEncoding), privateKey: encoded(made, options.privateKeyEncoding) };
}

const createSecretKey = (key, encoding) => new KeyObject(make, 'secret', Buffer.from(toBytes(key, encoding, 'key')));

function checkKeyOptions(type, options) {
  validateString(type, 'type');
  validateObject(options, 'options');
  if (type === 'hmac') validateInteger(options.length, 'options.length', 8, 2 ** 31 - 1);
  else if (type === 'aes' && ![128, 192, 256].includes(options.length)) {
    raise('ERR_INVALID_ARG_VALUE', 'options.length', options.length, 'must be one of: 128, 192, 256');
  }
}

function generateKeySync(type, options) {
  checkKeyOptions(type, options);
  const { length } = options;
  if (type !== 'hmac' && type !== 'aes') fail(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'type' must be a supported key type");
  return createSecretKey(Buffer.from(sys('crypto.random')(length >> 3)));
}

// later passes the result of a function to a callback.
function later(callback, run) {
  let values = [];
  let failure = null;
  try { values = run(); } catch (err) { failure = err; }
  require('timers').setImmediate(() => (failure ? callback(failure) : callback(null, ...values)));
}

function generateKeyPair(type, options, callback) {
  later(callback, () => { const pair = generateKeyPairSync(type, options); return [pair.publicKey, pair.privateKey]; });
}
Object.defineProperty(generateKeyPair, Symbol.for('nodejs.util.promisify.custom'), { value: async (type, options) => generateKeyPairSync(type, options) });

module.exports = {
  fail, toBytes, isShared, output, secretBytes, KeyObject, parseKey, rawOf, wrap,
  api: {
    constants, KeyObject, Sign, Verify, createSecretKey, generateKeyPairSync, generateKeyPair, generateKeySync,
    generateKey: (type, options, callback) => {
      checkKeyOptions(type, options);
      validateCallback(callback);
      const key = generateKeySync(type, options);
      later(callback, () => [key]);
    },
    createPrivateKey: (key) => privateKey(key),
    createPublicKey(key) {
      if (key instanceof KeyObject && key.type !== 'private') raise('ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE', key.type, 'private');
      return publicKey(key);
    },
    createSign: (name, options) => new Sign(name, options),
    createVerify: (name, options) => new Verify(name, options),
    sign(name, data, key, callback) {
      if (callback) return later(callback, () => [signNow(name, toBytes(data), key)]);
      return signNow(name, toBytes(data), key);
    },
    verify(name, data, key, signature, callback) {
      if (callback) return later(callback, () => [verifyNow(name, toBytes(data), key, toBytes(signature))]);
      return verifyNow(name, toBytes(data), key, toBytes(signature, undefined, 'signature'));
    },
    publicEncrypt: (key, data) => rsa('key.encrypt', key, data, constants.RSA_PKCS1_OAEP_PADDING, false),
    privateDecrypt: (key, data) => rsa('key.decrypt', key, data, constants.RSA_PKCS1_OAEP_PADDING, false),
    privateEncrypt: (key, data) => rsa('key.encrypt', key, data, constants.RSA_PKCS1_PADDING, true),
    publicDecrypt: (key, data) => rsa('key.decrypt', key, data, constants.RSA_PKCS1_PADDING, true),
    diffieHellman: ({ privateKey: mine, publicKey: theirs }) => Buffer.from(sys('key.agree')(rawOf(mine), rawOf(theirs))),
  },
};
