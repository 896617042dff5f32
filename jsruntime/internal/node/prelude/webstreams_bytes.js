'use strict';
// The controller of byte streams, and requests to fill a view.
const { raise } = require('codes');
const { deferred } = require('webstreams_common');
const { Source, secret, ofController, stateOf, close, readers } = require('webstreams_readable');

const bytesOf = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

// ByteSource keeps bytes, and views that wait to be filled.
class ByteSource extends Source {
  constructor(controller, stream, source, highWaterMark) {
    super(controller, stream, source, highWaterMark, (chunk) => chunk.byteLength);
    const { autoAllocateChunkSize: size } = source;
    if (size !== undefined && (Number(size) === 0 || !Number.isInteger(Number(size)))) raise('ERR_INVALID_ARG_VALUE', 'source.autoAllocateChunkSize', size);
    this.autoSize = size === undefined ? undefined : Number(size);
  }
  wants() { return super.wants() || (!this.closing && this.state === 'readable' && this.started && this.views.length > 0); }
  pull() {
    const request = deferred();
    if (this.queue.length) {
      const value = this.queue.shift();
      this.afterTake();
      request.resolve({ value, done: false });
      return request.promise;
    }
    if (this.autoSize !== undefined) this.views.push({ bytes: new Uint8Array(this.autoSize), filled: 0, least: 1, Type: Uint8Array, auto: true });
    this.waiting().push(request);
    this.fill();
    return request.promise;
  }
  // pullInto fills a view of the reader, and detaches the buffer that it was
  // given.
  pullInto(view, least) {
    const Type = view.constructor === DataView ? DataView : Object.getPrototypeOf(Object.getPrototypeOf(view)) === Object.getPrototypeOf(Uint8Array.prototype) ? view.constructor : Uint8Array;
    const entry = { bytes: bytesOf(view), filled: 0, least, Type, unit: view.BYTES_PER_ELEMENT || 1 };
    const request = deferred();
    if (this.state === 'closed') {
      request.resolve({ value: makeView(entry), done: true });
      return request.promise;
    }
    this.take(entry);
    if (entry.filled >= least && !this.views.length) {
      this.afterTake();
      request.resolve({ value: makeView(entry), done: false });
      return request.promise;
    }
    if (this.closing && !this.queue.length) {
      const err = new TypeError('The stream has ended in the middle of an element');
      this.error(err);
      return Promise.reject(err);
    }
    this.views.push(entry);
    this.waiting().push(request);
    this.fill();
    return request.promise;
  }
  // take moves bytes from the queue into a view.
  take(entry) {
    while (this.queue.length && entry.filled < entry.bytes.length) {
      const chunk = this.queue.first();
      const n = Math.min(chunk.byteLength, entry.bytes.length - entry.filled);
      entry.bytes.set(chunk.subarray(0, n), entry.filled);
      entry.filled += n;
      if (n === chunk.byteLength) this.queue.shift(); else this.queue.replace(chunk.subarray(n), chunk.byteLength - n);
    }
    const unit = entry.unit || 1;
    const extra = entry.filled % unit;
    if (extra) {
      this.queue.unshift(entry.bytes.slice(entry.filled - extra, entry.filled), extra);
      entry.filled -= extra;
    }
  }
  afterTake() {
    if (this.closing && !this.queue.length) { this.forget(); close(this.stream); } else this.fill();
  }
  enqueue(chunk) {
    if (!ArrayBuffer.isView(chunk)) raise('ERR_INVALID_ARG_TYPE', 'chunk', ['Buffer', 'TypedArray', 'DataView'], chunk);
    if (chunk.byteLength === 0) raise('ERR_INVALID_STATE_TYPE', 'chunk ArrayBuffer is zero-length');
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    this.request = undefined;
    const bytes = bytesOf(chunk);
    const { reader } = stateOf(this.stream);
    if (reader && !readers.get(reader).byob && this.waiting().length && !this.queue.length) {
      if (this.views.length && this.views[0].auto) this.views.shift();
      this.waiting().shift().resolve({ value: bytes, done: false });
    } else {
      this.queue.push(bytes, bytes.byteLength);
      this.settle();
    }
    this.fill();
  }
  // settle resolves the requests whose views are full enough.
  settle() {
    while (this.views.length && this.queue.length) {
      const entry = this.views[0];
      this.take(entry);
      if (entry.filled < entry.least) return;
      this.views.shift();
      const request = this.waiting().shift();
      if (request) request.resolve({ value: makeView(entry), done: false });
    }
  }
  close() {
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    this.closing = true;
    if (this.queue.length) return;
    const first = this.views[0];
    if (first && first.filled > 0 && first.filled % (first.unit || 1)) {
      const err = new TypeError('The stream has ended in the middle of an element');
      this.error(err);
      throw err;
    }
    this.forget();
    close(this.stream);
  }
  byobRequest() {
    if (!this.views.length) return null;
    if (!this.request) {
      const entry = this.views[0];
      this.request = new ReadableStreamBYOBRequest(secret, this, new Uint8Array(entry.bytes.buffer, entry.bytes.byteOffset + entry.filled, entry.bytes.length - entry.filled));
    }
    return this.request;
  }
  respond(count) {
    const entry = this.views[0];
    this.request = undefined;
    if (!entry) raise('ERR_INVALID_STATE_TYPE', 'This BYOB request has been invalidated');
    if (this.state === 'closed') {
      if (count !== 0) raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
      for (const view of this.views.splice(0)) {
        const request = this.waiting().shift();
        if (request) request.resolve({ value: view.auto ? undefined : makeView(view), done: true });
      }
      return;
    }
    if (count === 0) raise('ERR_INVALID_STATE_TYPE', 'bytesWritten must be greater than 0');
    if (entry.filled + count > entry.bytes.length) throw new RangeError('bytesWritten is out of range');
    entry.filled += count;
    if (entry.filled < entry.least) { this.fill(); return; }
    this.views.shift();
    const extra = entry.filled % (entry.unit || 1);
    if (extra) { this.queue.push(entry.bytes.slice(entry.filled - extra, entry.filled), extra); entry.filled -= extra; }
    const request = this.waiting().shift();
    if (request) request.resolve({ value: makeView(entry), done: false });
    this.settle();
    this.fill();
  }
  released() { this.views = this.views.slice(0, 1).map((view) => ({ ...view, least: 1, auto: true })); }
  async cancel(reason) { this.views = []; return super.cancel(reason); }
}

function makeView(entry) {
  const { bytes, filled, Type } = entry;
  return new Type(bytes.buffer, bytes.byteOffset, Type === DataView ? filled : filled / (entry.unit || 1));
}

const requests = new WeakMap();
class ReadableStreamBYOBRequest {
  constructor(key, source, view) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    requests.set(this, { source, view });
  }
  get view() { const r = requests.get(this) || raise('ERR_INVALID_THIS', 'ReadableStreamBYOBRequest'); return r.source.request === this ? r.view : null; }
  respond(count) {
    const r = requests.get(this) || raise('ERR_INVALID_THIS', 'ReadableStreamBYOBRequest');
    if (r.source.request !== this) raise('ERR_INVALID_STATE_TYPE', 'This BYOB request has been invalidated');
    r.source.respond(Math.max(0, Math.trunc(Number(count)) || 0));
  }
  respondWithNewView(view) {
    const r = requests.get(this) || raise('ERR_INVALID_THIS', 'ReadableStreamBYOBRequest');
    if (!ArrayBuffer.isView(view)) raise('ERR_INVALID_ARG_TYPE', 'view', ['Buffer', 'TypedArray', 'DataView'], view);
    if (r.source.request !== this) raise('ERR_INVALID_STATE_TYPE', 'This BYOB request has been invalidated');
    if (view.byteOffset !== r.view.byteOffset || view.buffer.byteLength !== r.view.buffer.byteLength) throw new RangeError('The view is not that of the request');
    if (view.buffer !== r.view.buffer) r.view.set(bytesOf(view));
    r.source.respond(view.byteLength);
  }
}

class ReadableByteStreamController {
  constructor(key, ...args) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    new ByteSource(this, ...args);
  }
  get byobRequest() { return ofController(this, 'ReadableByteStreamController').byobRequest(); }
  get desiredSize() { return ofController(this, 'ReadableByteStreamController').desired(); }
  close() { ofController(this, 'ReadableByteStreamController').close(); }
  enqueue(chunk) { ofController(this, 'ReadableByteStreamController').enqueue(chunk); }
  error(err = undefined) { ofController(this, 'ReadableByteStreamController').error(err); }
}

module.exports = { ReadableByteStreamController, ReadableStreamBYOBRequest };
