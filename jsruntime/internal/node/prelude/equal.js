'use strict';
// Deep comparison, for util.isDeepStrictEqual and assert.
const classOf = sys('classOf');
const tagOf = (value) => Object.prototype.toString.call(value);
const hasOwn = (value, key) => Object.prototype.hasOwnProperty.call(value, key);
const isEnumerable = (value, key) => Object.prototype.propertyIsEnumerable.call(value, key);
const isObject = (value) => value !== null && typeof value === 'object';
const sameNaN = (a, b) => a !== a && b !== b;

function deepEqual(a, b, strict, seen) {
  if (a === b) return a !== 0 || !strict || Object.is(a, b);
  if (strict) {
    if (typeof a !== 'object') return typeof a === 'number' && sameNaN(a, b);
    if (!isObject(a) || !isObject(b)) return false;
    if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  } else {
    if (!isObject(a)) return !isObject(b) && (a == b || sameNaN(a, b));
    if (!isObject(b)) return false;
  }
  if (tagOf(a) !== tagOf(b) || Array.isArray(a) !== Array.isArray(b) || kindOf(a) !== kindOf(b)) return false;
  seen = seen || [];
  for (const [x, y] of seen) if (x === a || y === b) return x === a && y === b;
  seen.push([a, b]);
  const out = sameInside(a, b, strict, seen);
  seen.pop();
  return out;
}

const kinds = [[Map, 'Map'], [Set, 'Set'], [WeakMap, 'Weak'], [WeakSet, 'Weak'], [Promise, 'Promise']];

// kindOf distinguishes the kinds of values that are compared differently.
function kindOf(value) {
  if (ArrayBuffer.isView(value)) return value instanceof DataView ? 'DataView' : 'Typed';
  const name = classOf(value);
  if (name !== 'Object') return name;
  const found = kinds.find(([Class]) => value instanceof Class);
  return found ? found[1] : 'Object';
}

function sameInside(a, b, strict, seen) {
  switch (kindOf(a)) {
    case 'Date':
      if (!Object.is(Date.prototype.getTime.call(a), Date.prototype.getTime.call(b))) return false;
      break;
    case 'RegExp':
      if (a.source !== b.source || a.flags !== b.flags || a.lastIndex !== b.lastIndex) return false;
      break;
    case 'Error':
      if (a.message !== b.message || a.name !== b.name) return false;
      break;
    case 'Number': case 'String': case 'Boolean': case 'BigInt': case 'Symbol':
      if (!sameBoxed(a, b)) return false;
      break;
    case 'Typed':
      return sameTyped(a, b, strict) && sameKeys(a, b, strict, seen, (key) => !/^\d+$/.test(key));
    case 'DataView':
    case 'ArrayBuffer':
      if (!sameBytes(bytesOf(a), bytesOf(b))) return false;
      break;
    case 'Set':
      return a.size === b.size && sameSet(a, b, strict, seen) && sameKeys(a, b, strict, seen);
    case 'Map':
      return a.size === b.size && sameMap(a, b, strict, seen) && sameKeys(a, b, strict, seen);
    case 'Weak':
    case 'Promise':
      return false;
  }
  if (Array.isArray(a)) return a.length === b.length && sameKeys(a, b, strict, seen);
  return sameKeys(a, b, strict, seen);
}

function sameBoxed(a, b) {
  for (const Class of [Number, String, Boolean, BigInt, Symbol]) {
    try {
      return Object.is(Class.prototype.valueOf.call(a), Class.prototype.valueOf.call(b));
    } catch {
      // The value is of another class.
    }
  }
  return false;
}

const bytesOf = (value) => (classOf(value) === 'ArrayBuffer' ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
const sameBytes = (a, b) => a.length === b.length && sys('buffer.compare')(a, b) === 0;

function sameTyped(a, b, strict) {
  if (a.length !== b.length) return false;
  const floats = a instanceof Float32Array || a instanceof Float64Array;
  if (strict || !floats) return sameBytes(bytesOf(a), bytesOf(b));
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

// sameKeys compares the properties.
function sameKeys(a, b, strict, seen, only = () => true) {
  const keys = Object.keys(a).filter(only);
  if (keys.length !== Object.keys(b).filter(only).length) return false;
  for (const key of keys) if (!hasOwn(b, key) || !isEnumerable(b, key)) return false;
  if (strict) {
    const mine = Object.getOwnPropertySymbols(a).filter((s) => isEnumerable(a, s));
    if (mine.length !== Object.getOwnPropertySymbols(b).filter((s) => isEnumerable(b, s)).length) return false;
    for (const s of mine) if (!isEnumerable(b, s)) return false;
    keys.push(...mine);
  }
  return keys.every((key) => deepEqual(a[key], b[key], strict, seen));
}

// pairOff matches each value with a different one of the others.
function pairOff(values, others, same) {
  const left = others.slice();
  return values.every((value) => {
    const at = left.findIndex((other) => same(value, other));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}

function sameSet(a, b, strict, seen) {
  const mine = [];
  for (const value of a) {
    if (b.has(value)) continue;
    if (strict && !isObject(value)) return false;
    mine.push(value);
  }
  const others = [...b].filter((value) => !a.has(value) && (!strict || isObject(value)));
  return mine.length === 0 || pairOff(mine, others, (x, y) => deepEqual(x, y, strict, seen));
}

function sameMap(a, b, strict, seen) {
  const mine = [];
  for (const [key, value] of a) {
    if (b.has(key) && deepEqual(value, b.get(key), strict, seen)) continue;
    if (isObject(key) ? b.has(key) : strict) return false;
    mine.push([key, value]);
  }
  const others = [...b].filter(([key, value]) => !(a.has(key) && deepEqual(a.get(key), value, strict, seen)));
  return mine.length === 0 || pairOff(mine, others, ([k, v], [k2, v2]) => deepEqual(k, k2, strict, seen) && deepEqual(v, v2, strict, seen));
}

module.exports = (a, b, strict) => deepEqual(a, b, strict);
