'use strict';
const { inspect, format } = require('inspect');
const customPromisify = Symbol.for('nodejs.util.promisify.custom');

const { raise, make } = require('codes');
const { validateFunction, validateString } = require('validators');

function promisify(original) {
  validateFunction(original, 'original');
  const custom = original[customPromisify];
  if (custom) {
    validateFunction(custom, 'util.promisify.custom');
    return Object.defineProperty(custom, customPromisify, { value: custom, enumerable: false, writable: false, configurable: true });
  }
  function wrapped(...args) {
    return new Promise((resolve, reject) => {
      original.call(this, ...args, (err, value) => (err ? reject(err) : resolve(value)));
    });
  }
  Object.setPrototypeOf(wrapped, Object.getPrototypeOf(original));
  Object.defineProperty(wrapped, customPromisify, { value: wrapped, enumerable: false, writable: false, configurable: true });
  return Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(original));
}
promisify.custom = customPromisify;

function timestamp() {
  const now = new Date();
  const two = (n) => String(n).padStart(2, '0');
  const month = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'][now.getMonth()];
  return `${now.getDate()} ${month} ${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`;
}

function callbackify(original) {
  validateFunction(original, 'original');
  function callbackified(...args) {
    const callback = args.pop();
    validateFunction(callback, 'last argument');
    const { nextTick } = require('process');
    Reflect.apply(original, this, args).then(
      (value) => nextTick(callback.bind(this, null, value)),
      (reason) => {
        if (!reason) { const err = make('ERR_FALSY_VALUE_REJECTION'); err.reason = reason; reason = err; }
        nextTick(callback.bind(this, reason));
      });
  }
  const found = Object.getOwnPropertyDescriptors(original);
  if (typeof found.length.value === 'number') found.length.value++;
  if (typeof found.name.value === 'string') found.name.value += 'Callbackified';
  return Object.defineProperties(callbackified, found);
}

function inherits(ctor, parent) {
  if (ctor === undefined || ctor === null) raise('ERR_INVALID_ARG_TYPE', 'ctor', 'Function', ctor);
  if (parent === undefined || parent === null) raise('ERR_INVALID_ARG_TYPE', 'superCtor', 'Function', parent);
  if (parent.prototype === undefined) raise('ERR_INVALID_ARG_TYPE', 'superCtor.prototype', 'Object', parent.prototype);
  Object.defineProperty(ctor, 'super_', { value: parent, writable: true, configurable: true });
  Object.setPrototypeOf(ctor.prototype, parent.prototype);
}

const warned = new Set();
function deprecate(f, message, code) {
  if (code !== undefined) validateString(code, 'code');
  let said = false;
  function deprecated(...args) {
    if (!said && !(code !== undefined && warned.has(code))) {
      said = true;
      if (code !== undefined) warned.add(code);
      require('process').emitWarning(message, 'DeprecationWarning', code);
    }
    return new.target ? Reflect.construct(f, args, new.target) : Reflect.apply(f, this, args);
  }
  Object.setPrototypeOf(deprecated, f);
  if (f.prototype) deprecated.prototype = f.prototype;
  return deprecated;
}

const debuglog = () => Object.assign(() => {}, { enabled: false });
const types = require('util_types');

module.exports = {
  inspect, format, promisify, callbackify, inherits, deprecate, debuglog, debug: debuglog, types,
  formatWithOptions(options, ...args) {
    require('validators').validateObject(options, 'inspectOptions', { allowArray: true });
    return require('inspect').formatWithOptions(options, ...args);
  },
  log: (...args) => console.log('%s - %s', timestamp(), format(...args)),
  isDeepStrictEqual: (a, b) => require('equal')(a, b, true),
  stripVTControlCharacters: (text) => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, ''),
  toUSVString: (text) => sys('text.wellFormed')(`${text}`),
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
Object.defineProperty(module.exports, 'parseArgs', { get: () => require('parse_args'), enumerable: true, configurable: true });
for (const name of ['TextEncoder', 'TextDecoder']) {
  Object.defineProperty(module.exports, name, { get: () => require('encoding')[name], enumerable: true });
}
