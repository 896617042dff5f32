'use strict';
// The body of requests and responses.
require('patch_symbol');
const { Buffer } = require('buffer');
const { Blob, bytesOf } = require('blob');
const { FormData, encode, decode } = require('formdata');

const isStream = (value) => value instanceof require('webstreams').ReadableStream;
const viewOf = (value) => (value instanceof ArrayBuffer ? new Uint8Array(value) : new Uint8Array(value.buffer, value.byteOffset, value.byteLength));

// extract returns bytes or a stream, and the content type that the body
// implies.
function extract(body) {
  if (body === undefined || body === null) return {};
  if (typeof body === 'string') return { bytes: Buffer.from(body), type: 'text/plain;charset=UTF-8' };
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return { bytes: Buffer.from(viewOf(body)) };
  if (body instanceof Blob) return { bytes: bytesOf(body), type: body.type || undefined };
  if (body instanceof require('url').URLSearchParams) return { bytes: Buffer.from(body.toString()), type: 'application/x-www-form-urlencoded;charset=UTF-8' };
  if (body instanceof FormData) { const form = encode(body); return { bytes: form.body, type: 'multipart/form-data; boundary=' + form.boundary }; }
  if (isStream(body)) {
    if (body.locked || require('webstreams').isDisturbedState(body)) throw new TypeError('Response body object should not be disturbed or locked');
    return { stream: body };
  }
  if (typeof body.on === 'function' || typeof body[Symbol.asyncIterator] === 'function') {
    return { stream: body, type: body.getHeaders ? body.getHeaders()['content-type'] : undefined };
  }
  return { bytes: Buffer.from(`${body}`), type: 'text/plain;charset=UTF-8' };
}

// collect reads a whole stream.
async function collect(stream) {
  const chunks = [];
  const iterator = stream[Symbol.asyncIterator]();
  for (let step = await iterator.next(); !step.done; step = await iterator.next()) {
    if (typeof step.value === 'string' && isStream(stream)) throw new TypeError('Received non-Uint8Array chunk');
    if (typeof step.value !== 'string' && !(step.value instanceof Uint8Array)) throw new TypeError('Received non-Uint8Array chunk');
    chunks.push(Buffer.from(step.value));
  }
  return Buffer.concat(chunks);
}

// bodyOf returns the bytes of a body and its content type.
async function bodyOf(body) {
  const { bytes, stream, type } = extract(body);
  return stream ? { bytes: await collect(stream), type } : { bytes, type };
}

class Body {
  #bytes;
  #stream = null;
  #used = false;
  _setBody({ bytes, stream }) {
    this.#bytes = bytes;
    if (stream) this.#stream = isStream(stream) ? stream : require('webstreams').ReadableStream.from(stream);
  }
  // _copyBody gives another object the same body.
  _copyBody(other) {
    if (this.bodyUsed || (this.#stream && this.#stream.locked)) throw new TypeError('The body is used already, or locked');
    if (!this.#stream) { other._setBody({ bytes: this.#bytes }); return; }
    const [mine, theirs] = this.#stream.tee();
    this.#stream = mine;
    other._setBody({ stream: theirs });
  }
  _hasBody() { return this.#stream !== null || (this.#bytes !== undefined && this.#bytes !== null); }
  get bodyUsed() { return this.#used || (this.#stream !== null && require('webstreams').isDisturbedState(this.#stream)); }
  get body() {
    if (!this._hasBody()) return null;
    if (!this.#stream) {
      const bytes = this.#bytes;
      const { ReadableStream } = require('webstreams');
      this.#stream = new ReadableStream({
        type: 'bytes',
        pull(controller) {
          if (bytes.length) controller.enqueue(new Uint8Array(bytes));
          controller.close();
          if (controller.byobRequest) controller.byobRequest.respond(0);
        },
      }, { highWaterMark: 0 });
    }
    return this.#stream;
  }
  async _take() {
    if (this.bodyUsed || (this.#stream && this.#stream.locked)) throw new TypeError('Body is unusable: body used already for: ' + (this.url || ''));
    if (!this._hasBody()) return Buffer.alloc(0);
    this.#used = true;
    return this.#stream ? collect(this.#stream) : Buffer.from(this.#bytes);
  }
  async text() { return new (require('encoding').TextDecoder)().decode(await this._take()); }
  async json() { return require('json').parse(await this.text()); }
  async arrayBuffer() { const b = await this._take(); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); }
  async bytes() { return new Uint8Array(await this.arrayBuffer()); }
  async buffer() { return this._take(); }
  async blob() { return new Blob([await this._take()], { type: this.headers.get('content-type') || '' }); }
  async formData() { return decode(await this._take(), this.headers.get('content-type') || ''); }
}
sys('enumerable')(Body.prototype, true, 'body bodyUsed text json arrayBuffer bytes blob formData');

module.exports = { Body, extract, bodyOf };
