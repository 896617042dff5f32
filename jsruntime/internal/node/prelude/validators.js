'use strict';
// Checks of arguments, for all modules.
const { raise } = require('codes');

function validateString(value, name) {
  if (typeof value !== 'string') raise('ERR_INVALID_ARG_TYPE', name, 'string', value);
}

function validateBoolean(value, name) {
  if (typeof value !== 'boolean') raise('ERR_INVALID_ARG_TYPE', name, 'boolean', value);
}

function validateNumber(value, name, min, max) {
  if (typeof value !== 'number') raise('ERR_INVALID_ARG_TYPE', name, 'number', value);
  if ((min !== undefined && !(value >= min)) || (max !== undefined && !(value <= max))) {
    const range = [min !== undefined ? `>= ${min}` : '', max !== undefined ? `<= ${max}` : ''].filter(Boolean).join(' && ');
    raise('ERR_OUT_OF_RANGE', name, range, value);
  }
}

function validateInteger(value, name, min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== 'number') raise('ERR_INVALID_ARG_TYPE', name, 'number', value);
  if (!Number.isInteger(value)) raise('ERR_OUT_OF_RANGE', name, 'an integer', value);
  if (value < min || value > max) raise('ERR_OUT_OF_RANGE', name, `>= ${min} && <= ${max}`, value);
}

const validateInt32 = (value, name, min = -2147483648, max = 2147483647) => validateInteger(value, name, min, max);
const validateUint32 = (value, name, positive = false) => validateInteger(value, name, positive ? 1 : 0, 4294967295);

function validateObject(value, name, options = {}) {
  const ok = (options.nullable && value === null) || (value !== null && typeof value === 'object' && (options.allowArray || !Array.isArray(value)))
    || (options.allowFunction && typeof value === 'function');
  if (!ok) raise('ERR_INVALID_ARG_TYPE', name, 'Object', value);
}

function validateArray(value, name, minLength = 0) {
  if (!Array.isArray(value)) raise('ERR_INVALID_ARG_TYPE', name, 'Array', value);
  if (value.length < minLength) raise('ERR_INVALID_ARG_VALUE', name, value, `must be longer than ${minLength}`);
}

function validateFunction(value, name) {
  if (typeof value !== 'function') raise('ERR_INVALID_ARG_TYPE', name, 'Function', value);
}

function validateCallback(value) {
  if (typeof value !== 'function') raise('ERR_INVALID_CALLBACK', value);
}

function validateOneOf(value, name, allowed) {
  if (allowed.includes(value)) return;
  const list = allowed.map((item) => (typeof item === 'string' ? `'${item}'` : String(item))).join(', ');
  raise('ERR_INVALID_ARG_VALUE', name, value, 'must be one of: ' + list);
}

function validateAbortSignal(value, name) {
  if (value !== undefined && (value === null || typeof value !== 'object' || !('aborted' in value))) {
    raise('ERR_INVALID_ARG_TYPE', name, 'AbortSignal', value);
  }
}

function validateBuffer(value, name = 'buffer') {
  if (!ArrayBuffer.isView(value)) raise('ERR_INVALID_ARG_TYPE', name, ['Buffer', 'TypedArray', 'DataView'], value);
}

module.exports = {
  validateString, validateBoolean, validateNumber, validateInteger, validateInt32, validateUint32, validateObject, validateArray,
  validateFunction, validateCallback, validateOneOf, validateAbortSignal, validateBuffer,
};
