'use strict';
// The client half of http and https.
const { Buffer } = require('buffer');
const EventEmitter = require('events');
const { Readable, Writable } = require('stream');
const { URL, urlToHttpOptions } = require('url');
const { exchange } = require('fetch');
const codes = {
  100: 'Continue', 101: 'Switching Protocols', 102: 'Processing', 103: 'Early Hints', 200: 'OK', 201: 'Created', 202: 'Accepted',
  203: 'Non-Authoritative Information', 204: 'No Content', 205: 'Reset Content', 206: 'Partial Content', 207: 'Multi-Status', 208: 'Already Reported',
  226: 'IM Used', 300: 'Multiple Choices', 301: 'Moved Permanently', 302: 'Found', 303: 'See Other', 304: 'Not Modified', 305: 'Use Proxy',
  307: 'Temporary Redirect', 308: 'Permanent Redirect', 400: 'Bad Request', 401: 'Unauthorized', 402: 'Payment Required', 403: 'Forbidden',
  404: 'Not Found', 405: 'Method Not Allowed', 406: 'Not Acceptable', 407: 'Proxy Authentication Required', 408: 'Request Timeout', 409: 'Conflict',
  410: 'Gone', 411: 'Length Required', 412: 'Precondition Failed', 413: 'Payload Too Large', 414: 'URI Too Long', 415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable', 417: 'Expectation Failed', 418: "I'm a Teapot", 421: 'Misdirected Request', 422: 'Unprocessable Entity',
  423: 'Locked', 424: 'Failed Dependency', 425: 'Too Early', 426: 'Upgrade Required', 428: 'Precondition Required', 429: 'Too Many Requests',
  431: 'Request Header Fields Too Large', 451: 'Unavailable For Legal Reasons', 500: 'Internal Server Error', 501: 'Not Implemented',
  502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout', 505: 'HTTP Version Not Supported', 506: 'Variant Also Negotiates',
  507: 'Insufficient Storage', 508: 'Loop Detected', 509: 'Bandwidth Limit Exceeded', 510: 'Not Extended', 511: 'Network Authentication Required',
};

class Agent {
  constructor(options = {}) { this.options = options; this.maxSockets = options.maxSockets || Infinity; this.keepAlive = !!options.keepAlive; }
  destroy() {}
}

class IncomingMessage extends Readable {
  constructor(answer) {
    super();
    this.statusCode = answer.status;
    this.statusMessage = answer.statusText || codes[answer.status] || '';
    this.httpVersion = '1.1';
    this.headers = {};
    this.rawHeaders = [];
    for (const [name, value] of answer.headers) {
      const key = name.toLowerCase();
      this.rawHeaders.push(name, value);
      if (key === 'set-cookie') (this.headers[key] = this.headers[key] || []).push(value);
      else this.headers[key] = key in this.headers ? this.headers[key] + ', ' + value : value;
    }
    this.complete = true;
    this.socket = {};
    if (answer.body.length) this.push(answer.body);
    this.push(null);
  }
  setTimeout() { return this; }
}

// silentSocket returns a socket on which nothing happens. The vault has the
// real one.
function silentSocket() {
  const same = function () { return this; };
  return Object.assign(new EventEmitter(), {
    connecting: false, destroyed: false, writable: true, readable: true,
    setTimeout: same, setNoDelay: same, setKeepAlive: same, ref: same, unref: same, destroy: same,
  });
}

class ClientRequest extends Writable {
  constructor(options, callback) {
    super();
    this._headers = new Map();
    this._chunks = [];
    this.aborted = false;
    this.method = String(options.method || 'GET').toUpperCase();
    this.protocol = options.protocol;
    this.host = options.hostname || String(options.host || 'localhost').replace(/:\d+$/, '');
    this.path = options.path || '/';
    const port = options.port || (/:(\d+)$/.exec(options.hostname ? '' : options.host || '') || [])[1];
    this._url = `${options.protocol}//${this.host.includes(':') && this.host[0] !== '[' ? `[${this.host}]` : this.host}${port ? ':' + port : ''}${this.path}`;
    for (const name of Object.keys(options.headers || {})) this.setHeader(name, options.headers[name]);
    if (options.auth && !this.hasHeader('authorization')) this.setHeader('Authorization', 'Basic ' + Buffer.from(options.auth).toString('base64'));
    if (callback) this.once('response', callback);
    if (options.timeout) this.setTimeout(options.timeout);
    if (options.signal) options.signal.addEventListener('abort', () => this.destroy(abortError()));
    this.reusedSocket = false;
    this.socket = silentSocket();
    require('process').nextTick(() => this.emit('socket', this.socket));
  }
  setHeader(name, value) { this._headers.set(String(name).toLowerCase(), [name, value]); return this; }
  getHeader(name) { const found = this._headers.get(String(name).toLowerCase()); return found && found[1]; }
  getHeaders() { return Object.fromEntries([...this._headers].map(([key, [, value]]) => [key, value])); }
  hasHeader(name) { return this._headers.has(String(name).toLowerCase()); }
  removeHeader(name) { this._headers.delete(String(name).toLowerCase()); }
  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}
  setTimeout(delay, callback) {
    if (callback) this.once('timeout', callback);
    const timers = require('timers');
    if (this._timer) timers.clearTimeout(this._timer);
    if (delay) { this._timer = timers.setTimeout(() => this.emit('timeout'), delay); this._timer.unref(); }
    return this;
  }
  abort() { this.aborted = true; this.emit('abort'); this.destroy(hangUp()); }
  _write(chunk, encoding, done) { this._chunks.push(Buffer.from(chunk, encoding === 'buffer' ? undefined : encoding)); done(); }
  _final(done) {
    done();
    const headers = [];
    for (const [, [name, value]] of this._headers) {
      for (const item of Array.isArray(value) ? value : [value]) if (!/^(host|content-length|connection|transfer-encoding)$/i.test(name)) headers.push([name, String(item)]);
    }
    exchange({ method: this.method, url: this._url, headers, body: Buffer.concat(this._chunks) }).then((answer) => {
      if (this._gone) return;
      if (this._timer) require('timers').clearTimeout(this._timer);
      const message = new IncomingMessage(answer);
      message.req = this;
      this.res = message;
      if (!this.emit('response', message)) message.resume();
    }, (err) => { if (!this._gone) { this._gone = true; this.emit('error', err); this.emit('close'); } });
  }
  destroy(err) {
    if (!this.writableFinished || (err && !this._gone)) {
      this._gone = true;
      return super.destroy(err);
    }
    return this;
  }
}

function abortError() {
  const err = new Error('The operation was aborted');
  err.name = 'AbortError';
  err.code = 'ABORT_ERR';
  return err;
}
const hangUp = () => Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });

module.exports = (protocol) => {
  function request(target, options, callback) {
    if (typeof target === 'string') target = urlToHttpOptions(new URL(target));
    else if (target instanceof URL) target = urlToHttpOptions(target);
    else { callback = options; options = target; target = {}; }
    if (typeof options === 'function') { callback = options; options = {}; }
    const all = { protocol, ...target, ...options };
    if (all.protocol !== 'http:' && all.protocol !== 'https:' || (protocol === 'http:' && all.protocol === 'https:' && !(options && options.agent))) {
      const err = new TypeError(`Protocol "${all.protocol}" not supported. Expected "${protocol}"`);
      err.code = 'ERR_INVALID_PROTOCOL';
      throw err;
    }
    return new ClientRequest(all, callback);
  }
  function get(...args) { const req = request(...args); req.end(); return req; }
  const unsupported = () => { throw Object.assign(new Error('servers are not supported'), { code: 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM' }); };
  return {
    request, get, Agent, ClientRequest, IncomingMessage, globalAgent: new Agent(), STATUS_CODES: codes, createServer: unsupported,
    METHODS: ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'],
  };
};
