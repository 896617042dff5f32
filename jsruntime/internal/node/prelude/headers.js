'use strict';
// Headers of the Fetch standard.
const { raise } = require('codes');
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

function checkName(name) {
  name = `${name}`;
  if (!token.test(name)) throw new TypeError(`Header name must be a valid HTTP token ["${name}"]`);
  return name.toLowerCase();
}
function checkValue(name, value) {
  value = `${value}`.replace(/^[\t\r\n ]+|[\t\r\n ]+$/g, '');
  if (/[\0\r\n]/.test(value)) throw new TypeError(`Invalid character in header content ["${name}"]`);
  for (let i = 0; i < value.length; i++) if (value.charCodeAt(i) > 255) throw new TypeError(`Invalid character in header content ["${name}"]`);
  return value;
}

let entriesOf;
class Headers {
  #map = new Map();
  #frozen = false;
  static {
    entriesOf = (headers) => {
      if (headers === null || typeof headers !== 'object' || !(#map in headers)) raise('ERR_INVALID_THIS', 'Headers');
      return headers.#map;
    };
  }
  constructor(init = undefined) {
    if (init === undefined) return;
    if (init === null || (typeof init !== 'object' && typeof init !== 'function')) throw new TypeError('Headers cannot be made of that');
    if (init instanceof Headers && init[Symbol.iterator] === Headers.prototype[Symbol.iterator]) { this.#map = new Map(Array.from(init.#map, ([name, list]) => [name, list.slice()])); return; }
    const method = init[Symbol.iterator];
    if (method !== undefined && method !== null) {
      for (const pair of init) {
        const items = pair !== null && typeof pair === 'object' && typeof pair[Symbol.iterator] === 'function' ? Array.from(pair) : [];
        if (items.length !== 2) throw new TypeError('Each header must be a pair of name and value');
        this.append(items[0], items[1]);
      }
      return;
    }
    for (const name of Reflect.ownKeys(init)) {
      const found = Reflect.getOwnPropertyDescriptor(init, name);
      if (found && found.enumerable) this.append(name, init[name]);
    }
  }
  // freeze makes headers immutable, as for a response.
  static freeze(headers) { headers.#frozen = true; return headers; }
  #writable() { if (this.#frozen) throw new TypeError('Headers are immutable'); }
  append(name, value) {
    need(this, arguments, 2);
    const key = checkName(name);
    const text = checkValue(name, value);
    this.#writable();
    this.#map.set(key, [...(this.#map.get(key) || []), text]);
  }
  set(name, value) {
    need(this, arguments, 2);
    const key = checkName(name);
    const text = checkValue(name, value);
    this.#writable();
    this.#map.set(key, [text]);
  }
  get(name) { need(this, arguments, 1); const found = this.#map.get(checkName(name)); return found ? found.join(', ') : null; }
  has(name) { need(this, arguments, 1); return this.#map.has(checkName(name)); }
  delete(name) { need(this, arguments, 1); const key = checkName(name); this.#writable(); this.#map.delete(key); }
  getSetCookie() { return (entriesOf(this).get('set-cookie') || []).slice(); }
  forEach(callback, self = undefined) {
    need(this, arguments, 1);
    if (typeof callback !== 'function') throw new TypeError('The callback is not a function');
    for (const [name, value] of this) callback.call(self, value, name, this);
  }
  entries() { entriesOf(this); return iterate(this, 'entries'); }
  keys() { entriesOf(this); return iterate(this, 'keys'); }
  values() { entriesOf(this); return iterate(this, 'values'); }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options) {
    return `Headers ${require('inspect').inspect(Object.fromEntries(this), options)}`;
  }
}
const { freeze } = Headers;
delete Headers.freeze;

function need(headers, args, count) {
  entriesOf(headers);
  if (args.length < count) throw new TypeError(`${count} argument${count > 1 ? 's' : ''} required, but only ${args.length} present`);
}

// sorted lists names and values. Cookies are never joined.
function sorted(headers) {
  const out = [];
  for (const name of [...entriesOf(headers).keys()].sort()) {
    const list = entriesOf(headers).get(name);
    if (name === 'set-cookie') for (const value of list) out.push([name, value]);
    else out.push([name, list.join(', ')]);
  }
  return out;
}

const positions = new WeakMap();
const iteratorProto = Object.create(Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())), {
  next: {
    value: function next() {
      const at = positions.get(this);
      if (!at) raise('ERR_INVALID_THIS', 'Headers Iterator');
      const list = sorted(at.headers);
      if (at.index >= list.length) return { value: undefined, done: true };
      const [name, value] = list[at.index++];
      return { value: at.kind === 'keys' ? name : at.kind === 'values' ? value : [name, value], done: false };
    },
    writable: true, enumerable: true, configurable: true,
  },
  [Symbol.toStringTag]: { value: 'Headers Iterator', configurable: true },
});
function iterate(headers, kind) {
  const iterator = Object.create(iteratorProto);
  positions.set(iterator, { headers, kind, index: 0 });
  return iterator;
}

sys('enumerable')(Headers.prototype, true);
Object.defineProperty(Headers.prototype, Symbol.iterator, { value: Headers.prototype.entries, writable: true, configurable: true });
Object.defineProperty(Headers.prototype, Symbol.toStringTag, { value: 'Headers', configurable: true });
// Methods of node-fetch beyond the standard.
Object.defineProperty(Headers.prototype, 'raw', { value() { return Object.fromEntries(entriesOf(this)); }, configurable: true, writable: true });
Object.defineProperty(Headers.prototype, 'toJSON', { value() { return Object.fromEntries(this); }, configurable: true, writable: true });

module.exports = { Headers, freeze };
