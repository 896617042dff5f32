'use strict';
// Shared memory and Atomics. There is one thread, so shared memory is ordinary
// memory.
const shared = new WeakSet();
const typedTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
const isDetached = sys('buffer.detached');
const classOf = sys('classOf');

const byteLength = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength').get;
const slice = ArrayBuffer.prototype.slice;
const own = (buffer) => {
  if (!shared.has(buffer)) throw new TypeError('the receiver is not a SharedArrayBuffer');
  return buffer;
};

function SharedArrayBuffer(length) {
  if (!new.target) throw new TypeError("Constructor SharedArrayBuffer requires 'new'");
  const out = Reflect.construct(ArrayBuffer, [length], new.target);
  if (Object.getPrototypeOf(out) === ArrayBuffer.prototype && new.target.prototype !== ArrayBuffer.prototype) Object.setPrototypeOf(out, SharedArrayBuffer.prototype);
  shared.add(out);
  return out;
}
Object.defineProperty(ArrayBuffer.prototype, 'slice', {
  value: { slice(start, end) {
    if (shared.has(this)) throw new TypeError('the receiver is not an ArrayBuffer');
    return slice.call(this, start, end);
  } }.slice,
  writable: true,
  configurable: true,
});
const members = {
  get byteLength() { return byteLength.call(own(this)); },
  slice(start, end) {
    const size = byteLength.call(own(this));
    const from = relative(start, size, 0);
    const to = relative(end, size, size);
    const { constructor } = this;
    if (constructor !== undefined && (constructor === null || (typeof constructor !== 'object' && typeof constructor !== 'function'))) throw new TypeError('object.constructor is not an object');
    const species = constructor === undefined ? undefined : constructor[Symbol.species];
    const length = Math.max(to - from, 0);
    const out = new (species === undefined || species === null ? SharedArrayBuffer : species)(length);
    own(out);
    if (out === this) throw new TypeError('SharedArrayBuffer subclass returned this from species constructor');
    if (byteLength.call(out) < length) throw new TypeError('Species constructor returned a too small SharedArrayBuffer');
    new Uint8Array(out).set(new Uint8Array(slice.call(this, from, from + length)));
    return out;
  },
};
function relative(value, size, missing) {
  if (value === undefined) return missing;
  const n = Math.trunc(+value) || 0;
  return n < 0 ? Math.max(size + n, 0) : Math.min(n, size);
}
SharedArrayBuffer.prototype = Object.create(Object.prototype, { constructor: { value: SharedArrayBuffer, writable: true, configurable: true } });
for (const key of Object.keys(members)) Object.defineProperty(SharedArrayBuffer.prototype, key, { ...Object.getOwnPropertyDescriptor(members, key), enumerable: false });
Object.defineProperty(SharedArrayBuffer.prototype, Symbol.toStringTag, { value: 'SharedArrayBuffer', configurable: true });
Object.defineProperty(SharedArrayBuffer, 'prototype', { writable: false });
Object.defineProperty(SharedArrayBuffer, Symbol.species, {
  get: Object.getOwnPropertyDescriptor({ get [Symbol.species]() { return this; } }, Symbol.species).get, configurable: true,
});

// integerArray checks that Atomics may use a value, and returns the name of its
// class.
function integerArray(array, waitable) {
  const name = array !== null && typeof array === 'object' && ArrayBuffer.isView(array) ? typedTag.call(array) : undefined;
  const good = waitable ? /^(Int32|BigInt64)Array$/ : /^(Big)?(Int|Uint)(8|16|32|64)Array$/;
  if (!good.test(name)) throw new TypeError(`[object ${name || 'Object'}] is not an integer ${waitable ? 'shared ' : ''}typed array.`);
  usable(array);
  return name;
}
function usable(array) {
  if (isDetached(array.buffer)) throw new TypeError('Cannot perform Atomics operation on a detached ArrayBuffer');
}
function position(array, index) {
  const { length } = array;
  const n = Math.trunc(+index) || 0;
  if (n < 0 || n >= length) throw new RangeError('Invalid atomic access index');
  return n;
}
// number converts a value to the type of an array, as far as code can see.
const number = (name, value) => {
  if (name.startsWith('Big')) return BigInt.asIntN(4096, value);
  const n = +value;
  return Number.isFinite(n) ? Math.trunc(n) + 0 : n || 0;
};

const update = (compute) => (array, index, value) => {
  const name = integerArray(array);
  const i = position(array, index);
  const operand = number(name, value);
  usable(array);
  const old = array[i];
  array[i] = compute(old, operand);
  return old;
};
const [add, sub, and, or, xor, exchange] = [
  (a, b) => a + b, (a, b) => a - b, (a, b) => a & b, (a, b) => a | b, (a, b) => a ^ b, (a, b) => b,
].map(update);

function waiting(array, index, value, timeout) {
  const name = integerArray(array, true);
  if (!shared.has(array.buffer)) throw new TypeError(`${Object.prototype.toString.call(array)} is not a shared typed array.`);
  const i = position(array, index);
  const expected = name.startsWith('Big') ? BigInt.asIntN(64, value) : value | 0;
  const q = timeout === undefined ? NaN : +timeout;
  return { equal: array[i] === expected, i, ms: Number.isNaN(q) ? Infinity : Math.max(q, 0) };
}
const waiters = []; // of waitAsync

const operations = {
  load(array, index) { integerArray(array); const i = position(array, index); usable(array); return array[i]; },
  store(array, index, value) {
    const name = integerArray(array);
    const i = position(array, index);
    const v = number(name, value);
    usable(array);
    array[i] = v;
    return v;
  },
  add(array, index, value) { return add(array, index, value); },
  sub(array, index, value) { return sub(array, index, value); },
  and(array, index, value) { return and(array, index, value); },
  or(array, index, value) { return or(array, index, value); },
  xor(array, index, value) { return xor(array, index, value); },
  exchange(array, index, value) { return exchange(array, index, value); },
  compareExchange(array, index, expected, replacement) {
    const name = integerArray(array);
    const i = position(array, index);
    const probe = new globalThis[name](1);
    const wanted = number(name, expected);
    const v = number(name, replacement);
    usable(array);
    probe[0] = wanted;
    const old = array[i];
    if (old === probe[0]) array[i] = v;
    return old;
  },
  isLockFree(size) { const n = Math.trunc(+size) || 0; return n === 1 || n === 2 || n === 4 || n === 8; },
  // Nothing could wake up the only thread.
  wait(array, index, value, timeout) {
    const { equal, ms } = waiting(array, index, value, timeout);
    if (!equal) return 'not-equal';
    if (ms === Infinity) throw new Error('Atomics.wait would wait for ever: there is one thread');
    return 'timed-out';
  },
  waitAsync(array, index, value, timeout) {
    const { equal, i, ms } = waiting(array, index, value, timeout);
    if (!equal) return { async: false, value: 'not-equal' };
    if (ms === 0) return { async: false, value: 'timed-out' };
    const waiter = { buffer: array.buffer, at: array.byteOffset + i * array.BYTES_PER_ELEMENT };
    const promise = new Promise((resolve) => { waiter.wake = resolve; });
    waiters.push(waiter);
    if (ms !== Infinity) require('timers').setTimeout(() => { waiters.splice(waiters.indexOf(waiter), 1); waiter.wake('timed-out'); }, ms);
    return { async: true, value: promise };
  },
  notify(array, index, count) {
    integerArray(array, true);
    const at = array.byteOffset + position(array, index) * array.BYTES_PER_ELEMENT;
    const most = count === undefined ? Infinity : Math.max(Math.trunc(+count) || 0, 0);
    if (!shared.has(array.buffer)) return 0;
    let woken = 0;
    for (let n = 0; n < waiters.length && woken < most;) {
      if (waiters[n].buffer !== array.buffer || waiters[n].at !== at) { n++; continue; }
      waiters.splice(n, 1)[0].wake('ok');
      woken++;
    }
    return woken;
  },
};
const Atomics = Object.create(Object.prototype);
for (const name of Object.keys(operations)) Object.defineProperty(Atomics, name, { value: operations[name], writable: true, configurable: true });
Object.defineProperty(Atomics, Symbol.toStringTag, { value: 'Atomics', configurable: true });

module.exports = { SharedArrayBuffer, Atomics, isShared: (value) => classOf(value) !== '' && shared.has(value) };
