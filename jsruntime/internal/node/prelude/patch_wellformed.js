'use strict';
// Methods for lone surrogates, which goja lacks.
const isLone = (c) => c.length === 1 && c >= '\ud800' && c <= '\udfff';
const text = (value, name) => {
  if (value === undefined || value === null) throw new TypeError(`String.prototype.${name} called on null or undefined`);
  return `${value}`;
};
const methods = {
  isWellFormed() {
    for (const c of text(this, 'isWellFormed')) if (isLone(c)) return false;
    return true;
  },
  toWellFormed() { return Array.from(text(this, 'toWellFormed'), (c) => (isLone(c) ? '\ufffd' : c)).join(''); },
};
for (const name of Object.keys(methods)) {
  if (!String.prototype[name]) Object.defineProperty(String.prototype, name, { value: methods[name], writable: true, configurable: true });
}
