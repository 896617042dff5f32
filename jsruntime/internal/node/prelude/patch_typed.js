'use strict';
// TypedArray.from of a string, which goja rejects.
const Typed = Object.getPrototypeOf(Uint8Array);
const from = Typed.from;
const methods = {
  from(source, ...rest) { return from.call(this, typeof source === 'string' ? Array.from(source) : source, ...rest); },
};
Object.defineProperty(Typed, 'from', { value: methods.from, writable: true, configurable: true });
