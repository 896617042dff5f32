'use strict';
const { inspect, format } = require('inspect');
const customPromisify = Symbol.for('nodejs.util.promisify.custom');

function checkFunction(value, name) {
  if (typeof value !== 'function') {
    const err = new TypeError(`The "${name}" argument must be of type function. Received ${value === null ? 'null' : typeof value}`);
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
}

function promisify(original) {
  checkFunction(original, 'original');
  if (original[customPromisify]) return original[customPromisify];
  function wrapped(...args) {
    return new Promise((resolve, reject) => {
      original.call(this, ...args, (err, value) => (err ? reject(err) : resolve(value)));
    });
  }
  Object.setPrototypeOf(wrapped, Object.getPrototypeOf(original));
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(original));
}
promisify.custom = customPromisify;

function callbackify(original) {
  checkFunction(original, 'original');
  return function (...args) {
    const callback = args.pop();
    checkFunction(callback, 'last argument');
    const { nextTick } = require('process');
    original.apply(this, args).then(
      (value) => nextTick(callback, null, value),
      (reason) => {
        if (!reason) {
          const err = new Error('Promise was rejected with a falsy value');
          err.reason = reason;
          err.code = 'ERR_FALSY_VALUE_REJECTION';
          reason = err;
        }
        nextTick(callback, reason);
      });
  };
}

function inherits(ctor, parent) {
  Object.defineProperty(ctor, 'super_', { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(ctor.prototype, parent.prototype);
}

const warned = new Set();
function deprecate(f, message, code) {
  return function (...args) {
    if (!warned.has(code || message)) {
      warned.add(code || message);
      sys('log')('warn', `DeprecationWarning: ${message}`);
    }
    return new.target ? Reflect.construct(f, args, new.target) : f.apply(this, args);
  };
}

const debuglog = () => Object.assign(() => {}, { enabled: false });
const types = require('util_types');

module.exports = {
  inspect, format, promisify, callbackify, inherits, deprecate, debuglog, debug: debuglog, types,
  formatWithOptions: (options, ...args) => format(...args),
  isDeepStrictEqual: (a, b) => require('equal')(a, b, true),
  stripVTControlCharacters: (text) => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, ''),
  toUSVString: (text) => String(text).replace(/[\ud800-\udbff](?![\udc00-\udfff])|(^|[^\ud800-\udbff])[\udc00-\udfff]/g, (m, before) => (before || '') + '\ufffd'),
  getSystemErrorName: () => undefined,
  isArray: Array.isArray,
  isBoolean: (v) => typeof v === 'boolean',
  isNull: (v) => v === null,
  isNullOrUndefined: (v) => v === null || v === undefined,
  isNumber: (v) => typeof v === 'number',
  isString: (v) => typeof v === 'string',
  isSymbol: (v) => typeof v === 'symbol',
  isUndefined: (v) => v === undefined,
  isRegExp: types.isRegExp,
  isObject: (v) => v !== null && typeof v === 'object',
  isDate: types.isDate,
  isError: (v) => v instanceof Error,
  isFunction: (v) => typeof v === 'function',
  isPrimitive: (v) => v === null || (typeof v !== 'object' && typeof v !== 'function'),
  isBuffer: (v) => require('buffer').Buffer.isBuffer(v),
};
for (const name of ['TextEncoder', 'TextDecoder']) {
  Object.defineProperty(module.exports, name, { get: () => require('encoding')[name], enumerable: true });
}
