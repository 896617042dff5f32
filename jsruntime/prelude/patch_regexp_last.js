'use strict';
// RegExp with the static properties of the last match.
require('patch_regexp');
let last = null;
const exec = RegExp.prototype.exec;
Object.defineProperty(RegExp.prototype, 'exec', {
  value: function (text) {
    const match = exec.call(this, text);
    if (match) last = match;
    return match;
  },
  writable: true,
  configurable: true,
});
Object.defineProperty(RegExp.prototype, 'test', {
  value: function (text) { return this.exec(text) !== null; }, writable: true, configurable: true,
});
const define = (names, get) => names.forEach((name) => Object.defineProperty(RegExp, name, { get, set() {}, configurable: true }));
for (let i = 1; i <= 9; i++) define(['$' + i], () => (last && last[i]) || '');
define(['$&', 'lastMatch'], () => (last ? last[0] : ''));
define(['$_', 'input'], () => (last ? last.input : ''));
define(['$+', 'lastParen'], () => (last && last.length > 1 && last[last.length - 1]) || '');
define(['$`', 'leftContext'], () => (last ? last.input.slice(0, last.index) : ''));
define(["$'", 'rightContext'], () => (last ? last.input.slice(last.index + last[0].length) : ''));
