'use strict';
// Random values of Node's crypto.
const { Buffer } = require('buffer');
const { isShared } = require('crypto_bytes');
const { validateCallback, validateObject, validateBoolean } = require('validators');
const raise = (...args) => require('codes').raise(...args);
const random = sys('crypto.random');

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

module.exports = {
  later, maxSize,
  randomBytes, randomFillSync, randomInt, randomUUID,
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
};
