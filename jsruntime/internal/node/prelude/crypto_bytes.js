'use strict';
// What all parts of Node's crypto need: bytes of text and views, and errors.
const { Buffer } = require('buffer');
const { encodingOf } = require('buffer_encodings');
const decode = sys('buffer.decode');
const raise = (...args) => require('codes').raise(...args);

function fail(Type, code, message) {
  const err = new Type(message);
  err.code = code;
  throw err;
}

const isShared = (value) => Object.prototype.toString.call(value) === '[object SharedArrayBuffer]';

// toBytes returns the bytes of text or of a view.
function toBytes(value, encoding, name = 'data') {
  if (typeof value === 'string') return Buffer.from(value, encoding === 'buffer' ? 'utf8' : encoding);
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer || isShared(value)) return new Uint8Array(value);
  return raise('ERR_INVALID_ARG_TYPE', name, ['string', 'ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], value);
}

const output = (bytes, encoding) => (encoding && encoding !== 'buffer' ? decode(bytes, encodingOf(encoding)) : Buffer.from(bytes));

module.exports = { fail, isShared, toBytes, output };
