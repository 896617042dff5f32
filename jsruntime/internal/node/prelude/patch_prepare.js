'use strict';
// Error.prepareStackTrace for errors that code creates. The classes are
// functions in front of the native ones and share their prototypes, so that
// instanceof also recognizes errors that the engine throws.
const { define } = require('patch_error');

function wrap(Native, Parent) {
  function Wrapped(...args) {
    // The error gets its class last. Until its constructor has ended, nothing
    // may read its name, which the stack begins with.
    const err = Reflect.construct(Native, args);
    const lines = err.stack.split('\n').slice(1).filter((line) => !line.includes('vault:patch_prepare'));
    define(err, lines);
    if (this instanceof Wrapped && new.target && new.target !== Wrapped) Object.setPrototypeOf(err, Reflect.get(new.target, 'prototype') || Native.prototype);
    return err;
  }
  Object.setPrototypeOf(Wrapped, Parent);
  Object.defineProperties(Wrapped, {
    name: { value: Native.name, configurable: true },
    length: { value: 1, configurable: true },
    prototype: { value: Native.prototype, writable: false },
  });
  Object.defineProperty(Native.prototype, 'constructor', { value: Wrapped, writable: true, configurable: true });
  Object.defineProperty(globalThis, Native.name, { value: Wrapped, writable: true, configurable: true });
  return Wrapped;
}
const Base = wrap(Error, Error);
for (const Native of [TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError]) wrap(Native, Base);
