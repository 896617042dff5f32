'use strict';
// Keys that are derived from passwords and other secrets.
const { Buffer } = require('buffer');
const keys = require('crypto_keys');
const { toBytes } = require('crypto_bytes');
const { later, maxSize } = require('crypto_random');
const { validateString, validateUint32, validateInteger, validateInt32, validateCallback } = require('validators');
const raise = (...args) => require('codes').raise(...args);

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

module.exports = {
  pbkdf2Sync, scryptSync, hkdfSync,
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
};
