'use strict';
// The algorithms of Web Crypto: their operations and parameters, and the
// allowed usages of keys.
const { Buffer } = require('buffer');

const refuse = (name, message) => { throw new (require('abort').DOMException)(message, name); };
const unsupported = () => refuse('NotSupportedError', 'Unrecognized algorithm name');
const hashes = { 'SHA-1': 'sha1', 'SHA-256': 'sha256', 'SHA-384': 'sha384', 'SHA-512': 'sha512' };
const aes = ['AES-CBC', 'AES-CTR', 'AES-GCM', 'AES-KW'];
const curves = ['P-256', 'P-384', 'P-521'];

const operations = {
  digest: Object.keys(hashes),
  generateKey: ['RSASSA-PKCS1-v1_5', 'RSA-PSS', 'RSA-OAEP', 'ECDSA', 'ECDH', 'Ed25519', 'X25519', 'HMAC', ...aes],
  importKey: ['RSASSA-PKCS1-v1_5', 'RSA-PSS', 'RSA-OAEP', 'ECDSA', 'ECDH', 'Ed25519', 'X25519', 'HMAC', 'HKDF', 'PBKDF2', ...aes],
  sign: ['RSASSA-PKCS1-v1_5', 'RSA-PSS', 'ECDSA', 'Ed25519', 'HMAC'],
  encrypt: ['RSA-OAEP', 'AES-CBC', 'AES-CTR', 'AES-GCM'],
  deriveBits: ['ECDH', 'X25519', 'HKDF', 'PBKDF2'],
  wrapKey: ['AES-KW', 'RSA-OAEP', 'AES-CBC', 'AES-CTR', 'AES-GCM'],
  'get key length': ['HMAC', 'HKDF', 'PBKDF2', ...aes],
};
operations.verify = operations.sign;
operations.decrypt = operations.encrypt;
operations.unwrapKey = operations.wrapKey;

// Usages of public and private keys, or of secret keys.
const usages = {
  'RSASSA-PKCS1-v1_5': [['verify'], ['sign']], 'RSA-PSS': [['verify'], ['sign']], ECDSA: [['verify'], ['sign']], Ed25519: [['verify'], ['sign']],
  'RSA-OAEP': [['encrypt', 'wrapKey'], ['decrypt', 'unwrapKey']], ECDH: [[], ['deriveKey', 'deriveBits']], X25519: [[], ['deriveKey', 'deriveBits']],
  HMAC: ['sign', 'verify'], HKDF: ['deriveKey', 'deriveBits'], PBKDF2: ['deriveKey', 'deriveBits'], 'AES-KW': ['wrapKey', 'unwrapKey'],
  'AES-CBC': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'], 'AES-CTR': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'], 'AES-GCM': ['encrypt', 'decrypt', 'wrapKey', 'unwrapKey'],
};
// The last four belong to unsupported algorithms, so no key may have them.
const allUsages = ['encrypt', 'decrypt', 'sign', 'verify', 'deriveKey', 'deriveBits', 'wrapKey', 'unwrapKey', 'encapsulateKey', 'encapsulateBits', 'decapsulateKey', 'decapsulateBits'];
const isPair = (name) => Array.isArray(usages[name][0]);

// bytes copies data of the caller, who may change it later.
const detached = sys('buffer.detached');
const isDetached = (value) => value instanceof ArrayBuffer && detached(value);

// bytes returns a copy of the data. A detached buffer has none.
function bytes(value, name = 'data') {
  if (isDetached(ArrayBuffer.isView(value) ? value.buffer : value)) return Buffer.alloc(0);
  if (value instanceof ArrayBuffer) return Buffer.from(new Uint8Array(value));
  if (ArrayBuffer.isView(value)) return Buffer.from(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  throw new TypeError(`${name} is not an instance of ArrayBuffer, Buffer, TypedArray, or DataView.`);
}

function integer(value, name, max) {
  const number = Number(value);
  if (value === undefined || !Number.isFinite(number) || Math.trunc(number) < 0 || Math.trunc(number) > max) throw new TypeError(`${name} is not a number in range.`);
  return Math.trunc(number);
}

const required = (value, name) => { if (value === undefined) throw new TypeError(`${name} is required.`); return value; };

// readers read the members of an algorithm.
const readers = {
  hash: (a) => ({ hash: normalize(required(a.hash, 'hash'), 'digest') }),
  namedCurve: (a) => ({ namedCurve: `${required(a.namedCurve, 'namedCurve')}` }),
  rsa: (a) => {
    if (!(required(a.publicExponent, 'publicExponent') instanceof Uint8Array)) throw new TypeError('publicExponent is not a Uint8Array.');
    return { modulusLength: integer(a.modulusLength, 'modulusLength', 2 ** 32 - 1), publicExponent: new Uint8Array(a.publicExponent) };
  },
  length: (a) => ({ length: integer(a.length, 'length', 2 ** 16 - 1) }),
  optionalLength: (a) => (a.length === undefined ? {} : { length: integer(a.length, 'length', 2 ** 32 - 1) }),
  iv: (a) => ({ iv: bytes(required(a.iv, 'iv'), 'iv') }),
  counter: (a) => ({ counter: bytes(required(a.counter, 'counter'), 'counter'), length: integer(a.length, 'length', 255) }),
  gcm: (a) => ({
    ...(a.additionalData === undefined ? {} : { additionalData: bytes(a.additionalData, 'additionalData') }),
    ...(a.tagLength === undefined ? {} : { tagLength: integer(a.tagLength, 'tagLength', 255) }),
  }),
  saltLength: (a) => ({ saltLength: integer(required(a.saltLength, 'saltLength'), 'saltLength', 2 ** 32 - 1) }),
  label: (a) => (a.label === undefined ? {} : { label: bytes(a.label, 'label') }),
  public: (a) => {
    if (!require('webcrypto').isKey(required(a.public, 'public'))) throw new TypeError('public is not a CryptoKey.');
    return { public: a.public };
  },
  hkdf: (a) => ({ salt: bytes(required(a.salt, 'salt'), 'salt'), info: bytes(required(a.info, 'info'), 'info') }),
  pbkdf2: (a) => ({ salt: bytes(required(a.salt, 'salt'), 'salt'), iterations: integer(a.iterations, 'iterations', 2 ** 32 - 1) }),
};

// members names the readers for an operation on an algorithm.
function members(name, operation) {
  if (operation === 'digest') return [];
  if (operation === 'generateKey') return name.startsWith('RSA') ? ['rsa', 'hash'] : name.startsWith('EC') ? ['namedCurve'] : name === 'HMAC' ? ['hash', 'optionalLength'] : aes.includes(name) ? ['length'] : [];
  if (operation === 'importKey') return name.startsWith('RSA') ? ['hash'] : name.startsWith('EC') ? ['namedCurve'] : name === 'HMAC' ? ['hash', 'optionalLength'] : [];
  if (operation === 'get key length') return name === 'HMAC' ? ['hash', 'optionalLength'] : aes.includes(name) ? ['length'] : [];
  const own = {
    'RSA-PSS': ['saltLength'], ECDSA: ['hash'], 'RSA-OAEP': ['label'], 'AES-CBC': ['iv'], 'AES-CTR': ['counter'], 'AES-GCM': ['iv', 'gcm'],
    ECDH: ['public'], X25519: ['public'], HKDF: ['hash', 'hkdf'], PBKDF2: ['hash', 'pbkdf2'],
  };
  return own[name] || [];
}

// normalize checks an algorithm for an operation, and copies its members.
function normalize(algorithm, operation) {
  if (typeof algorithm === 'string') algorithm = { name: algorithm };
  if (algorithm === null || typeof algorithm !== 'object') throw new TypeError('algorithm is not an object or a string.');
  const given = `${required(algorithm.name, 'algorithm.name')}`;
  const name = operations[operation].find((known) => known.toUpperCase() === given.toUpperCase());
  if (name === undefined) unsupported();
  const out = { name };
  for (const reader of members(name, operation)) Object.assign(out, readers[reader](algorithm));
  return out;
}

// checkUsages returns the distinct usages, or rejects them.
function checkUsages(list, allowed) {
  const all = Array.from(list, (usage) => `${usage}`);
  for (const usage of all) {
    if (!allUsages.includes(usage)) throw new TypeError(`'${usage}' is not a key usage.`);
    if (allowed && !allowed.includes(usage)) refuse('SyntaxError', 'Unsupported key usage for this algorithm');
  }
  return allUsages.filter((usage) => all.includes(usage));
}

module.exports = { normalize, refuse, unsupported, hashes, aes, curves, usages, isPair, bytes, checkUsages, integer };
