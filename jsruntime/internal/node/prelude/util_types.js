'use strict';
const classOf = sys('classOf');
const is = (name) => (value) => classOf(value) === name;
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
const typed = (name) => (value) => ArrayBuffer.isView(value) && !(value instanceof DataView)
  && Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get.call(value) === name;

module.exports = {
  isDate: is('Date'),
  isRegExp: is('RegExp'),
  isNativeError: is('Error'),
  isPromise: is('Promise'),
  isProxy: is('Proxy'),
  isMap: (value) => value instanceof Map,
  isSet: (value) => value instanceof Set,
  isWeakMap: (value) => value instanceof WeakMap,
  isWeakSet: (value) => value instanceof WeakSet,
  isArrayBuffer: (value) => classOf(value) === 'ArrayBuffer' && tag(value) !== 'SharedArrayBuffer',
  isAnyArrayBuffer: is('ArrayBuffer'),
  isSharedArrayBuffer: (value) => classOf(value) === 'ArrayBuffer' && tag(value) === 'SharedArrayBuffer',
  isDataView: (value) => value instanceof DataView,
  isArrayBufferView: ArrayBuffer.isView,
  isTypedArray: (value) => ArrayBuffer.isView(value) && !(value instanceof DataView),
  isAsyncFunction: (value) => typeof value === 'function' && tag(value) === 'AsyncFunction',
  isGeneratorFunction: (value) => typeof value === 'function' && /GeneratorFunction$/.test(tag(value)),
  isGeneratorObject: (value) => tag(value) === 'Generator',
  isMapIterator: (value) => tag(value) === 'Map Iterator',
  isSetIterator: (value) => tag(value) === 'Set Iterator',
  isBoxedPrimitive: (value) => ['Number', 'String', 'Boolean', 'Symbol', 'BigInt'].includes(classOf(value)),
  isNumberObject: is('Number'),
  isStringObject: is('String'),
  isBooleanObject: is('Boolean'),
  isSymbolObject: is('Symbol'),
  isBigIntObject: is('BigInt'),
  isArgumentsObject: is('Arguments'),
  isModuleNamespaceObject: () => false,
  isExternal: () => false,
};
for (const name of ['Uint8Array', 'Uint8ClampedArray', 'Uint16Array', 'Uint32Array', 'Int8Array', 'Int16Array', 'Int32Array',
  'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array']) {
  module.exports['is' + name] = typed(name);
}
