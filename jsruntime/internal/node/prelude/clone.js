'use strict';
// structuredClone copies the values that HTML's algorithm can copy.
const classOf = sys('classOf');
const twin = sys('buffer.twin');
const detach = sys('buffer.detach');
const isDetached = sys('buffer.detached');
const typedTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
const errorClasses = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const refused = (text) => new (require('abort').DOMException)(text, 'DataCloneError');
const describe = (value) => {
  if (typeof value === 'function' || typeof value === 'symbol') return String(value);
  const { constructor } = value;
  return `#<${typeof constructor === 'function' && constructor.name ? constructor.name : 'Object'}>`;
};
const uncloneable = (value) => refused(`${describe(value)} could not be cloned.`);

exports.structuredClone = function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError('The "value" argument must be specified');
  const transferred = transferList(options);
  const seen = new Map(transferred.map((buffer) => [buffer, twin(buffer)]));
  const out = clone(value, seen);
  transferred.forEach(detach); // once nothing can fail any more
  return out;
};
Object.defineProperty(exports.structuredClone, 'length', { value: 1 });

// transferList reads and checks the buffers to transfer.
function transferList(options) {
  if (options === undefined || options === null) return [];
  if (typeof options !== 'object' && typeof options !== 'function') throw new TypeError('The "options" argument must be of type object');
  const { transfer } = options;
  if (transfer === undefined) return [];
  if (transfer === null || typeof transfer !== 'object' || typeof transfer[Symbol.iterator] !== 'function') throw new TypeError('The "options.transfer" property must be iterable');
  const list = [...transfer];
  list.forEach((buffer, i) => {
    if (classOf(buffer) !== 'ArrayBuffer' || isShared(buffer)) throw refused('Value not transferable');
    if (list.indexOf(buffer) !== i) throw refused('An ArrayBuffer is duplicated in the transfer list.');
    if (isDetached(buffer)) throw refused('An ArrayBuffer is detached and could not be cloned.');
  });
  return list;
}

const isShared = (value) => require('atomics').isShared(value);

function clone(value, seen) {
  if (typeof value === 'symbol' || typeof value === 'function') throw uncloneable(value);
  if (value === null || typeof value !== 'object') return value;
  if (seen.has(value)) return seen.get(value);
  const make = makers[kindOf(value)];
  if (make) return make(value, seen);
  throw uncloneable(value);
}

// The engine reports only some classes by name. The others are recognized by a
// method that rejects all other classes.
const accepts = (f) => (value) => { try { f.call(value); return true; } catch { return false; } };
const size = (Class) => Object.getOwnPropertyDescriptor(Class.prototype, 'size').get;
const kinds = [
  [Map, 'Map', accepts(size(Map))], [Set, 'Set', accepts(size(Set))], [BigInt, 'BigInt', accepts(BigInt.prototype.valueOf)],
  [WeakMap, 'WeakMap', accepts(WeakMap.prototype.has)], [WeakSet, 'WeakSet', accepts(WeakSet.prototype.has)],
];
function kindOf(value) {
  if (ArrayBuffer.isView(value)) return 'View';
  const name = classOf(value);
  if (name !== 'Object' || Object.getPrototypeOf(value) === Object.prototype) return name;
  const found = kinds.find(([Class, , test]) => value instanceof Class && test(value));
  return found ? found[1] : name;
}

const keep = (value, copy, seen) => { seen.set(value, copy); return copy; };
const set = (target, key, value) => {
  if (key === '__proto__') Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  else target[key] = value;
};
function copyProperties(value, out, seen) {
  for (const key of Object.keys(value)) {
    if (Object.prototype.hasOwnProperty.call(value, key)) set(out, key, clone(value[key], seen));
  }
  return out;
}

const makers = {
  Array: (value, seen) => copyProperties(value, keep(value, new Array(value.length), seen), seen),
  Object: cloneObject,
  Arguments: (value, seen) => copyProperties(value, keep(value, {}, seen), seen),
  Boolean: (value, seen) => keep(value, Object(Boolean.prototype.valueOf.call(value)), seen),
  Number: (value, seen) => keep(value, Object(Number.prototype.valueOf.call(value)), seen),
  String: (value, seen) => keep(value, Object(String.prototype.valueOf.call(value)), seen),
  BigInt: (value, seen) => keep(value, Object(BigInt.prototype.valueOf.call(value)), seen),
  Date: (value, seen) => keep(value, new Date(Date.prototype.getTime.call(value)), seen),
  RegExp: (value, seen) => keep(value, new RegExp(value.source, value.flags), seen),
  Map: cloneMap,
  Set: cloneSet,
  Error: cloneError,
  ArrayBuffer: cloneBuffer,
  View: cloneView,
};

function cloneMap(value, seen) {
  const out = keep(value, new Map(), seen);
  for (const [key, item] of [...Map.prototype.entries.call(value)]) out.set(clone(key, seen), clone(item, seen));
  return out;
}

function cloneSet(value, seen) {
  const out = keep(value, new Set(), seen);
  for (const item of [...Set.prototype.values.call(value)]) out.add(clone(item, seen));
  return out;
}

function cloneBuffer(value, seen) {
  if (isShared(value)) return keep(value, value, seen);
  if (isDetached(value)) throw refused('An ArrayBuffer is detached and could not be cloned.');
  return keep(value, ArrayBuffer.prototype.slice.call(value, 0), seen);
}

function cloneView(value, seen) {
  const name = typedTag.call(value);
  const { buffer, byteOffset } = value;
  const copy = clone(buffer, seen);
  return keep(value, new (name ? globalThis[name] : DataView)(copy, byteOffset, name ? value.length : value.byteLength), seen);
}

function cloneError(value, seen) {
  const { DOMException } = require('abort');
  if (value instanceof DOMException) return keep(value, new DOMException(value.message, value.name), seen);
  const Class = errorClasses[String(value.name)] || Error;
  const { value: message } = Object.getOwnPropertyDescriptor(value, 'message') || {};
  const out = keep(value, message === undefined ? new Class() : new Class(String(message)), seen);
  Object.defineProperty(out, 'stack', { value: String(value.stack), writable: true, configurable: true });
  if (Object.prototype.hasOwnProperty.call(value, 'cause')) {
    Object.defineProperty(out, 'cause', { value: clone(value.cause, seen), writable: true, configurable: true });
  }
  return out;
}

// platform matches web objects that are more than their properties.
const platform = /^(AbortController|AbortSignal|Event|CustomEvent|EventTarget|Headers|Request|Response|FormData|URL|URLSearchParams|ReadableStream.*|WritableStream.*|TransformStream.*|TextEncoder|TextDecoder|WeakRef|FinalizationRegistry|Generator|AsyncGenerator|.* Iterator|Performance|SubtleCrypto|Crypto)$/;

function cloneObject(value, seen) {
  const tag = Object.prototype.toString.call(value).slice(8, -1);
  if (tag === 'Blob' || tag === 'File') {
    const copy = require('blob').copy(value);
    if (copy) return keep(value, copy, seen);
  }
  if (tag === 'CryptoKey' && value instanceof require('webcrypto').CryptoKey) return keep(value, value, seen);
  if (platform.test(tag) && !Object.prototype.hasOwnProperty.call(value, Symbol.toStringTag)) throw uncloneable(value);
  return copyProperties(value, keep(value, {}, seen), seen);
}
