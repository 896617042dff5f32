'use strict';
// Web Crypto, implemented with Node's crypto.
const node = require('crypto');
const { Buffer } = require('buffer');
const { normalize, refuse, unsupported, hashes, aes, curves, usages, isPair, bytes, checkUsages, integer } = require('webcrypto_algorithms');
const { importHandle, exportHandle } = require('webcrypto_keys');
const { raise } = require('codes');

const plain = (buffer) => Uint8Array.prototype.slice.call(new Uint8Array(buffer.buffer || buffer, buffer.byteOffset || 0, buffer.byteLength)).buffer;
const failed = () => refuse('OperationError', 'The operation failed for an operation-specific reason');
const inner = new WeakMap();
const secret = Symbol('secret');
const partsOf = (key) => inner.get(key) || raise('ERR_INVALID_THIS', 'CryptoKey');

class CryptoKey {
  constructor(token, parts) {
    if (token !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    inner.set(this, parts);
  }
  get type() { return partsOf(this).type; }
  get extractable() { return partsOf(this).extractable; }
  get algorithm() { return partsOf(this).algorithm; }
  get usages() { return partsOf(this).usages; }
}
const isKey = (value) => inner.has(value);
const newKey = (handle, algorithm, extractable, allowed) => new CryptoKey(secret, { handle, type: handle.type, algorithm, extractable, usages: allowed });

// describe returns the algorithm of a key as the standard lists it.
function describe(algorithm, handle) {
  const { name, hash } = algorithm;
  if (name === 'HMAC') return { name, hash: { name: hash.name }, length: algorithm.length === undefined ? handle.symmetricKeySize * 8 : algorithm.length };
  if (aes.includes(name)) return { name, length: handle.symmetricKeySize * 8 };
  if (name.startsWith('RSA')) {
    const { modulusLength, publicExponent } = handle.asymmetricKeyDetails;
    const hex = publicExponent.toString(16);
    return { name, modulusLength, publicExponent: new Uint8Array(Buffer.from(hex.length % 2 ? '0' + hex : hex, 'hex')), hash: { name: hash.name } };
  }
  return name.startsWith('EC') ? { name, namedCurve: algorithm.namedCurve } : { name };
}

// use checks that a key fits an operation.
function use(key, algorithm, usage) {
  if (!isKey(key)) throw new TypeError('key is not a CryptoKey.');
  if (key.algorithm.name !== algorithm.name) refuse('InvalidAccessError', 'The key is of another algorithm');
  if (!key.usages.includes(usage)) refuse('InvalidAccessError', `Unable to use this key to ${usage}`);
}

function aesCipher(algorithm, key, data, encrypt) {
  const mode = algorithm.name.slice(4).toLowerCase();
  const iv = mode === 'ctr' ? algorithm.counter : algorithm.iv;
  if (mode !== 'gcm' && iv.length !== 16) failed();
  if (mode === 'ctr' && (algorithm.length < 1 || algorithm.length > 128)) failed();
  const tag = algorithm.tagLength === undefined ? 128 : algorithm.tagLength;
  if (mode === 'gcm' && ![32, 64, 96, 104, 112, 120, 128].includes(tag)) failed();
  if (mode === 'gcm' && !encrypt && data.length < tag / 8) failed();
  try {
    const options = mode === 'gcm' ? { authTagLength: tag / 8 } : undefined;
    const state = (encrypt ? node.createCipheriv : node.createDecipheriv)(`aes-${key.algorithm.length}-${mode}`, key.handle, iv, options);
    if (algorithm.additionalData) state.setAAD(algorithm.additionalData);
    if (mode === 'gcm' && !encrypt) {
      state.setAuthTag(data.subarray(data.length - tag / 8));
      data = data.subarray(0, data.length - tag / 8);
    }
    const parts = [state.update(data), state.final()];
    if (mode === 'gcm' && encrypt) parts.push(state.getAuthTag());
    return plain(Buffer.concat(parts));
  } catch {
    return failed();
  }
}

function rsaCipher(algorithm, key, data, encrypt) {
  if (key.type !== (encrypt ? 'public' : 'private')) refuse('InvalidAccessError', 'The key is of the wrong type');
  const options = { key: key.handle, oaepHash: hashes[key.algorithm.hash.name], ...(algorithm.label ? { oaepLabel: algorithm.label } : {}) };
  try {
    return plain(encrypt ? node.publicEncrypt(options, data) : node.privateDecrypt(options, data));
  } catch {
    return failed();
  }
}

const crypt = (algorithm, key, data, encrypt) => (algorithm.name === 'RSA-OAEP' ? rsaCipher : aesCipher)(algorithm, key, data, encrypt);

// derive returns bits of a secret. Without a length it returns all of them.
function derive(algorithm, key, length) {
  const { name } = algorithm;
  if (name === 'ECDH' || name === 'X25519') return agree(algorithm, key, length);
  if (length === null || length === undefined || length % 8 !== 0) failed();
  if (length === 0) return new ArrayBuffer(0);
  const hash = hashes[algorithm.hash.name];
  try {
    if (name === 'HKDF') return node.hkdfSync(hash, key.handle, algorithm.salt, algorithm.info, length / 8);
    if (algorithm.iterations === 0) failed();
    return plain(node.pbkdf2Sync(key.handle, algorithm.salt, algorithm.iterations, length / 8, hash));
  } catch {
    return failed();
  }
}

function agree(algorithm, key, length) {
  if (key.type !== 'private' || algorithm.public.type !== 'public') refuse('InvalidAccessError', 'The keys are of the wrong type');
  if (algorithm.public.algorithm.name !== key.algorithm.name || algorithm.public.algorithm.namedCurve !== key.algorithm.namedCurve) refuse('InvalidAccessError', 'The keys do not fit each other');
  let bits;
  try { bits = node.diffieHellman({ privateKey: key.handle, publicKey: algorithm.public.handle }); } catch { failed(); }
  if (length === null || length === undefined) return plain(bits);
  if (length > bits.length * 8) failed();
  const out = new Uint8Array(plain(bits.subarray(0, Math.ceil(length / 8))));
  if (length % 8) out[out.length - 1] &= 0xff << (8 - (length % 8));
  return out.buffer;
}

function keyLength(algorithm) {
  if (aes.includes(algorithm.name)) {
    if (![128, 192, 256].includes(algorithm.length)) refuse('OperationError', 'Invalid key length');
    return algorithm.length;
  }
  if (algorithm.name !== 'HMAC') return null;
  if (algorithm.length === undefined) return { 'SHA-1': 512, 'SHA-256': 512, 'SHA-384': 1024, 'SHA-512': 1024 }[algorithm.hash.name];
  if (algorithm.length === 0) throw new TypeError('The length of a key may not be zero.');
  return algorithm.length;
}

function makeKey(algorithm, extractable, list) {
  const allowed = usages[algorithm.name];
  const wanted = checkUsages(list, isPair(algorithm.name) ? allowed.flat() : allowed);
  if (!isPair(algorithm.name)) {
    let bits;
    if (algorithm.name === 'HMAC' && algorithm.length === 0) failed();
    bits = keyLength(algorithm);
    if (!wanted.length) refuse('SyntaxError', 'Usages cannot be empty when creating a key.');
    const handle = node.createSecretKey(node.randomBytes(Math.ceil(bits / 8)));
    return newKey(handle, describe({ ...algorithm, length: bits }, handle), extractable, wanted);
  }
  if (algorithm.name.startsWith('EC') && !curves.includes(algorithm.namedCurve)) refuse('NotSupportedError', 'Unrecognized namedCurve');
  if (algorithm.name.startsWith('RSA') && BigInt('0x0' + Buffer.from(algorithm.publicExponent).toString('hex')) !== 65537n) failed();
  const own = wanted.filter((usage) => allowed[1].includes(usage));
  if (!own.length) refuse('SyntaxError', 'Usages cannot be empty when creating a key.');
  const type = algorithm.name.startsWith('RSA') ? 'rsa' : algorithm.name.startsWith('EC') ? 'ec' : algorithm.name.toLowerCase();
  let pair;
  try { pair = node.generateKeyPairSync(type, { modulusLength: algorithm.modulusLength, namedCurve: algorithm.namedCurve }); } catch { failed(); }
  return {
    publicKey: newKey(pair.publicKey, describe(algorithm, pair.publicKey), true, wanted.filter((usage) => allowed[0].includes(usage))),
    privateKey: newKey(pair.privateKey, describe(algorithm, pair.privateKey), extractable, own),
  };
}

function readKey(format, data, algorithm, extractable, list) {
  if (!['raw', 'spki', 'pkcs8', 'jwk'].includes(format)) throw new TypeError(`'${format}' is not a key format.`);
  const wanted = checkUsages(list);
  const handle = importHandle(format, data, algorithm, extractable, wanted);
  const allowed = isPair(algorithm.name) ? usages[algorithm.name][handle.type === 'private' ? 1 : 0] : usages[algorithm.name];
  checkUsages(wanted, allowed);
  if (handle.type !== 'public' && !wanted.length) refuse('SyntaxError', 'Usages cannot be empty when importing a key.');
  if (handle.type === 'secret' && aes.includes(algorithm.name) && ![16, 24, 32].includes(handle.symmetricKeySize)) refuse('DataError', 'Invalid key length');
  if (algorithm.name === 'HMAC') {
    const bits = handle.symmetricKeySize * 8;
    if (bits === 0 || (algorithm.length !== undefined && (algorithm.length > bits || algorithm.length <= bits - 8))) refuse('DataError', 'Invalid key length');
  }
  if ((algorithm.name === 'HKDF' || algorithm.name === 'PBKDF2') && extractable) refuse('SyntaxError', 'Keys to derive from are not extractable');
  return newKey(handle, describe(algorithm, handle), extractable, wanted);
}

function exported(format, key) {
  if (!['raw', 'spki', 'pkcs8', 'jwk'].includes(format)) throw new TypeError(`'${format}' is not a key format.`);
  if (!isKey(key)) throw new TypeError('key is not a CryptoKey.');
  if (key.algorithm.name === 'HKDF' || key.algorithm.name === 'PBKDF2') unsupported();
  if (!key.extractable) refuse('InvalidAccessError', 'key is not extractable');
  const out = exportHandle(format, key);
  return format === 'jwk' ? out : plain(out);
}

const signing = (algorithm, key) => ({
  key: key.handle, dsaEncoding: 'ieee-p1363',
  ...(algorithm.name === 'RSA-PSS' ? { padding: node.constants.RSA_PKCS1_PSS_PADDING, saltLength: algorithm.saltLength } : {}),
});
const digestFor = (algorithm, key) => { const hash = algorithm.hash || key.algorithm.hash; return hash ? hashes[hash.name] : null; };

class SubtleCrypto {
  constructor(token) { if (token !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR'); }
  async digest(algorithm, data) {
    need(this, arguments, 2);
    const { name } = normalize(algorithm, 'digest');
    return plain(node.createHash(hashes[name]).update(bytes(data)).digest());
  }
  async generateKey(algorithm, extractable, list) { need(this, arguments, 3); return makeKey(normalize(algorithm, 'generateKey'), !!extractable, list); }
  async importKey(format, data, algorithm, extractable, list) {
    need(this, arguments, 5);
    return readKey(`${format}`, data, normalize(algorithm, 'importKey'), !!extractable, list);
  }
  async exportKey(format, key) { need(this, arguments, 2); return exported(`${format}`, key); }
  async sign(algorithm, key, data) {
    need(this, arguments, 3);
    algorithm = normalize(algorithm, 'sign');
    const input = bytes(data);
    use(key, algorithm, 'sign');
    if (algorithm.name === 'HMAC') return plain(node.createHmac(hashes[key.algorithm.hash.name], key.handle).update(input).digest());
    try { return plain(node.sign(digestFor(algorithm, key), input, signing(algorithm, key))); } catch { return failed(); }
  }
  async verify(algorithm, key, signature, data) {
    need(this, arguments, 4);
    algorithm = normalize(algorithm, 'verify');
    const got = bytes(signature, 'signature');
    const input = bytes(data);
    use(key, algorithm, 'verify');
    if (algorithm.name === 'HMAC') {
      const want = node.createHmac(hashes[key.algorithm.hash.name], key.handle).update(input).digest();
      return got.length === want.length && node.timingSafeEqual(got, want);
    }
    try { return node.verify(digestFor(algorithm, key), input, signing(algorithm, key), got); } catch { return false; }
  }
  async encrypt(algorithm, key, data) {
    need(this, arguments, 3);
    algorithm = normalize(algorithm, 'encrypt');
    const input = bytes(data);
    use(key, algorithm, 'encrypt');
    return crypt(algorithm, key, input, true);
  }
  async decrypt(algorithm, key, data) {
    need(this, arguments, 3);
    algorithm = normalize(algorithm, 'decrypt');
    const input = bytes(data);
    use(key, algorithm, 'decrypt');
    return crypt(algorithm, key, input, false);
  }
  async deriveBits(algorithm, key, length = null) {
    need(this, arguments, 2);
    algorithm = normalize(algorithm, 'deriveBits');
    use(key, algorithm, 'deriveBits');
    return derive(algorithm, key, length === null || length === undefined ? null : integer(length, 'length', 0xffffffff));
  }
  async deriveKey(algorithm, key, target, extractable, list) {
    need(this, arguments, 5);
    algorithm = normalize(algorithm, 'deriveBits');
    const wanted = normalize(target, 'importKey');
    const length = keyLength(normalize(target, 'get key length'));
    use(key, algorithm, 'deriveKey');
    return readKey('raw', derive(algorithm, key, length), wanted, !!extractable, list);
  }
  async wrapKey(format, key, wrapping, algorithm) {
    need(this, arguments, 4);
    algorithm = normalize(algorithm, 'wrapKey');
    use(wrapping, algorithm, 'wrapKey');
    let data = exported(`${format}`, key);
    data = format === 'jwk' ? Buffer.from(JSON.stringify(data)) : Buffer.from(data);
    if (algorithm.name !== 'AES-KW') return crypt(algorithm, wrapping, data, true);
    if (data.length % 8) failed();
    return plain(require('webcrypto_keys').wrap(wrapping.handle, data));
  }
  async unwrapKey(format, data, unwrapping, algorithm, target, extractable, list) {
    need(this, arguments, 7);
    algorithm = normalize(algorithm, 'unwrapKey');
    const wanted = normalize(target, 'importKey');
    const input = bytes(data, 'wrappedKey');
    use(unwrapping, algorithm, 'unwrapKey');
    let open = algorithm.name === 'AES-KW' ? require('webcrypto_keys').unwrap(unwrapping.handle, input) || failed() : Buffer.from(crypt(algorithm, unwrapping, input, false));
    if (format === 'jwk') {
      try { open = JSON.parse(open.toString()); } catch { refuse('DataError', 'Invalid wrapped JWK key'); }
    }
    return readKey(`${format}`, open, wanted, !!extractable, list);
  }
}

function need(self, args, count) {
  if (!(self instanceof SubtleCrypto)) raise('ERR_INVALID_THIS', 'SubtleCrypto');
  if (args.length < count) throw new TypeError(`${count} arguments required, but only ${args.length} present.`);
}

const subtle = new SubtleCrypto(secret);
const integers = ['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array', 'BigInt64Array', 'BigUint64Array'];

class Crypto {
  constructor(token) { if (token !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR'); }
  get subtle() { check(this); return subtle; }
  getRandomValues(view) {
    check(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'typedArray');
    if (!ArrayBuffer.isView(view) || !integers.some((name) => view instanceof globalThis[name])) refuse('TypeMismatchError', 'The data argument must be an integer-type TypedArray');
    if (view.byteLength > 65536) refuse('QuotaExceededError', 'The requested length exceeds 65,536 bytes');
    return node.randomFillSync(view);
  }
  randomUUID(options) { check(this); return node.randomUUID(options); }
}
const check = (self) => { if (!(self instanceof Crypto)) raise('ERR_INVALID_THIS', 'Crypto'); };
for (const Class of [CryptoKey, SubtleCrypto, Crypto]) {
  sys('enumerable')(Class.prototype, true);
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}
// Node's own functions accept a CryptoKey for its handle.
Object.defineProperty(CryptoKey.prototype, 'handle', { get() { return partsOf(this).handle; } });
const crypto = new Crypto(secret);
// Node's webcrypto exposes the class of keys along with its functions.
Object.defineProperty(crypto, 'CryptoKey', { value: CryptoKey, writable: true, configurable: true });
module.exports = { crypto, subtle, Crypto, CryptoKey, SubtleCrypto, isKey };
