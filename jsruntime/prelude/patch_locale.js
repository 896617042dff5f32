'use strict';
// toLocaleString and its like, which goja takes for other things.
const define = (target, methods) => {
  for (const key of Object.keys(methods)) Object.defineProperty(target, key, { value: methods[key], writable: true, configurable: true });
};
const number = function toLocaleString(locales, options) { return new (require('intl').NumberFormat)(locales, options).format(this.valueOf()); };
define(Number.prototype, { toLocaleString: number });
define(BigInt.prototype, { toLocaleString: number });

const date = (standard) => function (locales, options) {
  if (Number.isNaN(this.getTime())) return 'Invalid Date';
  return new (require('intl').DateTimeFormat)(locales, options, standard).format(this);
};
define(Date.prototype, {
  toLocaleString: date('both'),
  toLocaleDateString: date('dateOnly'),
  toLocaleTimeString: date('time'),
});
define(Array.prototype, {
  toLocaleString(...args) { return Array.from(this, (item) => (item === null || item === undefined ? '' : item.toLocaleString(...args))).join(','); },
});
