'use strict';
// Deep comparison, for util.isDeepStrictEqual and assert.
const classOf = sys('classOf');

function same(a, b, strict) {
  return strict ? Object.is(a, b) : a == b || (a !== a && b !== b);
}

function deepEqual(a, b, strict, seen = []) {
  const objects = a !== null && b !== null && typeof a === 'object' && typeof b === 'object';
  if (!objects) {
    if (typeof a === 'function' || typeof b === 'function') return a === b;
    return same(a, b, strict);
  }
  if (a === b) return true;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (classOf(a) !== classOf(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  for (const [x, y] of seen) if (x === a && y === b) return true;
  seen = [...seen, [a, b]];
  return sameInside(a, b, strict, seen) && sameProperties(a, b, strict, seen);
}

function sameInside(a, b, strict, seen) {
  if (a instanceof Date) return b instanceof Date && Object.is(a.getTime(), b.getTime());
  if (a instanceof RegExp) return b instanceof RegExp && String(a) === String(b) && a.lastIndex === b.lastIndex;
  if (a instanceof Error) return b instanceof Error && a.message === b.message && a.name === b.name;
  if (a instanceof Boolean || a instanceof Number || a instanceof String) return Object.is(a.valueOf(), b.valueOf());
  if (a instanceof ArrayBuffer) return b instanceof ArrayBuffer && deepEqual(new Uint8Array(a), new Uint8Array(b), strict, seen);
  if (ArrayBuffer.isView(a)) return ArrayBuffer.isView(b) && a.byteLength === b.byteLength;
  if (Array.isArray(a)) return a.length === b.length;
  if (a instanceof Set) return b instanceof Set && a.size === b.size && [...a].every((x) => b.has(x) || [...b].some((y) => deepEqual(x, y, strict, seen)));
  if (a instanceof Map) {
    if (!(b instanceof Map) || a.size !== b.size) return false;
    return [...a].every(([k, v]) => (b.has(k) ? deepEqual(v, b.get(k), strict, seen)
      : [...b].some(([k2, v2]) => deepEqual(k, k2, strict, seen) && deepEqual(v, v2, strict, seen))));
  }
  return true;
}

function sameProperties(a, b, strict, seen) {
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  for (const key of keys) {
    if (!Object.prototype.hasOwnProperty.call(b, key) || !deepEqual(a[key], b[key], strict, seen)) return false;
  }
  if (!strict) return true;
  const symbols = (o) => Object.getOwnPropertySymbols(o).filter((s) => Object.prototype.propertyIsEnumerable.call(o, s));
  const mine = symbols(a);
  return mine.length === symbols(b).length && mine.every((s) => deepEqual(a[s], b[s], strict, seen));
}

module.exports = deepEqual;
