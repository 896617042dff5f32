'use strict';
// toLocaleString and similar methods, which goja implements differently.
const define = (target, methods) => {
  for (const key of Object.keys(methods)) Object.defineProperty(target, key, { value: methods[key], writable: true, configurable: true });
};
const number = (value, locales, options) => new (require('intl').NumberFormat)(locales, options).format(value);
const numberValue = Number.prototype.valueOf;
const bigValue = BigInt.prototype.valueOf;
define(Number.prototype, { toLocaleString() { return number(numberValue.call(this), arguments[0], arguments[1]); } });
define(BigInt.prototype, { toLocaleString() { return number(bigValue.call(this), arguments[0], arguments[1]); } });

const time = Date.prototype.getTime;
const date = (value, [locales, options], standard) => {
  if (Number.isNaN(time.call(value))) return 'Invalid Date';
  return new (require('intl').DateTimeFormat)(locales, options, standard).format(value);
};
define(Date.prototype, {
  toLocaleString() { return date(this, arguments, 'both'); },
  toLocaleDateString() { return date(this, arguments, 'dateOnly'); },
  toLocaleTimeString() { return date(this, arguments, 'time'); },
});
define(Array.prototype, {
  toLocaleString(...args) { return Array.from(this, (item) => (item === null || item === undefined ? '' : item.toLocaleString(...args))).join(','); },
});
