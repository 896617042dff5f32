'use strict';
// URL of the WHATWG standard, and the rest of Node's url module.
const { raise, make } = require('codes');
const wellFormed = sys('text.wellFormed');
const toText = (value) => wellFormed(`${value}`);
const parseURL = sys('url.parse');
const setPart = sys('url.set');
const inspectName = Symbol.for('nodejs.util.inspect.custom');

function invalid(input) {
  const err = make('ERR_INVALID_URL');
  err.input = input;
  throw err;
}

let check;
class URL {
  #parts;
  #params = null;
  static { check = (self) => { if (self === null || typeof self !== 'object' || !(#parts in self)) raise('ERR_INVALID_THIS', 'URL'); }; }
  constructor(input, base = undefined) {
    if (arguments.length === 0) raise('ERR_MISSING_ARGS', 'url');
    const text = toText(input);
    this.#parts = base === undefined ? parseURL(text) : parseURL(text, toText(base));
    if (!this.#parts) invalid(text);
  }
  #set(name, value) {
    const parts = setPart(this.#parts.href, name, toText(value));
    if (parts) this.#parts = parts;
    if (this.#params && name === 'search') require('url_params').reset(this.#params, this.#parts.search);
  }
  get href() { check(this); return this.#parts.href; }
  set href(value) {
    check(this);
    const text = toText(value);
    const parts = parseURL(text);
    if (!parts) invalid(text);
    this.#parts = parts;
    if (this.#params) require('url_params').reset(this.#params, parts.search);
  }
  get origin() { check(this); return this.#parts.origin; }
  get protocol() { check(this); return this.#parts.protocol; }
  set protocol(value) { check(this); this.#set('protocol', value); }
  get username() { check(this); return this.#parts.username; }
  set username(value) { check(this); this.#set('username', value); }
  get password() { check(this); return this.#parts.password; }
  set password(value) { check(this); this.#set('password', value); }
  get host() { check(this); return this.#parts.host; }
  set host(value) { check(this); this.#set('host', value); }
  get hostname() { check(this); return this.#parts.hostname; }
  set hostname(value) { check(this); this.#set('hostname', value); }
  get port() { check(this); return this.#parts.port; }
  set port(value) { check(this); this.#set('port', value); }
  get pathname() { check(this); return this.#parts.pathname; }
  set pathname(value) { check(this); this.#set('pathname', value); }
  get search() { check(this); return this.#parts.search; }
  set search(value) { check(this); this.#set('search', value); }
  get searchParams() {
    check(this);
    if (!this.#params) {
      const { URLSearchParams, bind } = require('url_params');
      this.#params = bind(new URLSearchParams(this.#parts.search), (text) => {
        const parts = setPart(this.#parts.href, 'search', text);
        if (parts) this.#parts = parts;
      });
    }
    return this.#params;
  }
  get hash() { check(this); return this.#parts.hash; }
  set hash(value) { check(this); this.#set('hash', value); }
  toString() { check(this); return this.#parts.href; }
  toJSON() { check(this); return this.#parts.href; }
  static createObjectURL() { return raise('ERR_FEATURE_UNAVAILABLE_ON_PLATFORM', 'URL.createObjectURL()'); }
  static revokeObjectURL() {}
  static canParse(input, base = undefined) {
    if (arguments.length === 0) raise('ERR_MISSING_ARGS', 'url');
    return parseURL(toText(input), base === undefined ? undefined : toText(base)) !== undefined;
  }
  static parse(input, base = undefined) { return URL.canParse(input, base) ? new URL(input, base) : null; }
  [inspectName](depth, options) {
    check(this);
    if (typeof depth === 'number' && depth < 0) return this;
    const shown = Object.create({ constructor: this.constructor === undefined || this.constructor === null ? URL : this.constructor });
    for (const key of names) shown[key] = this[key];
    return `${this.constructor.name} ${require('inspect').inspect(Object.assign({}, shown), options)}`;
  }
}
const names = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'searchParams', 'hash'];
sys('enumerable')(URL.prototype, true, `${names.join(' ')} toString toJSON`);
sys('enumerable')(URL, true, 'createObjectURL revokeObjectURL canParse parse');
Object.defineProperty(URL.prototype, Symbol.toStringTag, { value: 'URL', configurable: true });

function fileURLToPath(path) {
  if (typeof path === 'string') path = new URL(path);
  else if (!(path instanceof URL)) raise('ERR_INVALID_ARG_TYPE', 'path', ['string', 'URL'], path);
  if (path.protocol !== 'file:') raise('ERR_INVALID_URL_SCHEME', 'file');
  if (path.hostname !== '') raise('ERR_INVALID_FILE_URL_HOST', 'linux');
  if (path.pathname.toLowerCase().includes('%2f')) raise('ERR_INVALID_FILE_URL_PATH', 'must not include encoded / characters');
  return decodeURIComponent(path.pathname);
}

function pathToFileURL(path) {
  const { resolve } = require('path');
  let full = resolve(path);
  if (typeof path === 'string' && path.endsWith('/') && full !== '/') full += '/';
  const url = new URL('file:///');
  url.pathname = full.replaceAll('%', '%25').replaceAll('\\', '%5C').replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('\t', '%09');
  return url;
}

function hostOf(domain) {
  if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'domain');
  const parts = parseURL('ws://' + toText(domain));
  return parts ? parts.hostname : '';
}

function urlToHttpOptions(url) {
  const { hostname, pathname, port, username, password, search } = url;
  const options = {
    protocol: url.protocol,
    hostname: hostname && hostname[0] === '[' ? hostname.slice(1, -1) : hostname,
    hash: url.hash,
    search,
    pathname,
    path: `${pathname || ''}${search || ''}`,
    href: url.href,
  };
  if (port !== '') options.port = Number(port);
  if (username || password) options.auth = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return options;
}

module.exports = {
  URL,
  get URLSearchParams() { return require('url_params').URLSearchParams; },
  fileURLToPath, pathToFileURL, urlToHttpOptions,
  domainToASCII: function domainToASCII(domain) { return hostOf(...arguments); },
  domainToUnicode: function domainToUnicode(domain) { return sys('url.unicode')(hostOf(...arguments)); },
  get Url() { return require('url_legacy').Url; },
  parse(...args) { return require('url_legacy').parse(...args); },
  resolve(...args) { return require('url_legacy').resolve(...args); },
  resolveObject(...args) { return require('url_legacy').resolveObject(...args); },
  format(value, options) {
    if (!(value instanceof URL)) return require('url_legacy').format(value);
    if (options !== undefined) require('validators').validateObject(options, 'options');
    return formatURL(value, options || {});
  },
};

function formatURL(url, { fragment = true, unicode = false, search = true, auth = true }) {
  let host = url.hostname;
  if (unicode && host) host = sys('url.unicode')(host);
  if (url.port !== '') host += ':' + url.port;
  let out = url.protocol;
  if (url.host !== '' || url.protocol === 'file:') {
    out += '//';
    if (auth && (url.username || url.password)) out += url.username + (url.password ? ':' + url.password : '') + '@';
    out += host;
  }
  return out + url.pathname + (search ? url.search : '') + (fragment ? url.hash : '');
}
