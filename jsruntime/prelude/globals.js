'use strict';
// Globals of the language and of Node that goja does not have.

exports.queueMicrotask = function queueMicrotask(callback) {
  if (typeof callback !== 'function') {
    const err = new TypeError('The "callback" argument must be of type function. Received ' + String(callback));
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
  const fail = (err) => require('timers').setImmediate(() => { throw err; });
  Promise.resolve().then(callback).catch(fail);
};

// A run is short: references and registries keep what they hold.
exports.WeakRef = class WeakRef {
  #target;
  constructor(target) {
    if (target === null || (typeof target !== 'object' && typeof target !== 'function')) throw new TypeError('WeakRef: target must be an object');
    this.#target = target;
  }
  deref() { return this.#target; }
  get [Symbol.toStringTag]() { return 'WeakRef'; }
};

exports.FinalizationRegistry = class FinalizationRegistry {
  constructor(callback) {
    if (typeof callback !== 'function') throw new TypeError('FinalizationRegistry: cleanup must be callable');
  }
  register() {}
  unregister() { return false; }
  get [Symbol.toStringTag]() { return 'FinalizationRegistry'; }
};

// There is one thread, so that shared memory is memory.
exports.SharedArrayBuffer = class SharedArrayBuffer extends ArrayBuffer {
  get [Symbol.toStringTag]() { return 'SharedArrayBuffer'; }
};

const update = (compute) => (array, index, value) => {
  const old = array[index];
  array[index] = compute(old, typeof old === 'bigint' ? BigInt(value) : Math.trunc(+value) || 0);
  return old;
};
exports.Atomics = Object.freeze(Object.defineProperty({
  load: (array, index) => array[index],
  store: (array, index, value) => { array[index] = value; return value; },
  add: update((a, b) => a + b),
  sub: update((a, b) => a - b),
  and: update((a, b) => a & b),
  or: update((a, b) => a | b),
  xor: update((a, b) => a ^ b),
  exchange: update((a, b) => b),
  compareExchange: (array, index, expected, value) => {
    const old = array[index];
    if (old === expected) array[index] = value;
    return old;
  },
  isLockFree: (size) => size === 1 || size === 2 || size === 4 || size === 8,
  wait: () => 'timed-out',
  notify: () => 0,
}, Symbol.toStringTag, { value: 'Atomics' }));

// WebAssembly is there to be asked for, and cannot run anything.
const unsupported = () => { throw new Error('WebAssembly is not supported'); };
exports.WebAssembly = Object.freeze({
  validate: () => false,
  compile: async () => unsupported(),
  instantiate: async () => unsupported(),
  Module: class Module { constructor() { unsupported(); } },
  Instance: class Instance { constructor() { unsupported(); } },
});

exports.structuredClone = function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError("The \"value\" argument must be specified");
  return clone(value, new Map());
};

function clone(value, seen) {
  if (typeof value === 'function' || typeof value === 'symbol') {
    const { DOMException } = require('abort');
    throw new DOMException(`${String(value)} could not be cloned.`, 'DataCloneError');
  }
  if (value === null || typeof value !== 'object') return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => { seen.set(value, copy); return copy; };
  if (Array.isArray(value)) {
    const out = keep(new Array(value.length));
    for (const key of Object.keys(value)) out[key] = clone(value[key], seen);
    return out;
  }
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof Map) {
    const out = keep(new Map());
    for (const [k, v] of value) out.set(clone(k, seen), clone(v, seen));
    return out;
  }
  if (value instanceof Set) {
    const out = keep(new Set());
    for (const v of value) out.add(clone(v, seen));
    return out;
  }
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (value instanceof DataView) return keep(new DataView(clone(value.buffer, seen), value.byteOffset, value.byteLength));
  if (ArrayBuffer.isView(value)) {
    const Type = value.constructor.name === 'Buffer' ? Uint8Array : value.constructor;
    return keep(new Type(clone(value.buffer, seen), value.byteOffset, value.length));
  }
  if (value instanceof Boolean || value instanceof Number || value instanceof String) return keep(Object(value.valueOf()));
  if (value instanceof Error) {
    const known = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const out = keep(new (known[value.name] || Error)(value.message));
    out.stack = value.stack;
    if ('cause' in value) out.cause = clone(value.cause, seen);
    return out;
  }
  const out = keep({});
  for (const key of Object.keys(value)) out[key] = clone(value[key], seen);
  return out;
}

exports.escape = (text) => String(text).replace(/[^A-Za-z0-9@*_+\-./]/g, (c) => {
  const code = c.charCodeAt(0).toString(16).toUpperCase();
  return code.length <= 2 ? '%' + code.padStart(2, '0') : '%u' + code.padStart(4, '0');
});
exports.unescape = (text) => String(text).replace(/%u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})/g,
  (_, long, short) => String.fromCharCode(parseInt(long || short, 16)));
