'use strict';
// fetch, performed by the egress client of the vault.
const { Buffer } = require('buffer');
const { Headers, freeze } = require('headers');
const { FormData } = require('formdata');
const { Body, extract, bodyOf } = require('body');
const host = sys('host');
const nullStatus = [101, 204, 205, 304];
const redirects = [301, 302, 303, 307, 308];

const hide = (object, values) => {
  for (const key of Object.keys(values)) Object.defineProperty(object, key, { value: values[key], writable: true, configurable: true });
};

class Response extends Body {
  constructor(body = null, init = {}) {
    super();
    init = init === null ? {} : init;
    const status = init.status === undefined ? 200 : Number(init.status);
    if (!(status >= 200 && status <= 599)) throw new RangeError('Failed to construct \'Response\': The status provided is outside the range [200, 599].');
    const statusText = init.statusText === undefined ? '' : `${init.statusText}`;
    if (/[^\t\u0020-\u007e\u0080-\u00ff]/.test(statusText)) throw new TypeError('Invalid statusText');
    hide(this, { _parts: { status: Math.trunc(status), statusText, url: '', redirected: false, type: 'default' }, _headers: new Headers(init.headers) });
    if (body === null || body === undefined) return;
    if (nullStatus.includes(status)) throw new TypeError(`Response with status ${status} cannot have a body`);
    const parts = extract(body);
    this._setBody(parts);
    if (parts.type && !this.headers.has('content-type')) this.headers.set('content-type', parts.type);
  }
  get status() { return this._parts.status; }
  get statusText() { return this._parts.statusText; }
  get ok() { return this.status >= 200 && this.status <= 299; }
  get headers() { return this._headers; }
  get url() { return this._parts.url.replace(/#.*$/, ''); }
  get redirected() { return this._parts.redirected; }
  get type() { return this._parts.type; }
  clone() {
    const out = new this.constructor(null);
    this._copyBody(out);
    hide(out, { _parts: { ...this._parts }, _headers: new Headers(this.headers) });
    return out;
  }
  static json(value, init = {}) {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError('The data is not JSON serializable');
    const out = new Response(text, init);
    if (!new Headers(init && init.headers).has('content-type')) out.headers.set('content-type', 'application/json');
    return out;
  }
  static redirect(url, status = 302) {
    const location = new (require('url').URL)(`${url}`).href;
    if (!redirects.includes(Number(status))) throw new RangeError(`Invalid status code ${status}`);
    const out = new Response(null, { status, headers: { location } });
    freeze(out.headers);
    return out;
  }
  static error() {
    const out = new Response(null);
    out._parts = { ...out._parts, status: 0, type: 'error' };
    freeze(out.headers);
    return out;
  }
}

// answerOf makes the response to a request that was sent.
function answerOf(Class, answer, url, redirected) {
  const out = new Class(null, { headers: answer.headers });
  hide(out, { _parts: { status: answer.status, statusText: answer.statusText, url, redirected, type: 'basic' } });
  if (!nullStatus.includes(answer.status)) out._setBody({ bytes: answer.body });
  return out;
}

const standard = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'];
function methodOf(method) {
  const text = `${method}`;
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(text)) throw new TypeError(`'${text}' is not a valid HTTP method.`);
  const upper = text.toUpperCase();
  if (['CONNECT', 'TRACE', 'TRACK'].includes(upper)) throw new TypeError(`'${text}' HTTP method is unsupported.`);
  return standard.includes(upper) ? upper : text;
}

function oneOf(value, allowed, name, fallback) {
  if (value === undefined) return fallback;
  if (!allowed.includes(`${value}`)) throw new TypeError(`Invalid value for ${name}`);
  return `${value}`;
}

class Request extends Body {
  constructor(input, init = {}) {
    if (arguments.length === 0) throw new TypeError('Request: 1 argument required, but only 0 present.');
    super();
    init = init === null ? {} : init;
    const from = input instanceof Request ? input : undefined;
    const url = from ? from.url : new (require('url').URL)(`${input}`).href;
    if (!from) { const parsed = new (require('url').URL)(url); if (parsed.username || parsed.password) throw new TypeError('Request cannot be constructed from a URL that includes credentials: ' + parsed.origin); }
    const pick = (name, allowed, fallback) => oneOf(init[name], allowed, name, from ? from[name] : fallback);
    if (init.window !== undefined && init.window !== null) throw new TypeError('window must be null');
    if (init.mode === 'navigate') throw new TypeError('Invalid value for mode');
    const { AbortSignal, AbortController } = require('abort');
    const given = init.signal === undefined ? from && from.signal : init.signal;
    if (given !== null && given !== undefined && !('aborted' in Object(given))) throw new TypeError('signal is not an AbortSignal');
    hide(this, {
      _parts: {
        url, method: init.method === undefined ? (from ? from.method : 'GET') : methodOf(init.method),
        redirect: pick('redirect', ['follow', 'error', 'manual'], 'follow'), mode: pick('mode', ['same-origin', 'no-cors', 'cors', 'navigate'], 'cors'),
        credentials: pick('credentials', ['omit', 'same-origin', 'include'], 'same-origin'),
        cache: pick('cache', ['default', 'no-store', 'reload', 'no-cache', 'force-cache', 'only-if-cached'], 'default'),
        referrerPolicy: pick('referrerPolicy', ['', 'no-referrer', 'no-referrer-when-downgrade', 'same-origin', 'origin', 'strict-origin', 'origin-when-cross-origin', 'strict-origin-when-cross-origin', 'unsafe-url'], ''),
        integrity: init.integrity === undefined ? (from ? from.integrity : '') : `${init.integrity}`,
        keepalive: init.keepalive === undefined ? (from ? from.keepalive : false) : !!init.keepalive,
        duplex: 'half', given,
      },
      _headers: new Headers(init.headers !== undefined ? init.headers : from ? from.headers : undefined),
      _signal: given instanceof AbortSignal ? AbortSignal.any([given]) : given || new AbortController().signal,
    });
    this._takeBody(init, from);
  }
  _takeBody(init, from) {
    const plain = this.method === 'GET' || this.method === 'HEAD';
    if (init.body !== undefined && init.body !== null) {
      if (plain) throw new TypeError('Request with GET/HEAD method cannot have body.');
      const parts = extract(init.body);
      this._setBody(parts);
      if (parts.type && !this.headers.has('content-type')) this.headers.set('content-type', parts.type);
    } else if (from && from._hasBody()) {
      if (plain) throw new TypeError('Request with GET/HEAD method cannot have body.');
      if (from.bodyUsed) throw new TypeError('Cannot construct a Request with a Request object that has already been used.');
      from._copyBody(this);
    }
  }
  get headers() { return this._headers; }
  get signal() { return this._signal; }
  get destination() { return ''; }
  get referrer() { return 'about:client'; }
  get isHistoryNavigation() { return false; }
  get isReloadNavigation() { return false; }
  clone() { return new Request(this); }
}
for (const name of ['url', 'method', 'redirect', 'mode', 'credentials', 'cache', 'referrerPolicy', 'integrity', 'keepalive', 'duplex']) {
  Object.defineProperty(Request.prototype, name, { get() { return this._parts[name]; }, enumerable: true, configurable: true });
}
for (const Class of [Request, Response]) {
  for (const name of Object.getOwnPropertyNames(Class.prototype)) if (name !== 'constructor' && name[0] !== '_') Object.defineProperty(Class.prototype, name, { enumerable: true });
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

const aborted = (signal) => (signal.reason !== undefined ? signal.reason : new (require('abort').DOMException)('The operation was aborted.', 'AbortError'));

// exchange sends one request and resolves with the parts of the response.
function exchange({ method, url, headers, body, signal }) {
  return new Promise((resolve, reject) => {
    if (signal && signal.aborted) return reject(aborted(signal));
    if (signal) signal.addEventListener('abort', () => reject(aborted(signal)));
    const request = { method, url, headers };
    if (body && body.length) request.body = Buffer.from(body).toString('base64');
    host('fetch', request, (err, answer) => {
      if (err) return reject(err);
      resolve({
        status: answer.status,
        statusText: answer.status_text || '',
        url: answer.url || url,
        headers: answer.headers || [],
        body: answer.body ? Buffer.from(answer.body, 'base64') : Buffer.alloc(0),
      });
    });
  });
}

async function fetch(input, init = {}) { return send(Response, input, init); }

// send sends a request and follows redirects.
async function send(Class, input, init) {
  const request = new Request(input, init);
  const { protocol } = new (require('url').URL)(request.url);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('Only HTTP(S) protocols are supported');
  let { url, method } = request;
  let body = request._hasBody() ? await request._take() : undefined;
  for (let hops = 0; ; hops++) {
    let answer;
    try {
      answer = await exchange({ method, url, headers: [...request.headers], body, signal: request.signal });
    } catch (err) {
      if (request.signal && request.signal.aborted) throw err;
      const failure = new TypeError('fetch failed');
      failure.cause = err;
      if (err && err.code) failure.code = err.code;
      throw failure;
    }
    const location = answer.headers.find(([name]) => name.toLowerCase() === 'location');
    if (!redirects.includes(answer.status) || !location || request.redirect === 'manual') {
      return answerOf(Class, answer, url, hops > 0);
    }
    if (request.redirect === 'error' || hops >= 20) throw new TypeError('redirect count exceeded');
    const next = new (require('url').URL)(location[1], url);
    if (answer.status === 303 || ((answer.status === 301 || answer.status === 302) && method === 'POST')) {
      method = method === 'HEAD' ? 'HEAD' : 'GET';
      body = undefined;
      for (const name of ['content-type', 'content-length', 'content-encoding']) request.headers.delete(name);
    }
    if (next.origin !== new (require('url').URL)(url).origin) for (const name of ['authorization', 'cookie', 'proxy-authorization']) request.headers.delete(name);
    url = next.href;
  }
}

module.exports = { fetch, send, Headers, Request, Response, FormData, exchange, bodyOf };
