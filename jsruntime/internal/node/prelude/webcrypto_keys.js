'use strict';
// Import and export of Web Crypto keys, and the key wrap of RFC 3394.
const node = require('crypto');
const { Buffer } = require('buffer');
const { refuse, curves, isPair, bytes, aes } = require('webcrypto_algorithms');

const bad = (message) => refuse('DataError', message);
const rsaNames = { 'RSASSA-PKCS1-v1_5': 'RS', 'RSA-PSS': 'PS', 'RSA-OAEP': 'RSA-OAEP' };

// signatureNames are the alg members that a key of a curve may have.
const signatureNames = { 'P-256': ['ES256'], 'P-384': ['ES384'], 'P-521': ['ES512'], Ed25519: ['EdDSA', 'Ed25519'] };

// jwkName returns the alg member for a key.
function jwkName(algorithm, length) {
  const { name, hash } = algorithm;
  const bits = hash ? hash.name.slice(4) : '';
  if (name === 'HMAC') return 'HS' + bits;
  if (name === 'RSA-OAEP') return bits === '1' ? 'RSA-OAEP' : `RSA-OAEP-${bits}`;
  if (rsaNames[name]) return rsaNames[name] + bits;
  if (aes.includes(name)) return `A${length}${name === 'AES-KW' ? 'KW' : name.slice(4)}`;
  return undefined;
}

function checkJwk(jwk, algorithm, extractable, wanted) {
  if (jwk === null || typeof jwk !== 'object') throw new TypeError('keyData is not an object.');
  const { name } = algorithm;
  const kty = name.startsWith('RSA') ? 'RSA' : name.startsWith('EC') ? 'EC' : isPair(name) ? 'OKP' : 'oct';
  if (jwk.kty !== kty) bad('Invalid JWK "kty" Parameter');
  if (jwk.ext !== undefined && extractable && jwk.ext === false) bad('JWK "ext" Parameter and extractable mismatch');
  const use = { HMAC: 'sig', ECDSA: 'sig', Ed25519: 'sig', 'RSA-PSS': 'sig', 'RSASSA-PKCS1-v1_5': 'sig' }[name] || 'enc';
  if (jwk.use !== undefined && jwk.use !== use && wanted.length) bad('Invalid JWK "use" Parameter');
  if (jwk.key_ops !== undefined) {
    if (!Array.isArray(jwk.key_ops) || new Set(jwk.key_ops).size !== jwk.key_ops.length) bad('Invalid JWK "key_ops" Parameter');
    if (wanted.some((usage) => !jwk.key_ops.includes(usage))) bad('Key operations and usage mismatch');
  }
}

function fromJwk(jwk, algorithm, extractable, wanted) {
  checkJwk(jwk, algorithm, extractable, wanted);
  if (!isPair(algorithm.name)) {
    if (typeof jwk.k !== 'string') bad('Invalid keyData');
    const key = Buffer.from(jwk.k, 'base64url');
    const want = jwkName(algorithm, key.length * 8);
    if (jwk.alg !== undefined && want !== undefined && jwk.alg !== want) bad('JWK "alg" does not match the requested algorithm');
    return node.createSecretKey(key);
  }
  const want = signatureNames[algorithm.namedCurve || algorithm.name] || [jwkName(algorithm)];
  if (jwk.alg !== undefined && !algorithm.name.endsWith('DH') && algorithm.name !== 'X25519' && !want.includes(jwk.alg)) bad('JWK "alg" does not match the requested algorithm');
  if (algorithm.name.startsWith('EC') && jwk.crv !== algorithm.namedCurve) bad('JWK "crv" does not match the requested algorithm');
  if (['Ed25519', 'X25519'].includes(algorithm.name) && jwk.crv !== algorithm.name) bad('JWK "crv" does not match the requested algorithm');
  try {
    return jwk.d !== undefined ? node.createPrivateKey({ key: jwk, format: 'jwk' }) : node.createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return bad('Invalid keyData');
  }
}

function fromRaw(data, algorithm) {
  const { name } = algorithm;
  if (!isPair(name)) return node.createSecretKey(data);
  if (name.startsWith('RSA')) refuse('NotSupportedError', `Unable to import ${name} using raw format`);
  const half = (data.length - 1) / 2;
  const text = (part) => part.toString('base64url');
  let jwk = { kty: 'OKP', crv: name, x: text(data) };
  if (name.startsWith('EC')) {
    const size = { 'P-256': 32, 'P-384': 48, 'P-521': 66 }[algorithm.namedCurve];
    if (data[0] === 4 && half !== size) bad('Invalid keyData');
    if (data[0] !== 4) {
      if (data.length !== size + 1 || (data[0] !== 2 && data[0] !== 3)) bad('Invalid keyData');
      refuse('NotSupportedError', 'Compressed points are not supported');
    }
    jwk = { kty: 'EC', crv: algorithm.namedCurve, x: text(data.subarray(1, 1 + half)), y: text(data.subarray(1 + half)) };
  } else if (data.length !== 32) {
    bad('Invalid keyData');
  }
  try { return node.createPublicKey({ key: jwk, format: 'jwk' }); } catch { return bad('Invalid keyData'); }
}

// importHandle reads a key in one of the formats.
function importHandle(format, data, algorithm, extractable, wanted) {
  if (algorithm.name.startsWith('EC') && !curves.includes(algorithm.namedCurve)) refuse('NotSupportedError', 'Unrecognized namedCurve');
  if (format === 'jwk') {
    if (algorithm.name === 'HKDF' || algorithm.name === 'PBKDF2') refuse('NotSupportedError', 'Unable to import this key using jwk format');
    return fromJwk(data, algorithm, extractable, wanted);
  }
  const input = bytes(data, 'keyData');
  if (format === 'raw') return fromRaw(input, algorithm);
  if (!isPair(algorithm.name)) refuse('NotSupportedError', `Unable to import ${algorithm.name} key using ${format} format`);
  let handle;
  try {
    handle = format === 'pkcs8' ? node.createPrivateKey({ key: input, format: 'der', type: 'pkcs8' }) : node.createPublicKey({ key: input, format: 'der', type: 'spki' });
  } catch {
    bad('Invalid keyData');
  }
  checkKind(handle, algorithm);
  return handle;
}

// checkKind rejects a key whose algorithm differs from the declared one.
function checkKind(handle, algorithm) {
  const kind = handle.asymmetricKeyType;
  const want = algorithm.name.startsWith('RSA') ? 'rsa' : algorithm.name.startsWith('EC') ? 'ec' : algorithm.name.toLowerCase();
  if (kind !== want) bad('Invalid key type');
  if (want !== 'ec') return;
  const curve = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' }[handle.asymmetricKeyDetails.namedCurve];
  if (curve !== algorithm.namedCurve) bad('Named curve mismatch');
}

// exportHandle writes a key in one of the formats.
function exportHandle(format, key) {
  const { handle, type, algorithm } = key;
  const wrong = () => refuse('NotSupportedError', `Unable to export a raw ${algorithm.name} ${type} key`);
  if (format === 'jwk') {
    const alg = jwkName(algorithm, algorithm.length);
    return { key_ops: [...key.usages], ext: key.extractable, ...handle.export({ format: 'jwk' }), ...(alg ? { alg } : {}) };
  }
  if (format === 'raw') {
    if (type === 'secret') return handle.export();
    if (type !== 'public' || algorithm.name.startsWith('RSA')) refuse(type === 'private' ? 'InvalidAccessError' : 'NotSupportedError', 'Unable to export the key in raw format');
    const { x, y } = handle.export({ format: 'jwk' });
    return y ? Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]) : Buffer.from(x, 'base64url');
  }
  if (type === 'secret') return wrong();
  if (type !== (format === 'spki' ? 'public' : 'private')) refuse('InvalidAccessError', `Unable to export the key in ${format} format`);
  return handle.export({ format: 'der', type: format });
}

const initial = Buffer.from('a6a6a6a6a6a6a6a6', 'hex');
const ecb = (handle, block, encrypt) => {
  const name = `aes-${handle.symmetricKeySize * 8}-ecb`;
  const state = encrypt ? node.createCipheriv(name, handle, null) : node.createDecipheriv(name, handle, null);
  state.setAutoPadding(false);
  return Buffer.concat([state.update(block), state.final()]);
};
const addCount = (a, t) => { const out = Buffer.from(a); out.writeUInt32BE((out.readUInt32BE(4) ^ t) >>> 0, 4); return out; };

// wrap and unwrap are the key wrap of RFC 3394.
function wrap(handle, data) {
  const n = data.length / 8;
  const r = Array.from({ length: n }, (_, i) => data.subarray(8 * i, 8 * i + 8));
  let a = initial;
  for (let j = 0; j < 6; j++) {
    for (let i = 0; i < n; i++) {
      const b = ecb(handle, Buffer.concat([a, r[i]]), true);
      a = addCount(b.subarray(0, 8), n * j + i + 1);
      r[i] = b.subarray(8);
    }
  }
  return Buffer.concat([a, ...r]);
}

function unwrap(handle, data) {
  const n = data.length / 8 - 1;
  if (!Number.isInteger(n) || n < 2) return undefined;
  let a = data.subarray(0, 8);
  const r = Array.from({ length: n }, (_, i) => data.subarray(8 * i + 8, 8 * i + 16));
  for (let j = 5; j >= 0; j--) {
    for (let i = n - 1; i >= 0; i--) {
      const b = ecb(handle, Buffer.concat([addCount(a, n * j + i + 1), r[i]]), false);
      a = b.subarray(0, 8);
      r[i] = b.subarray(8);
    }
  }
  return a.equals(initial) ? Buffer.concat(r) : undefined;
}

module.exports = { importHandle, exportHandle, wrap, unwrap };
