'use strict';
// Diffie-Hellman over integers and over curves.
const { Buffer } = require('buffer');
const { raise, make } = require('codes');
const { validateString, validateInt32 } = require('validators');
const { toBytes, output } = require('crypto_keys');

const strip = (bytes) => { let at = 0; while (at < bytes.length - 1 && bytes[at] === 0) at++; return bytes.subarray(at); };
const fail = (code, message) => { const err = new Error(message); err.code = code; throw err; };

function setUp(dh, prime, generator, verifyError) {
  Object.defineProperty(dh, '_dh', { value: { prime, generator, own: null, open: null }, enumerable: false });
  Object.defineProperty(dh, 'verifyError', { value: verifyError, enumerable: true });
}

function DiffieHellman(sizeOrKey, keyEncoding, generator, genEncoding) {
  if (!(this instanceof DiffieHellman)) return new DiffieHellman(sizeOrKey, keyEncoding, generator, genEncoding);
  if (typeof sizeOrKey !== 'number' && typeof sizeOrKey !== 'string' && !ArrayBuffer.isView(sizeOrKey) && !(sizeOrKey instanceof ArrayBuffer)) {
    raise('ERR_INVALID_ARG_TYPE', 'sizeOrKey', ['number', 'string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], sizeOrKey);
  }
  if (typeof sizeOrKey === 'number') validateInt32(sizeOrKey, 'sizeOrKey');
  if (keyEncoding && !Buffer.isEncoding(keyEncoding) && keyEncoding !== 'buffer') { genEncoding = generator; generator = keyEncoding; keyEncoding = false; }
  if (!generator) generator = 2;
  if (typeof generator === 'number') {
    validateInt32(generator, 'generator');
    if (generator <= 0 || generator === 1) fail('ERR_OSSL_DH_BAD_GENERATOR', 'error:05000065:Diffie-Hellman routines:OPENSSL_internal:BAD_GENERATOR');
    generator = Buffer.from(generator.toString(16).padStart(generator > 255 ? 8 : 2, '0'), 'hex');
  } else if (typeof generator === 'string') {
    generator = Buffer.from(generator, genEncoding);
  } else if (ArrayBuffer.isView(generator) || generator instanceof ArrayBuffer) {
    generator = Buffer.from(toBytes(generator));
  } else {
    raise('ERR_INVALID_ARG_TYPE', 'generator', ['number', 'string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], generator);
  }
  if (generator.length === 0 || generator.every((b) => b === 0)) fail('ERR_OSSL_DH_BAD_GENERATOR', 'error:05000065:Diffie-Hellman routines:OPENSSL_internal:BAD_GENERATOR');
  const prime = typeof sizeOrKey === 'number' ? Buffer.from(sys('dh.prime')(sizeOrKey)) : Buffer.from(toBytes(sizeOrKey, keyEncoding || undefined));
  setUp(this, prime, generator, sys('dh.check')(prime, generator));
}

function DiffieHellmanGroup(name) {
  if (!(this instanceof DiffieHellmanGroup)) return new DiffieHellmanGroup(name);
  validateString(name, 'name');
  const prime = sys('dh.group')(name.toLowerCase());
  if (!prime) throw make('ERR_CRYPTO_UNKNOWN_DH_GROUP');
  setUp(this, Buffer.from(prime), Buffer.from([2]), 0);
}

const open = (state) => {
  if (!state.open) {
    if (!state.own) fail('ERR_CRYPTO_INVALID_STATE', 'No public key - did you forget to generate one?');
    state.open = Buffer.from(sys('dh.power')(state.generator, state.own, state.prime));
  }
  return state.open;
};

const methods = {
  generateKeys(encoding) {
    const state = this._dh;
    if (!state.own) { state.own = Buffer.from(sys('dh.generate')(state.prime)); state.open = null; }
    return output(open(state), encoding);
  },
  computeSecret(other, inputEncoding, outputEncoding) {
    const state = this._dh;
    const bytes = toBytes(other, inputEncoding, 'otherPublicKey');
    if (!state.own) fail('ERR_CRYPTO_INVALID_STATE', 'No private key - did you forget to generate one?');
    const low = strip(bytes);
    if (low.length === 0 || (low.length === 1 && low[0] <= 1)) fail('ERR_CRYPTO_INVALID_KEYLEN', 'Supplied key is too small');
    if (low.length > state.prime.length || (low.length === state.prime.length && Buffer.compare(low, state.prime) >= 0)) fail('ERR_CRYPTO_INVALID_KEYLEN', 'Supplied key is too large');
    return output(sys('dh.power')(bytes, state.own, state.prime), outputEncoding);
  },
  getPrime(encoding) { return output(this._dh.prime, encoding); },
  getGenerator(encoding) { return output(this._dh.generator, encoding); },
  getPublicKey(encoding) { return output(strip(open(this._dh)), encoding); },
  getPrivateKey(encoding) {
    if (!this._dh.own) fail('ERR_CRYPTO_INVALID_STATE', 'No private key - did you forget to generate one?');
    return output(this._dh.own, encoding);
  },
};
Object.assign(DiffieHellmanGroup.prototype, methods);
Object.assign(DiffieHellman.prototype, methods, {
  setPublicKey(key, encoding) { this._dh.open = Buffer.from(toBytes(key, encoding, 'key')); return this; },
  setPrivateKey(key, encoding) { this._dh.own = Buffer.from(toBytes(key, encoding, 'key')); this._dh.open = null; return this; },
});

function ECDH(curve) {
  if (!(this instanceof ECDH)) return new ECDH(curve);
  validateString(curve, 'curve');
  sys('ecdh.new')(curve);
  Object.defineProperty(this, '_ec', { value: { curve, own: null } });
}
const own = (ecdh) => ecdh._ec.own || fail('ERR_CRYPTO_ECDH_INVALID_KEY', 'Failed to get ECDH private key');
Object.assign(ECDH.prototype, {
  generateKeys(encoding, format) { this._ec.own = sys('ecdh.new')(this._ec.curve); return this.getPublicKey(encoding, format); },
  getPrivateKey(encoding) { return output(own(this), encoding); },
  getPublicKey(encoding, format) {
    if (format !== undefined && format !== 'compressed' && format !== 'uncompressed' && format !== 'hybrid') raise('ERR_CRYPTO_ECDH_INVALID_FORMAT', format);
    return output(sys('ecdh.public')(this._ec.curve, own(this), format === 'compressed'), encoding);
  },
  setPrivateKey(key, encoding) {
    const bytes = toBytes(key, encoding, 'key');
    sys('ecdh.public')(this._ec.curve, bytes, false);
    this._ec.own = Buffer.from(bytes);
    return this;
  },
  computeSecret(other, inputEncoding, outputEncoding) {
    return output(sys('ecdh.secret')(this._ec.curve, own(this), toBytes(other, inputEncoding, 'otherPublicKey')), outputEncoding);
  },
});

module.exports = { DiffieHellman, DiffieHellmanGroup, ECDH };
