'use strict';
// RegExp with \p{...} in patterns that are made at run time, and with the
// static properties of the last match.
const Native = RegExp;
const expand = sys('regexp.expand');

function Wrapped(pattern, flags) {
  const isRegExp = pattern instanceof Native;
  if (!new.target && isRegExp && flags === undefined && pattern.constructor === Wrapped) return pattern;
  const given = flags === undefined ? (isRegExp ? pattern.flags : '') : String(flags);
  const source = isRegExp ? pattern.source : pattern === undefined ? '(?:)' : String(pattern);
  const text = given.includes('u') && /\\[pP]\{/.test(source) ? expand(source) : source;
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

if (sys('mentions')('RegExp.$') || sys('mentions')('RegExp.last') || sys('mentions')('RegExp.input')) {
  let last = null;
  const exec = Native.prototype.exec;
  Object.defineProperty(Native.prototype, 'exec', {
    value: function (text) {
      const match = exec.call(this, text);
      if (match) last = match;
      return match;
    },
    writable: true,
    configurable: true,
  });
  Object.defineProperty(Native.prototype, 'test', {
    value: function (text) { return this.exec(text) !== null; }, writable: true, configurable: true,
  });
  const define = (names, get) => names.forEach((name) => Object.defineProperty(Wrapped, name, { get, set() {}, configurable: true }));
  for (let i = 1; i <= 9; i++) define(['$' + i], () => (last && last[i]) || '');
  define(['$&', 'lastMatch'], () => (last ? last[0] : ''));
  define(['$_', 'input'], () => (last ? last.input : ''));
  define(['$+', 'lastParen'], () => (last && last.length > 1 && last[last.length - 1]) || '');
  define(['$`', 'leftContext'], () => (last ? last.input.slice(0, last.index) : ''));
  define(["$'", 'rightContext'], () => (last ? last.input.slice(last.index + last[0].length) : ''));
}
