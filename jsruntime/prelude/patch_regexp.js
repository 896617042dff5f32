'use strict';
// RegExp with \p{...} in patterns that are made at run time, and without groups
// that JavaScript does not have.
const Native = RegExp;
const special = /\\[pPk]|\(\?/;
const check = sys('regexp.check');

function Wrapped(pattern, flags) {
  const isRegExp = pattern instanceof Native;
  if (!new.target && isRegExp && flags === undefined && pattern.constructor === Wrapped) return pattern;
  const given = flags === undefined ? (isRegExp ? pattern.flags : '') : String(flags);
  const source = isRegExp ? pattern.source : pattern === undefined ? '(?:)' : String(pattern);
  const text = special.test(source) ? check(source, given.includes('u')) : source;
  const indices = given.includes('d');
  const out = Reflect.construct(Native, [text, indices ? given.replace('d', '') : given], new.target || Wrapped);
  return indices ? require('regexp_indices')(out, Native, text) : out;
}
Wrapped.prototype = Native.prototype;
Object.defineProperty(Wrapped, 'prototype', { writable: false });
Object.defineProperty(Wrapped, 'name', { value: 'RegExp' });
Object.defineProperty(Wrapped, 'length', { value: 2 });
Object.defineProperty(Wrapped, Symbol.species, { get() { return this; }, configurable: true });
Object.defineProperty(Native.prototype, 'constructor', { value: Wrapped, writable: true, configurable: true });
Object.defineProperty(globalThis, 'RegExp', { value: Wrapped, writable: true, configurable: true });
