'use strict';
// The basics of Web Crypto, over Node's crypto.
const crypto = require('crypto');
const { toBytes } = require('crypto_keys');
const { Buffer } = require('buffer');
const { DOMException } = require('abort');

const normalize = (algorithm) => (typeof algorithm === 'string' ? { name: algorithm } : algorithm);
const hashOf = (hash) => normalize(hash).name.toLowerCase().replace('sha-', 'sha');
const plain = (buffer) => Uint8Array.prototype.slice.call(new Uint8Array(buffer.buffer || buffer, buffer.byteOffset || 0, buffer.byteLength)).buffer;
const refuse = (name, message) => { throw new DOMException(message, name); };

class CryptoKey {
  constructor(handle, type, algorithm, extractable, usages) {
    Object.defineProperties(this, {
      type: { value: type, enumerable: true },
      extractable: { value: extractable, enumerable: true },
      algorithm: { value: algorithm, enumerable: true },
      usages: { value: usages, enumerable: true },
      handle: { value: handle },
    });
  }
}

function need(key, usage) {
  if (!(key instanceof CryptoKey)) throw new TypeError('The key must be a CryptoKey');
  if (!key.usages.includes(usage)) refuse('InvalidAccessError', `The key may not be used to ${usage}`);
}

// describe returns the algorithm of a key as the standard lists it.
function describe(algorithm, handle) {
  const { name } = algorithm;
  const upper = name.toUpperCase();
  if (upper === 'HMAC') return { name: 'HMAC', hash: normalize(algorithm.hash), length: handle.symmetricKeySize * 8 };
  if (upper.startsWith('AES')) return { name: upper, length: handle.symmetricKeySize * 8 };
  if (upper.startsWith('RSA')) {
    const { modulusLength, publicExponent } = handle.asymmetricKeyDetails;
    return { name, modulusLength, publicExponent: new Uint8Array([1, 0, 1]), hash: normalize(algorithm.hash), exponent: publicExponent };
  }
  return algorithm.namedCurve ? { name, namedCurve: algorithm.namedCurve } : { name };
}

const pssOptions = (algorithm) => (algorithm.name === 'RSA-PSS' ? { padding: crypto.constants.RSA_PKCS1_PSS_PADDING, saltLength: algorithm.saltLength } : {});

function cipherName(key) { return `aes-${key.algorithm.length}-${key.algorithm.name.slice(4).toLowerCase()}`; }

function aes(algorithm, key, data, encrypt) {
  const name = cipherName(key);
  const iv = algorithm.name.toUpperCase() === 'AES-CTR' ? algorithm.counter : algorithm.iv;
  const size = (algorithm.tagLength || 128) / 8;
  const gcm = name.endsWith('gcm');
  const make = encrypt ? crypto.createCipheriv : crypto.createDecipheriv;
  const state = make(name, key.handle, toBytes(iv), gcm ? { authTagLength: size } : undefined);
  if (gcm && algorithm.additionalData) state.setAAD(toBytes(algorithm.additionalData));
  let bytes = toBytes(data);
  if (gcm && !encrypt) {
    state.setAuthTag(bytes.subarray(bytes.length - size));
    bytes = bytes.subarray(0, bytes.length - size);
  }
  try {
    const parts = [state.update(bytes), state.final()];
    if (gcm && encrypt) parts.push(state.getAuthTag());
    return plain(Buffer.concat(parts));
  } catch {
    return refuse('OperationError', 'The operation failed for an operation-specific reason');
  }
}

function rsaOptions(algorithm, key) {
  return { key: key.handle, oaepHash: hashOf(key.algorithm.hash), ...(algorithm.label ? { oaepLabel: toBytes(algorithm.label) } : {}) };
}

function derive(algorithm, key, length) {
  const name = algorithm.name.toUpperCase();
  if (name === 'PBKDF2') return crypto.pbkdf2Sync(key.handle.export(), toBytes(algorithm.salt), algorithm.iterations, length / 8, hashOf(algorithm.hash));
  if (name === 'HKDF') return Buffer.from(crypto.hkdfSync(hashOf(algorithm.hash), key.handle.export(), toBytes(algorithm.salt), toBytes(algorithm.info), length / 8));
  if (name === 'ECDH' || name === 'X25519') {
    const secret = crypto.diffieHellman({ privateKey: key.handle, publicKey: algorithm.public.handle });
    return length ? secret.subarray(0, length / 8) : secret;
  }
  return refuse('NotSupportedError', 'Unrecognized algorithm name');
}

const subtle = {
  async digest(algorithm, data) { return plain(crypto.createHash(hashOf(algorithm)).update(toBytes(data)).digest()); },
  async importKey(format, data, algorithm, extractable, usages) {
    algorithm = normalize(algorithm);
    const upper = algorithm.name.toUpperCase();
    let handle;
    if (format === 'raw') {
      if (/^EC|^ED25519|^X25519/.test(upper)) {
        const bytes = Buffer.from(toBytes(data));
        const half = (bytes.length - 1) / 2;
        const jwk = /^EC/.test(upper)
          ? { kty: 'EC', crv: algorithm.namedCurve, x: bytes.subarray(1, 1 + half).toString('base64url'), y: bytes.subarray(1 + half).toString('base64url') }
          : { kty: 'OKP', crv: upper === 'ED25519' ? 'Ed25519' : 'X25519', x: bytes.toString('base64url') };
        handle = crypto.createPublicKey({ key: jwk, format: 'jwk' });
      } else {
        handle = crypto.createSecretKey(Buffer.from(toBytes(data)));
      }
    } else if (format === 'jwk') {
      if (data.kty === 'oct') handle = crypto.createSecretKey(Buffer.from(data.k, 'base64'));
      else handle = data.d ? crypto.createPrivateKey({ key: data, format }) : crypto.createPublicKey({ key: data, format });
    } else if (format === 'pkcs8') {
      handle = crypto.createPrivateKey({ key: Buffer.from(toBytes(data)), format: 'der', type: 'pkcs8' });
    } else if (format === 'spki') {
      handle = crypto.createPublicKey({ key: Buffer.from(toBytes(data)), format: 'der', type: 'spki' });
    } else {
      refuse('NotSupportedError', `Unable to import key using ${format} format`);
    }
    return new CryptoKey(handle, handle.type, describe(algorithm, handle), extractable, [...usages]);
  },
  async exportKey(format, key) {
    if (!key.extractable) refuse('InvalidAccessError', 'key is not extractable');
    if (format === 'jwk') return { ...key.handle.export({ format: 'jwk' }), key_ops: key.usages, ext: true };
    if (format === 'raw' && key.type === 'secret') return plain(key.handle.export());
    if (format === 'raw') {
      const { x, y } = key.handle.export({ format: 'jwk' });
      return plain(y ? Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]) : Buffer.from(x, 'base64url'));
    }
    return plain(key.handle.export({ format: 'der', type: format }));
  },
  async generateKey(algorithm, extractable, usages) {
    algorithm = normalize(algorithm);
    const upper = algorithm.name.toUpperCase();
    if (upper.startsWith('AES') || upper === 'HMAC') {
      const standard = { sha1: 512, sha256: 512, sha384: 1024, sha512: 1024 };
      const bits = algorithm.length || standard[hashOf(algorithm.hash)];
      const handle = crypto.createSecretKey(crypto.randomBytes(bits / 8));
      return new CryptoKey(handle, 'secret', describe(algorithm, handle), extractable, [...usages]);
    }
    const type = upper.startsWith('RSA') ? 'rsa' : upper.startsWith('EC') ? 'ec' : upper.toLowerCase();
    const pair = crypto.generateKeyPairSync(type, { modulusLength: algorithm.modulusLength, namedCurve: algorithm.namedCurve });
    const only = (list) => usages.filter((usage) => list.includes(usage));
    return {
      publicKey: new CryptoKey(pair.publicKey, 'public', describe(algorithm, pair.publicKey), true, only(['verify', 'encrypt', 'wrapKey'])),
      privateKey: new CryptoKey(pair.privateKey, 'private', describe(algorithm, pair.privateKey), extractable, only(['sign', 'decrypt', 'unwrapKey', 'deriveKey', 'deriveBits'])),
    };
  },
  async sign(algorithm, key, data) {
    algorithm = normalize(algorithm);
    need(key, 'sign');
    if (key.algorithm.name === 'HMAC') return plain(crypto.createHmac(hashOf(key.algorithm.hash), key.handle).update(toBytes(data)).digest());
    const hash = algorithm.hash || key.algorithm.hash;
    return plain(crypto.sign(hash ? hashOf(hash) : null, toBytes(data), { key: key.handle, dsaEncoding: 'ieee-p1363', ...pssOptions(algorithm) }));
  },
  async verify(algorithm, key, signature, data) {
    algorithm = normalize(algorithm);
    need(key, 'verify');
    if (key.algorithm.name === 'HMAC') {
      const want = crypto.createHmac(hashOf(key.algorithm.hash), key.handle).update(toBytes(data)).digest();
      const got = toBytes(signature);
      return got.length === want.length && crypto.timingSafeEqual(got, want);
    }
    const hash = algorithm.hash || key.algorithm.hash;
    return crypto.verify(hash ? hashOf(hash) : null, toBytes(data), { key: key.handle, dsaEncoding: 'ieee-p1363', ...pssOptions(algorithm) }, toBytes(signature));
  },
  async encrypt(algorithm, key, data) {
    need(key, 'encrypt');
    if (key.algorithm.name === 'RSA-OAEP') return plain(crypto.publicEncrypt(rsaOptions(algorithm, key), toBytes(data)));
    return aes(algorithm, key, data, true);
  },
  async decrypt(algorithm, key, data) {
    need(key, 'decrypt');
    if (key.algorithm.name === 'RSA-OAEP') return plain(crypto.privateDecrypt(rsaOptions(algorithm, key), toBytes(data)));
    return aes(algorithm, key, data, false);
  },
  async deriveBits(algorithm, key, length) { need(key, 'deriveBits'); return plain(derive(algorithm, key, length)); },
  async deriveKey(algorithm, key, target, extractable, usages) {
    need(key, 'deriveKey');
    const bits = target.length || (target.name.toUpperCase() === 'HMAC' ? 512 : 256);
    return subtle.importKey('raw', derive(algorithm, key, bits), target, extractable, usages);
  },
};

module.exports = {
  subtle,
  CryptoKey,
  getRandomValues(view) {
    if (view.byteLength > 65536) refuse('QuotaExceededError', 'The requested length exceeds 65,536 bytes');
    return crypto.randomFillSync(view);
  },
  randomUUID: crypto.randomUUID,
};
