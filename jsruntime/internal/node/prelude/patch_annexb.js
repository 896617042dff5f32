'use strict';
// Annex B of the language, which old code still uses.
const add = (target, methods) => {
  for (const key of Object.keys(methods)) {
    if (target[key] === undefined) Object.defineProperty(target, key, { value: methods[key], writable: true, configurable: true });
  }
};
const define = (object, key, part) => Object.defineProperty(object, key, { ...part, enumerable: true, configurable: true });
const lookup = (object, key, part) => {
  if (object === undefined || object === null) throw new TypeError('Cannot convert undefined or null to object');
  for (let o = object; o !== null; o = Object.getPrototypeOf(o)) {
    const found = Object.getOwnPropertyDescriptor(o, key);
    if (found) return found[part];
  }
  return undefined;
};
add(Object.prototype, {
  __defineGetter__(key, get) { define(this, key, { get }); },
  __defineSetter__(key, set) { define(this, key, { set }); },
  __lookupGetter__(key) { return lookup(this, key, 'get'); },
  __lookupSetter__(key) { return lookup(this, key, 'set'); },
});

const html = (tag, attribute) => function (value) {
  const shown = attribute ? ` ${attribute}="${String(value).replace(/"/g, '&quot;')}"` : '';
  return `<${tag}${shown}>${this}</${tag}>`;
};
add(String.prototype, {
  anchor: html('a', 'name'), big: html('big'), blink: html('blink'), bold: html('b'), fixed: html('tt'),
  fontcolor: html('font', 'color'), fontsize: html('font', 'size'), italics: html('i'), link: html('a', 'href'),
  small: html('small'), strike: html('strike'), sub: html('sub'), sup: html('sup'),
  trimLeft: String.prototype.trimStart, trimRight: String.prototype.trimEnd,
});
add(Date.prototype, {
  getYear() { return this.getFullYear() - 1900; },
  setYear(year) { year = +year; return this.setFullYear(year >= 0 && year <= 99 ? 1900 + year : year); },
  toGMTString: Date.prototype.toUTCString,
});
