'use strict';
// Shared parts of the streams of the WHATWG standard.
const { raise } = require('codes');

const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function');

function deferred() {
  const out = {};
  out.promise = new Promise((resolve, reject) => { out.resolve = resolve; out.reject = reject; });
  return out;
}

function markHandled(promise) { promise.then(undefined, () => {}); }

function checkFunction(value, name) {
  if (value !== undefined && typeof value !== 'function') raise('ERR_INVALID_ARG_TYPE', name, 'Function', value);
  return value;
}

function strategyOf(strategy, standard) {
  if (strategy !== undefined && strategy !== null && !isObject(strategy)) raise('ERR_INVALID_ARG_TYPE', 'strategy', 'Object', strategy);
  const { highWaterMark, size } = strategy || {};
  if (size !== undefined && typeof size !== 'function') raise('ERR_INVALID_ARG_TYPE', 'strategy.size', 'Function', size);
  if (highWaterMark === undefined) return { highWaterMark: standard, size };
  const mark = Number(highWaterMark);
  if (Number.isNaN(mark) || mark < 0) raise('ERR_INVALID_ARG_VALUE_RANGE', 'strategy.highWaterMark', highWaterMark);
  return { highWaterMark: mark, size };
}

// Queue tracks the total size of its items.
class Queue {
  constructor() { this.reset(); }
  reset() { this.items = []; this.total = 0; }
  get length() { return this.items.length; }
  push(value, size) {
    size = Number(size);
    if (Number.isNaN(size) || size < 0 || size === Infinity) raise('ERR_INVALID_ARG_VALUE_RANGE', 'size', size);
    this.items.push({ value, size });
    this.total += size;
  }
  unshift(value, size) { this.items.unshift({ value, size }); this.total += size; }
  first() { return this.items[0].value; }
  replace(value, size) { this.total += size - this.items[0].size; this.items[0] = { value, size }; }
  shift() {
    const { value, size } = this.items.shift();
    this.total = Math.max(0, this.total - size);
    return value;
  }
}

const marks = new WeakMap();
const define = (name, size) => {
  const Class = {
    [name]: class {
      constructor(init) {
        if (!isObject(init)) raise('ERR_INVALID_ARG_TYPE', 'init', 'Object', init);
        if (init.highWaterMark === undefined) raise('ERR_MISSING_OPTION', 'init.highWaterMark');
        marks.set(this, Number(init.highWaterMark));
      }
      get highWaterMark() { return marks.has(this) ? marks.get(this) : raise('ERR_INVALID_THIS', name); }
      get size() { return marks.has(this) ? size : raise('ERR_INVALID_THIS', name); }
    },
  }[name];
  return Class;
};

module.exports = {
  isObject, deferred, markHandled, checkFunction, strategyOf, Queue,
  ByteLengthQueuingStrategy: define('ByteLengthQueuingStrategy', Object.defineProperty((chunk) => chunk.byteLength, 'name', { value: 'size' })),
  CountQueuingStrategy: define('CountQueuingStrategy', Object.defineProperty(() => 1, 'name', { value: 'size' })),
};
