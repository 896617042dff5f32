'use strict';
// TypedArray.from of a string, which goja rejects.
const Typed = Object.getPrototypeOf(Uint8Array);
const from = Typed.from;
Object.defineProperty(Typed, 'from', {
  value: function (source, ...rest) { return from.call(this, typeof source === 'string' ? Array.from(source) : source, ...rest); },
  writable: true,
  configurable: true,
});
