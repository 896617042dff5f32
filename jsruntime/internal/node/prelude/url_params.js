'use strict';
// URLSearchParams of the WHATWG standard.
const { raise } = require('codes');
const { validateCallback } = require('validators');
const inspectName = Symbol.for('nodejs.util.inspect.custom');

const wellFormed = sys('text.wellFormed');
const toText = (value) => wellFormed(`${value}`);
function decodeForm(text) {
  text = text.replace(/\+/g, ' ');
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = require('buffer').Buffer.from(text);
    let size = 0;
    for (let i = 0; i < bytes.length; i++) {
      const hex = bytes[i] === 37 ? /^[0-9a-f]{2}$/i.exec(bytes.latin1Slice(i + 1, i + 3)) : null;
      bytes[size++] = hex ? parseInt(hex[0], 16) : bytes[i];
      if (hex) i += 2;
    }
    return bytes.toString('utf8', 0, size);
  }
}
const encodeForm = (text) => encodeURIComponent(text).replace(/%20|[!'()~]/g, (c) => (c === '%20' ? '+' : '%' + c.charCodeAt(0).toString(16).toUpperCase()));

// parse reads the text after the question mark.
function parse(text) {
  return text.split('&').filter((part) => part !== '').map((part) => {
    const at = part.indexOf('=');
    return at < 0 ? [decodeForm(part), ''] : [decodeForm(part.slice(0, at)), decodeForm(part.slice(at + 1))];
  });
}

function fromPairs(init) {
  const list = [];
  for (const pair of init) {
    const iterable = (typeof pair === 'object' && pair !== null) || typeof pair === 'function';
    if (!iterable || typeof pair[Symbol.iterator] !== 'function') raise('ERR_INVALID_TUPLE', 'Each query pair', '[name, value]');
    const items = Array.from(pair, toText);
    if (items.length !== 2) raise('ERR_INVALID_TUPLE', 'Each query pair', '[name, value]');
    list.push(items);
  }
  return list;
}

function fromRecord(init) {
  const list = [];
  const at = new Map();
  for (const key of Reflect.ownKeys(init)) {
    const found = Reflect.getOwnPropertyDescriptor(init, key);
    if (found === undefined || !found.enumerable) continue;
    const name = toText(key);
    const value = toText(init[key]);
    if (at.has(name)) list[at.get(name)][1] = value;
    else { at.set(name, list.length); list.push([name, value]); }
  }
  return list;
}

let check;
class URLSearchParams {
  #list = [];
  #changed = null;
  static {
    check = (self) => {
      if (self === null || typeof self !== 'object' || !(#list in self)) raise('ERR_INVALID_THIS', 'URLSearchParams');
    };
  }
  constructor(init = undefined) {
    if (init === undefined || init === null) return;
    if (typeof init === 'object' || typeof init === 'function') {
      const method = init[Symbol.iterator];
      if (method !== null && method !== undefined) {
        if (typeof method !== 'function') raise('ERR_ARG_NOT_ITERABLE', 'Query pairs');
        this.#list = fromPairs(init);
      } else {
        this.#list = fromRecord(init);
      }
      return;
    }
    this.#list = parse(toText(init).replace(/^\?/, ''));
  }
  // bind connects the parameters to a URL, and reset changes them with it.
  static bind(params, changed) { params.#changed = changed; return params; }
  static reset(params, text) { params.#list = parse(text.replace(/^\?/, '')); }
  static listOf(params) { return params.#list; }
  #notify() { if (this.#changed) this.#changed(this.toString()); }
  append(name, value) {
    check(this);
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'name', 'value');
    this.#list.push([toText(name), toText(value)]);
    this.#notify();
  }
  delete(name, value = undefined) {
    check(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'name');
    name = toText(name);
    const only = value === undefined ? undefined : toText(value);
    this.#list = this.#list.filter(([key, other]) => key !== name || (only !== undefined && other !== only));
    this.#notify();
  }
  get(name) {
    check(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'name');
    name = toText(name);
    const found = this.#list.find(([key]) => key === name);
    return found ? found[1] : null;
  }
  getAll(name) {
    check(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'name');
    name = toText(name);
    return this.#list.filter(([key]) => key === name).map(([, value]) => value);
  }
  has(name, value = undefined) {
    check(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'name');
    name = toText(name);
    const only = value === undefined ? undefined : toText(value);
    return this.#list.some(([key, other]) => key === name && (only === undefined || other === only));
  }
  set(name, value) {
    check(this);
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'name', 'value');
    name = toText(name);
    value = toText(value);
    const first = this.#list.findIndex(([key]) => key === name);
    if (first < 0) this.#list.push([name, value]);
    else {
      this.#list[first] = [name, value];
      this.#list = this.#list.filter(([key], i) => i <= first || key !== name);
    }
    this.#notify();
  }
  sort() { check(this); this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#notify(); }
  forEach(callback, self = undefined) {
    check(this);
    validateCallback(callback);
    for (let i = 0; i < this.#list.length; i++) callback.call(self, this.#list[i][1], this.#list[i][0], this);
  }
  entries() { check(this); return iterate(this, 'entries'); }
  keys() { check(this); return iterate(this, 'keys'); }
  values() { check(this); return iterate(this, 'values'); }
  get size() { check(this); return this.#list.length; }
  toString() { check(this); return this.#list.map(([key, value]) => encodeForm(key) + '=' + encodeForm(value)).join('&'); }
  [inspectName](depth, options) {
    check(this);
    if (typeof depth === 'number' && depth < 0) return '[Object]';
    return listText('URLSearchParams', this.#list.map(([k, v]) => [k, v]), options);
  }
}
const { bind, reset, listOf } = URLSearchParams;
for (const name of ['bind', 'reset', 'listOf']) delete URLSearchParams[name];

// listText formats pairs or values in the braces of a class.
function listText(name, items, options) {
  const { inspect } = require('inspect');
  const shown = items.map((item) => (Array.isArray(item) ? `${inspect(item[0], options)} => ${inspect(item[1], options)}` : inspect(item, options)));
  const length = shown.reduce((sum, text) => sum + text.length + 2, -2);
  if (shown.length === 0) return name.endsWith('Iterator') ? `${name} {  }` : `${name} {}`;
  if (length <= ((options && options.breakLength) || 80)) return `${name} { ${shown.join(', ')} }`;
  return `${name} {\n  ${shown.join(',\n  ')} }`;
}

const iteratorState = new WeakMap();
const iteratorProto = Object.create(Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())), {
  next: {
    value: function next() {
      const state = iteratorState.get(this);
      if (!state) raise('ERR_INVALID_THIS', 'URLSearchParamsIterator');
      const list = listOf(state.params);
      if (state.at >= list.length) return { value: undefined, done: true };
      const [key, value] = list[state.at++];
      return { value: state.kind === 'keys' ? key : state.kind === 'values' ? value : [key, value], done: false };
    },
    writable: true, enumerable: true, configurable: true,
  },
  [Symbol.toStringTag]: { value: 'URLSearchParams Iterator', configurable: true },
  [inspectName]: {
    value(depth, options) {
      const { params, at, kind } = iteratorState.get(this);
      if (typeof depth === 'number' && depth < 0) return '[Object]';
      const left = listOf(params).slice(at);
      return listText('URLSearchParams Iterator', kind === 'keys' ? left.map(([k]) => k) : kind === 'values' ? left.map(([, v]) => v) : left.map((p) => p), options)
        .replace(/('[^']*') => ('[^']*')/g, kind === 'entries' ? '[ $1, $2 ]' : '$&');
    },
    configurable: true,
  },
});
function iterate(params, kind) {
  const iterator = Object.create(iteratorProto);
  iteratorState.set(iterator, { params, kind, at: 0 });
  return iterator;
}

for (const name of ['append', 'delete', 'get', 'getAll', 'has', 'set', 'sort', 'entries', 'forEach', 'keys', 'values', 'toString', 'size']) {
  Object.defineProperty(URLSearchParams.prototype, name, { enumerable: true });
}
Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, { value: URLSearchParams.prototype.entries, writable: true, configurable: true });
Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: 'URLSearchParams', configurable: true });

module.exports = { URLSearchParams, bind, reset };
