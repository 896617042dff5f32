'use strict';
// Node's legacy url module, which has a separate, lenient parser.
const { raise } = require('codes');
const { validateString } = require('validators');
const querystring = require('querystring');

const slashed = new Set(['http', 'https', 'ftp', 'gopher', 'file', 'ws', 'wss']);
const isSlashed = (protocol) => slashed.has(String(protocol || '').replace(/:$/, ''));
const noHost = new Set(['javascript', 'javascript:']);
const escapes = { '\t': '%09', '\n': '%0A', '\r': '%0D', ' ': '%20', '"': '%22', "'": '%27', '<': '%3C', '>': '%3E', '\\': '%5C', '^': '%5E', '`': '%60', '{': '%7B', '|': '%7C', '}': '%7D' };

function Url() {
  for (const key of ['protocol', 'slashes', 'auth', 'host', 'port', 'hostname', 'hash', 'search', 'query', 'pathname', 'path', 'href']) this[key] = null;
}

function parse(url, withQuery, slashesDenoteHost) {
  if (url instanceof Url) return url;
  const out = new Url();
  out.parse(url, withQuery, slashesDenoteHost);
  return out;
}

// normalize converts backslashes before the query to slashes, and removes
// surrounding white space.
function normalize(text) {
  const trimmed = text.replace(/^[\s\ufeff\u00a0]+|[\s\ufeff\u00a0]+$/g, '');
  const at = trimmed.search(/[?#]/);
  const end = at < 0 ? trimmed.length : at;
  return trimmed.slice(0, end).replace(/\\/g, '/') + trimmed.slice(end);
}

Url.prototype.parse = function (url, withQuery, slashesDenoteHost) {
  validateString(url, 'url');
  let rest = normalize(url);
  if (!slashesDenoteHost && !/[#@]/.test(rest)) {
    const simple = /^(\/\/?(?!\/)[^?\s]*)(\?[^\s]*)?$/.exec(rest);
    if (simple) return this._simple(simple, rest, withQuery);
  }
  const proto = /^[a-z0-9.+-]+:/i.exec(rest);
  const lower = proto ? proto[0].toLowerCase() : '';
  if (proto) { this.protocol = lower; rest = rest.slice(proto[0].length); }
  let slashes = false;
  if (slashesDenoteHost || proto || /^\/\/[^@/]+@[^@/]+/.test(rest)) {
    slashes = rest.startsWith('//');
    if (slashes && !(lower && noHost.has(lower))) { rest = rest.slice(2); this.slashes = true; }
  }
  if (!noHost.has(lower) && (slashes || (proto && !isSlashed(lower)))) rest = this._authority(rest, url);
  if (!noHost.has(lower)) rest = rest.replace(/[\t\n\r "'<>\\^`{|}]/g, (c) => escapes[c]);
  this._tail(rest, withQuery);
  if (isSlashed(lower) && this.hostname && !this.pathname) this.pathname = '/';
  if (this.pathname || this.search) this.path = (this.pathname || '') + (this.search || '');
  this.href = this.format();
  return this;
};

Url.prototype._simple = function (m, rest, withQuery) {
  this.path = rest;
  this.href = rest;
  this.pathname = m[1];
  if (m[2]) {
    this.search = m[2];
    this.query = withQuery ? querystring.parse(m[2].slice(1)) : m[2].slice(1);
  } else if (withQuery) {
    this.search = null;
    this.query = Object.create(null);
  }
  return this;
};

// _authority removes user and host from the front, and returns the rest.
Url.prototype._authority = function (rest, url) {
  let end = rest.search(/[/?#]/);
  if (end < 0) end = rest.length;
  const at = rest.lastIndexOf('@', end - 1);
  let start = 0;
  if (at >= 0) { this.auth = decodeURIComponent(rest.slice(0, at)); start = at + 1; }
  let stop = rest.slice(start).search(/[/?#\t\n\r "%'<>\\^`{|};]/);
  stop = stop < 0 ? rest.length : start + stop;
  this.host = rest.slice(start, stop);
  rest = rest.slice(stop);
  const port = /:([0-9]*)$/.exec(this.host);
  let host = this.host;
  if (port) { if (port[1]) this.port = port[1]; host = host.slice(0, -port[0].length); }
  const bracketed = host[0] === '[' && host[host.length - 1] === ']';
  if (!bracketed) {
    const bad = host.search(/[^a-zA-Z0-9.\-+_\u0080-\uffff]/);
    if (bad >= 0) { rest = `/${host.slice(bad)}${rest}`; host = host.slice(0, bad); }
  }
  this.hostname = host.length > 255 ? '' : host.toLowerCase();
  if (!bracketed && this.hostname !== '') {
    const ascii = require('url').domainToASCII(this.hostname);
    this.hostname = /[^\u0000-\u007f]/.test(this.hostname) ? ascii : this.hostname;
    if (this.hostname === '') invalid(url);
  }
  this.host = this.hostname + (this.port ? ':' + this.port : '');
  if (bracketed) {
    this.hostname = this.hostname.slice(1, -1);
    if (rest[0] !== '/') rest = '/' + rest;
  }
  return rest;
};

function invalid(input) {
  const err = require('codes').make('ERR_INVALID_URL');
  err.input = input;
  throw err;
}

Url.prototype._tail = function (rest, withQuery) {
  const hash = rest.indexOf('#');
  if (hash >= 0) { this.hash = rest.slice(hash); rest = rest.slice(0, hash); }
  const question = rest.indexOf('?');
  if (question >= 0) {
    this.search = rest.slice(question);
    this.query = withQuery ? querystring.parse(this.search.slice(1)) : this.search.slice(1);
    rest = rest.slice(0, question);
  } else if (withQuery) {
    this.search = null;
    this.query = Object.create(null);
  }
  if (rest) this.pathname = rest;
};

const encodeAuth = (text) => encodeURIComponent(text).replace(/%3A/gi, ':');

Url.prototype.format = function () {
  let auth = this.auth || '';
  if (auth) auth = encodeAuth(auth) + '@';
  let protocol = this.protocol || '';
  let pathname = this.pathname || '';
  let hash = this.hash || '';
  let host = '';
  if (this.host) host = auth + this.host;
  else if (this.hostname) {
    host = auth + (this.hostname.includes(':') && this.hostname[0] !== '[' ? `[${this.hostname}]` : this.hostname);
    if (this.port) host += ':' + this.port;
  }
  let query = '';
  if (this.query !== null && typeof this.query === 'object') query = querystring.stringify(this.query);
  let search = this.search || (query && '?' + query) || '';
  if (protocol && protocol[protocol.length - 1] !== ':') protocol += ':';
  pathname = pathname.replace(/[#?]/g, (c) => (c === '#' ? '%23' : '%3F'));
  if (this.slashes || isSlashed(protocol)) {
    if (this.slashes || host) {
      if (pathname && pathname[0] !== '/') pathname = '/' + pathname;
      host = '//' + host;
    } else if (protocol === 'file:') host = '//';
  }
  search = search.replace(/#/g, '%23');
  if (hash && hash[0] !== '#') hash = '#' + hash;
  if (search && search[0] !== '?') search = '?' + search;
  return protocol + host + pathname + search + hash;
};

function format(value) {
  if (typeof value === 'string') value = parse(value);
  else if (typeof value !== 'object' || value === null) raise('ERR_INVALID_ARG_TYPE', 'urlObject', ['Object', 'string'], value);
  return value instanceof Url ? value.format() : Url.prototype.format.call(value);
}

Url.prototype.resolve = function (relative) { return this.resolveObject(parse(relative, false, true)).format(); };

// finish fills in the parts that a result takes from the relative URL.
function finish(out) {
  if (out.pathname !== null || out.search !== null) out.path = (out.pathname ? out.pathname : '') + (out.search ? out.search : '');
  out.href = out.format();
  return out;
}

Url.prototype.resolveObject = function (relative) {
  if (typeof relative === 'string') { const rel = new Url(); rel.parse(relative, false, true); relative = rel; }
  const out = Object.assign(new Url(), this);
  out.hash = relative.hash;
  if (relative.href === '') { out.href = out.format(); return out; }
  if (relative.slashes && !relative.protocol) {
    for (const key of Object.keys(relative)) if (key !== 'protocol') out[key] = relative[key];
    if (isSlashed(out.protocol) && out.hostname && !out.pathname) { out.path = '/'; out.pathname = '/'; }
    out.href = out.format();
    return out;
  }
  if (relative.protocol && relative.protocol !== out.protocol) return this._replace(out, relative);
  return this._merge(out, relative);
};

// _replace resolves against a URL of another protocol.
Url.prototype._replace = function (out, relative) {
  if (!isSlashed(relative.protocol)) {
    Object.assign(out, relative);
    out.href = out.format();
    return out;
  }
  out.protocol = relative.protocol;
  if (!relative.host && !/^file:?$/.test(relative.protocol) && !noHost.has(relative.protocol)) {
    const parts = (relative.pathname || '').split('/');
    while (parts.length && !(relative.host = parts.shift()));
    if (!relative.host) relative.host = '';
    if (!relative.hostname) relative.hostname = '';
    if (parts[0] !== '') parts.unshift('');
    if (parts.length < 2) parts.unshift('');
    out.pathname = parts.join('/');
  } else {
    out.pathname = relative.pathname;
  }
  Object.assign(out, { search: relative.search, query: relative.query, host: relative.host || '', auth: relative.auth, hostname: relative.hostname || relative.host, port: relative.port });
  if (out.pathname || out.search) out.path = (out.pathname || '') + (out.search || '');
  out.slashes = out.slashes || relative.slashes;
  out.href = out.format();
  return out;
};

// _merge resolves a path, relative or not, against another.
Url.prototype._merge = function (out, relative) {
  const sourceAbsolute = !!(out.pathname && out.pathname[0] === '/');
  const relativeAbsolute = !!(relative.host || (relative.pathname && relative.pathname[0] === '/'));
  let mustEndAbsolute = relativeAbsolute || sourceAbsolute || !!(out.host && relative.pathname);
  const keepDots = mustEndAbsolute;
  let path = (out.pathname && out.pathname.split('/')) || [];
  const relPath = (relative.pathname && relative.pathname.split('/')) || [];
  const hostless = out.protocol && !isSlashed(out.protocol);
  if (hostless) {
    out.hostname = '';
    out.port = null;
    if (out.host) { if (path[0] === '') path[0] = out.host; else path.unshift(out.host); }
    out.host = '';
    mustEndAbsolute = mustEndAbsolute && (relPath[0] === '' || path[0] === '');
  }
  if (relativeAbsolute) {
    if (relative.host || relative.host === '') { if (out.host !== relative.host) out.auth = null; out.host = relative.host; out.port = relative.port; }
    if (relative.hostname || relative.hostname === '') { if (out.hostname !== relative.hostname) out.auth = null; out.hostname = relative.hostname; }
    out.search = relative.search;
    out.query = relative.query;
    path = relPath;
  } else if (relPath.length) {
    path.pop();
    path = path.concat(relPath);
    out.search = relative.search;
    out.query = relative.query;
  } else if (relative.search !== null && relative.search !== undefined) {
    if (hostless) { out.hostname = out.host = path.shift(); }
    out.search = relative.search;
    out.query = relative.query;
    return finish(out);
  }
  if (!path.length) {
    out.pathname = null;
    out.path = out.search ? '/' + out.search : null;
    out.href = out.format();
    return out;
  }
  return this._dots(out, relative, path, mustEndAbsolute, keepDots, hostless);
};

// _dots resolves the segments . and .. of the joined path.
Url.prototype._dots = function (out, relative, path, mustEndAbsolute, removeAll, hostless) {
  let last = path[path.length - 1];
  const trailing = ((out.host || relative.host || path.length > 1) && (last === '.' || last === '..')) || last === '';
  let up = 0;
  for (let i = path.length - 1; i >= 0; i--) {
    last = path[i];
    if (last === '.') path.splice(i, 1);
    else if (last === '..') { path.splice(i, 1); up++; } else if (up) { path.splice(i, 1); up--; }
  }
  if (!mustEndAbsolute && !removeAll) while (up-- > 0) path.unshift('..');
  if (mustEndAbsolute && path[0] !== '' && (!path[0] || path[0][0] !== '/')) path.unshift('');
  if (trailing && !path.join('/').endsWith('/')) path.push('');
  const absolute = path[0] === '' || (path[0] && path[0][0] === '/');
  if (hostless) {
    out.hostname = out.host = absolute ? '' : path.length ? path.shift() : '';
  }
  mustEndAbsolute = mustEndAbsolute || (out.host && path.length);
  if (mustEndAbsolute && !absolute) path.unshift('');
  if (!path.length) { out.pathname = null; out.path = null; } else out.pathname = path.join('/');
  if (out.pathname !== null || out.search !== null) out.path = (out.pathname ? out.pathname : '') + (out.search ? out.search : '');
  out.auth = relative.auth || out.auth;
  out.slashes = out.slashes || relative.slashes;
  out.href = out.format();
  return out;
};

module.exports = {
  Url, parse, format,
  resolve: (from, to) => parse(from, false, true).resolve(to),
  resolveObject: (from, to) => (from ? parse(from, false, true).resolveObject(to) : to),
};
