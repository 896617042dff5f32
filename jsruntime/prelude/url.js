'use strict';
// URL and URLSearchParams of the WHATWG standard, and Node's legacy url module.
const parseURL = sys('url.parse');
const setPart = sys('url.set');

function invalid(input) {
  const err = new TypeError('Invalid URL');
  err.code = 'ERR_INVALID_URL';
  err.input = input;
  throw err;
}

const decodeForm = (text) => require('querystring').unescape(text.replace(/\+/g, ' '));
const encodeForm = (text) => encodeURIComponent(wellFormed(text)).replace(/%20/g, '+').replace(/[!'()~]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
const wellFormed = (text) => text.replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (m) => (m.length === 2 ? m : '\ufffd'));

class URLSearchParams {
  #list = [];
  #changed = null;
  constructor(init) {
    if (init === undefined || init === null) return;
    if (typeof init === 'object' || typeof init === 'function') {
      const iterator = init[Symbol.iterator];
      if (typeof iterator === 'function') {
        for (const pair of init) {
          const items = typeof pair === 'object' && pair !== null ? Array.from(pair) : [];
          if (items.length !== 2) {
            const err = new TypeError('Each query pair must be an iterable [name, value] tuple');
            err.code = 'ERR_INVALID_TUPLE';
            throw err;
          }
          this.#list.push([String(items[0]), String(items[1])]);
        }
        return;
      }
      for (const key of Reflect.ownKeys(init)) {
        if (typeof key === 'string' && Object.getOwnPropertyDescriptor(init, key).enumerable) this.#list.push([key, String(init[key])]);
      }
      return;
    }
    this.#list = URLSearchParams.#parse(String(init).replace(/^\?/, ''));
  }
  static #parse(text) {
    return text.split('&').filter((part) => part !== '').map((part) => {
      const at = part.indexOf('=');
      return at < 0 ? [decodeForm(part), ''] : [decodeForm(part.slice(0, at)), decodeForm(part.slice(at + 1))];
    });
  }
  // bind makes the parameters those of a URL.
  static bind(params, changed) { params.#changed = changed; return params; }
  static reset(params, text) { params.#list = URLSearchParams.#parse(text.replace(/^\?/, '')); }
  #notify() { if (this.#changed) this.#changed(this.toString()); }
  append(name, value) { this.#list.push([String(name), String(value)]); this.#notify(); }
  delete(name) { this.#list = this.#list.filter(([key]) => key !== String(name)); this.#notify(); }
  get(name) { const found = this.#list.find(([key]) => key === String(name)); return found ? found[1] : null; }
  getAll(name) { return this.#list.filter(([key]) => key === String(name)).map(([, value]) => value); }
  has(name) { return this.#list.some(([key]) => key === String(name)); }
  set(name, value) {
    name = String(name);
    const first = this.#list.findIndex(([key]) => key === name);
    if (first < 0) this.#list.push([name, String(value)]);
    else {
      this.#list[first] = [name, String(value)];
      this.#list = this.#list.filter(([key], i) => i <= first || key !== name);
    }
    this.#notify();
  }
  sort() { this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#notify(); }
  forEach(callback, self) { for (const [key, value] of this.#list) callback.call(self, value, key, this); }
  *entries() { for (const pair of this.#list) yield [...pair]; }
  *keys() { for (const [key] of this.#list) yield key; }
  *values() { for (const [, value] of this.#list) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  get size() { return this.#list.length; }
  toString() { return this.#list.map(([key, value]) => encodeForm(key) + '=' + encodeForm(value)).join('&'); }
  get [Symbol.toStringTag]() { return 'URLSearchParams'; }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    if (!this.#list.length) return 'URLSearchParams {}';
    return `URLSearchParams { ${this.#list.map(([k, v]) => `${inspect(k)} => ${inspect(v)}`).join(', ')} }`;
  }
}
const { bind, reset } = URLSearchParams;
delete URLSearchParams.bind;
delete URLSearchParams.reset;

class URL {
  #parts;
  #params = null;
  constructor(input, base) {
    if (arguments.length === 0) { const err = new TypeError('The "url" argument must be specified'); err.code = 'ERR_MISSING_ARGS'; throw err; }
    this.#parts = base === undefined ? parseURL(String(input)) : parseURL(String(input), String(base));
    if (!this.#parts) invalid(String(input));
  }
  #set(name, value) {
    const parts = setPart(this.#parts.href, name, String(value));
    if (parts) this.#parts = parts;
    if (this.#params && name === 'search') reset(this.#params, this.#parts.search);
  }
  get href() { return this.#parts.href; }
  set href(value) {
    const parts = parseURL(String(value));
    if (!parts) invalid(String(value));
    this.#parts = parts;
    if (this.#params) reset(this.#params, parts.search);
  }
  get origin() { return this.#parts.origin; }
  get protocol() { return this.#parts.protocol; }
  set protocol(value) { this.#set('protocol', value); }
  get username() { return this.#parts.username; }
  set username(value) { this.#set('username', value); }
  get password() { return this.#parts.password; }
  set password(value) { this.#set('password', value); }
  get host() { return this.#parts.host; }
  set host(value) { this.#set('host', value); }
  get hostname() { return this.#parts.hostname; }
  set hostname(value) { this.#set('hostname', value); }
  get port() { return this.#parts.port; }
  set port(value) { this.#set('port', value); }
  get pathname() { return this.#parts.pathname; }
  set pathname(value) { this.#set('pathname', value); }
  get search() { return this.#parts.search; }
  set search(value) { this.#set('search', value); }
  get hash() { return this.#parts.hash; }
  set hash(value) { this.#set('hash', value); }
  get searchParams() {
    if (!this.#params) {
      this.#params = bind(new URLSearchParams(this.#parts.search), (text) => {
        const parts = setPart(this.#parts.href, 'search', text);
        if (parts) this.#parts = parts;
      });
    }
    return this.#params;
  }
  toString() { return this.#parts.href; }
  toJSON() { return this.#parts.href; }
  static canParse(input, base) { return parseURL(String(input), base === undefined ? undefined : String(base)) !== undefined; }
  get [Symbol.toStringTag]() { return 'URL'; }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    const shown = {};
    for (const key of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash']) shown[key] = this[key];
    return 'URL ' + inspect(shown);
  }
}
for (const key of ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash', 'toString', 'toJSON']) {
  Object.defineProperty(URL.prototype, key, { enumerable: true });
}

// The legacy module.
class Url {
  constructor() {
    for (const key of ['protocol', 'slashes', 'auth', 'host', 'port', 'hostname', 'hash', 'search', 'query', 'pathname', 'path', 'href']) this[key] = null;
  }
}
const slashed = /^(https?|ftp|gopher|file|wss?):?$/;

function parse(text, withQuery, slashesDenoteHost) {
  if (text instanceof Url) return text;
  if (typeof text !== 'string') {
    const err = new TypeError('The "url" argument must be of type string. Received ' + (text === null ? 'null' : typeof text));
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
  const out = new Url();
  const m = /^\s*(?:([a-zA-Z][a-zA-Z0-9+.-]*:))?(\/\/)?([^?#]*)(\?[^#]*)?(#.*)?\s*$/s.exec(text);
  let rest = m[3];
  if (m[1]) out.protocol = m[1].toLowerCase();
  if (m[2] && (out.protocol || slashesDenoteHost)) {
    out.slashes = true;
    const slash = rest.search(/[/\\]/);
    let authority = slash < 0 ? rest : rest.slice(0, slash);
    rest = slash < 0 ? '' : rest.slice(slash);
    const at = authority.lastIndexOf('@');
    if (at >= 0) { out.auth = decodeURIComponent(authority.slice(0, at)); authority = authority.slice(at + 1); }
    const port = /:(\d*)$/.exec(authority);
    if (port) { if (port[1]) out.port = port[1]; authority = authority.slice(0, -port[0].length); }
    out.hostname = authority.toLowerCase().replace(/^\[|\]$/g, '');
    out.host = (authority.startsWith('[') ? `[${out.hostname}]` : out.hostname) + (out.port ? ':' + out.port : '');
    if (rest === '' && slashed.test(out.protocol || '')) rest = '/';
  } else if (m[2]) {
    rest = '//' + rest;
  }
  out.hash = m[5] || null;
  out.search = m[4] || null;
  out.query = m[4] ? m[4].slice(1) : null;
  if (withQuery) {
    out.query = require('querystring').parse(out.query || '');
    if (!out.search) out.search = '';
  }
  out.pathname = rest || null;
  if (out.pathname || out.search) out.path = (out.pathname || '') + (out.search || '') || null;
  out.href = format(out);
  return out;
}

function format(value, options) {
  if (typeof value === 'string') value = parse(value);
  if (value instanceof URL) {
    let text = value.href;
    if (options && options.fragment === false) text = text.replace(/#.*$/, '');
    if (options && options.search === false) text = text.replace(/\?[^#]*/, '');
    if (options && options.auth === false) text = text.replace(/\/\/[^/@]*@/, '//');
    return text;
  }
  let { protocol, auth, host, pathname, search, hash } = value;
  protocol = protocol ? (protocol.endsWith(':') ? protocol : protocol + ':') : '';
  auth = auth ? encodeURIComponent(auth).replace(/%3A/i, ':') + '@' : '';
  if (host) host = auth + host;
  else if (value.hostname) host = auth + (value.hostname.includes(':') && value.hostname[0] !== '[' ? `[${value.hostname}]` : value.hostname) + (value.port ? ':' + value.port : '');
  let query = '';
  if (value.query !== null && typeof value.query === 'object') query = require('querystring').stringify(value.query);
  search = search || (query ? '?' + query : '');
  if (search && search[0] !== '?') search = '?' + search;
  if (hash && hash[0] !== '#') hash = '#' + hash;
  pathname = (pathname || '').replace(/[?#]/g, encodeURIComponent);
  if (value.slashes || ((!protocol || slashed.test(protocol)) && host)) {
    host = '//' + (host || '');
    if (pathname && pathname[0] !== '/') pathname = '/' + pathname;
  }
  return protocol + (host || '') + pathname + search.replace(/#/g, '%23') + (hash || '');
}

function resolve(from, to) {
  const base = parseURL(from, 'resolve://x');
  const found = parseURL(to, base ? base.href : 'resolve://x/');
  if (!found) return to;
  return found.protocol === 'resolve:' ? found.pathname + found.search + found.hash : found.href;
}

Url.prototype.format = function () { return format(this); };
Url.prototype.resolve = function (to) { return resolve(this.href, to); };

module.exports = {
  URL, URLSearchParams, Url, parse, format, resolve,
  resolveObject: (from, to) => parse(resolve(from, to)),
  fileURLToPath: (url) => decodeURIComponent(new URL(url).pathname),
  pathToFileURL: (path) => new URL('file://' + encodeURI(path)),
  domainToASCII: (domain) => { const p = parseURL('ws://' + domain); return p ? p.hostname : ''; },
  domainToUnicode: (domain) => domain,
  urlToHttpOptions: (url) => ({
    protocol: url.protocol, hostname: url.hostname, hash: url.hash, search: url.search, pathname: url.pathname,
    path: url.pathname + url.search, href: url.href, ...(url.port ? { port: Number(url.port) } : {}),
    ...(url.username ? { auth: `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` } : {}),
  }),
};
