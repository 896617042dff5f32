'use strict';
// node-fetch, based on fetch.
const web = require('fetch');

class FetchError extends Error {
  constructor(message, type, cause) {
    super(message);
    this.name = 'FetchError';
    this.type = type;
    if (cause && cause.code) { this.code = cause.code; this.errno = cause.code; }
  }
}
class AbortError extends Error {
  constructor(message) { super(message); this.name = 'AbortError'; this.type = 'aborted'; }
}

// Its responses have a Node stream as their body.
class Response extends web.Response {
  get body() {
    if (!this._hasBody()) return null;
    return require('stream').Readable.fromWeb(super.body);
  }
}

async function fetch(url, options) {
  try {
    return await web.send(Response, url, options);
  } catch (err) {
    if (options && options.signal && options.signal.aborted) throw new AbortError('The user aborted a request.');
    if (err.cause) throw new FetchError(`request to ${String(url && url.url || url)} failed, reason: ${err.cause.message}`, 'system', err.cause);
    throw err;
  }
}
module.exports = Object.assign(fetch, {
  default: fetch, fetch, Headers: web.Headers, Request: web.Request, Response, FormData: web.FormData, Blob: require('blob').Blob, FetchError, AbortError,
  isRedirect: (code) => [301, 302, 303, 307, 308].includes(code),
});
Object.defineProperty(module.exports, '__esModule', { value: true });
