'use strict';
// fetch, as the egress client of the vault carries it out.
const { Buffer, Blob } = require('buffer');
const host = sys('host');

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
function checkName(name) {
  name = String(name);
  if (!token.test(name)) throw new TypeError(`Header name must be a valid HTTP token ["${name}"]`);
  return name.toLowerCase();
}
function checkValue(name, value) {
  value = String(value).replace(/^[\t\r\n ]+|[\t\r\n ]+$/g, '');
  if (/[\0\r\n]/.test(value)) throw new TypeError(`Invalid character in header content ["${name}"]`);
  return value;
}

class Headers {
  #map = new Map();
  constructor(init) {
    if (init === undefined || init === null) return;
    if (init instanceof Headers) { for (const [name, value] of init) this.append(name, value); return; }
    if (typeof init[Symbol.iterator] === 'function') {
      for (const pair of init) {
        const [name, value] = pair;
        this.append(name, value);
      }
      return;
    }
    for (const name of Object.keys(init)) {
      const values = Array.isArray(init[name]) ? init[name] : [init[name]];
      if (init[name] !== undefined && init[name] !== null) for (const value of values) this.append(name, value);
    }
  }
  append(name, value) {
    const key = checkName(name);
    this.#map.set(key, [...(this.#map.get(key) || []), checkValue(name, value)]);
  }
  set(name, value) { this.#map.set(checkName(name), [checkValue(name, value)]); }
  get(name) { const found = this.#map.get(checkName(name)); return found ? found.join(', ') : null; }
  has(name) { return this.#map.has(checkName(name)); }
  delete(name) { this.#map.delete(checkName(name)); }
  getSetCookie() { return this.#map.get('set-cookie') || []; }
  raw() { return Object.fromEntries(this.#map); }
  forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }
  *entries() { for (const name of [...this.#map.keys()].sort()) yield [name, this.#map.get(name).join(', ')]; }
  *keys() { for (const [name] of this) yield name; }
  *values() { for (const [, value] of this) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return 'Headers'; }
  toJSON() { return Object.fromEntries(this); }
}

class FormData {
  #list = [];
  append(name, value, filename) { this.#list.push([String(name), value instanceof Blob || ArrayBuffer.isView(value) ? value : String(value), filename]); }
  set(name, value, filename) { this.delete(name); this.append(name, value, filename); }
  get(name) { const found = this.#list.find(([key]) => key === name); return found ? found[1] : null; }
  getAll(name) { return this.#list.filter(([key]) => key === name).map(([, value]) => value); }
  has(name) { return this.#list.some(([key]) => key === name); }
  delete(name) { this.#list = this.#list.filter(([key]) => key !== name); }
  *entries() { for (const [name, value] of this.#list) yield [name, value]; }
  [Symbol.iterator]() { return this.entries(); }
  // encode returns the body and its boundary.
  encode() {
    const boundary = '----vault' + Buffer.from(sys('crypto.random')(16)).toString('hex');
    const parts = [];
    const quote = (text) => text.replace(/\r\n|\r|\n/g, '%0D%0A').replace(/"/g, '%22');
    for (const [name, value, filename] of this.#list) {
      const file = typeof value !== 'string';
      const type = file ? `\r\nContent-Type: ${value.type || 'application/octet-stream'}` : '';
      const as = file ? `; filename="${quote(filename || value.name || 'blob')}"` : '';
      parts.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${quote(name)}"${as}${type}\r\n\r\n`));
      parts.push(file ? Buffer.from(value._bytes || value) : Buffer.from(value), Buffer.from('\r\n'));
    }
    parts.push(Buffer.from(`--${boundary}--\r\n`));
    return { body: Buffer.concat(parts), boundary };
  }
}

// bodyOf returns the bytes of a body and the content type that it implies.
async function bodyOf(body) {
  if (body === undefined || body === null) return {};
  if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'text/plain;charset=UTF-8' };
  const { URLSearchParams } = require('url');
  if (body instanceof URLSearchParams) return { bytes: Buffer.from(body.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (body instanceof FormData) { const form = body.encode(); return { bytes: form.body, type: 'multipart/form-data; boundary=' + form.boundary }; }
  if (body instanceof Blob) return { bytes: body._bytes, type: body.type || undefined };
  if (body instanceof ArrayBuffer) return { bytes: Buffer.from(body) };
  if (ArrayBuffer.isView(body)) return { bytes: Buffer.from(body.buffer, body.byteOffset, body.byteLength) };
  if (typeof body.on === 'function' || (Symbol.asyncIterator && body[Symbol.asyncIterator])) {
    const chunks = [];
    const iterator = body[Symbol.asyncIterator]();
    for (let step = await iterator.next(); !step.done; step = await iterator.next()) chunks.push(Buffer.from(step.value));
    return { bytes: Buffer.concat(chunks), type: body.getHeaders ? body.getHeaders()['content-type'] : undefined };
  }
  return { bytes: Buffer.from(String(body)), type: 'text/plain;charset=UTF-8' };
}

class Body {
  #bytes;
  #used = false;
  _setBody(bytes) { this.#bytes = bytes; }
  _peek() { return this.#bytes; }
  get bodyUsed() { return this.#used; }
  get body() {
    if (this.#bytes === null || this.#bytes === undefined) return null;
    const { Readable } = require('stream');
    this.#used = true;
    return Readable.from([Buffer.from(this.#bytes)]);
  }
  async #take() {
    if (this.#used) throw new TypeError('body used already for: ' + (this.url || ''));
    this.#used = true;
    const bytes = await this.#bytes;
    return bytes ? Buffer.from(bytes) : Buffer.alloc(0);
  }
  async text() { return new (require('encoding').TextDecoder)().decode(await this.#take()); }
  async json() { return JSON.parse(await this.text()); }
  async arrayBuffer() { const b = await this.#take(); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); }
  async buffer() { return this.#take(); }
  async blob() { return new Blob([await this.#take()], { type: this.headers.get('content-type') || '' }); }
}

class Response extends Body {
  constructor(body, init = {}) {
    super();
    const status = init.status === undefined ? 200 : init.status;
    if (!(status >= 200 && status <= 599)) throw new RangeError('Failed to construct \'Response\': The status provided is outside the range [200, 599].');
    this.status = status;
    this.statusText = init.statusText === undefined ? '' : String(init.statusText);
    this.ok = status >= 200 && status <= 299;
    this.headers = new Headers(init.headers);
    this.url = init.url || '';
    this.redirected = !!init.redirected;
    this.type = 'default';
    this._init = init;
    Object.defineProperty(this, '_init', { enumerable: false });
    if (body instanceof Uint8Array && init._raw) this._setBody(body);
    else if (body !== undefined && body !== null) this._setBody(bodyOf(body).then(({ bytes, type }) => { if (type && !this.headers.has('content-type')) this.headers.set('content-type', type); return bytes; }));
  }
  clone() { return new Response(this._peek(), { ...this._init, _raw: true }); }
  static json(value, init = {}) { return new Response(JSON.stringify(value), { ...init, headers: { 'content-type': 'application/json', ...init.headers } }); }
  static error() { return new Response(null, { status: 500 }); }
}

class Request extends Body {
  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : {};
    this.url = input instanceof Request ? input.url : new (require('url').URL)(String(input)).href;
    this.method = String(init.method || from.method || 'GET').toUpperCase();
    this.headers = new Headers(init.headers || from.headers);
    this.redirect = init.redirect || from.redirect || 'follow';
    this.signal = init.signal || from.signal || null;
    this._source = init.body !== undefined ? init.body : from._source;
    Object.defineProperty(this, '_source', { enumerable: false });
    if (this._source !== undefined && this._source !== null) {
      if (this.method === 'GET' || this.method === 'HEAD') throw new TypeError('Request with GET/HEAD method cannot have body.');
      this._setBody(bodyOf(this._source).then(({ bytes }) => bytes));
    }
  }
  clone() { return new Request(this); }
}

const aborted = (signal) => (signal.reason !== undefined ? signal.reason : new (require('abort').DOMException)('The operation was aborted.', 'AbortError'));

// exchange sends one request and resolves with the answer in plain parts.
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

async function fetch(input, init = {}) {
  const request = new Request(input, init);
  const { protocol } = new (require('url').URL)(request.url);
  if (protocol !== 'http:' && protocol !== 'https:') throw new TypeError('Only HTTP(S) protocols are supported');
  const { bytes, type } = await bodyOf(request._source);
  if (type && !request.headers.has('content-type')) request.headers.set('content-type', type);
  let { url, method } = request;
  let body = bytes;
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
    if (![301, 302, 303, 307, 308].includes(answer.status) || !location || request.redirect === 'manual') {
      return new Response(answer.body, { ...answer, url, redirected: hops > 0, _raw: true });
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

module.exports = { fetch, Headers, Request, Response, FormData, exchange, bodyOf };
