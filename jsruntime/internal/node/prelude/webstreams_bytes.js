'use strict';
// The controller of byte streams, and requests to fill a view.
const { raise } = require('codes');
const { deferred } = require('webstreams_common');
const { Source, secret, ofController, stateOf, close, readers } = require('webstreams_readable');

const twin = sys('buffer.twin');
const detach = sys('buffer.detach');
const detached = sys('buffer.detached');
const isDetached = (buffer) => buffer instanceof ArrayBuffer && detached(buffer);

// transfer moves the bytes of a buffer to another one.
function transfer(buffer) {
  if (!(buffer instanceof ArrayBuffer) || detached(buffer)) throw new TypeError('The buffer cannot be transferred');
  const out = twin(buffer);
  detach(buffer);
  return out;
}

const kinds = { Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array, Float32Array, Float64Array };
const kindOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

// ByteSource keeps parts of buffers, and views that wait to be filled. The
// first view may belong to a reader that was released.
class ByteSource extends Source {
  constructor(controller, stream, source, highWaterMark) {
    const { autoAllocateChunkSize: size } = source;
    if (size !== undefined && (Number(size) === 0 || !Number.isInteger(Number(size)))) raise('ERR_INVALID_ARG_VALUE', 'source.autoAllocateChunkSize', size);
    super(controller, stream, source, highWaterMark);
    this.autoSize = size === undefined ? undefined : Number(size);
  }
  hasReader(byob) {
    const { reader } = stateOf(this.stream);
    return reader !== null && readers.get(reader).byob === byob;
  }
  pull() {
    const request = deferred();
    if (this.queue.total > 0) {
      this.readQueue(request);
      return request.promise;
    }
    if (this.autoSize !== undefined) {
      let buffer;
      try { buffer = new ArrayBuffer(this.autoSize); } catch (err) { return Promise.reject(err); }
      this.views.push({ buffer, size: this.autoSize, offset: 0, length: this.autoSize, filled: 0, least: 1, unit: 1, Type: Uint8Array, reader: 'default' });
    }
    this.waiting().push(request);
    this.fill();
    return request.promise;
  }
  // readQueue resolves a request with the first part of the queue.
  readQueue(request) {
    const { buffer, offset, length } = this.queue.shift();
    this.drained();
    request.resolve({ value: new Uint8Array(buffer, offset, length), done: false });
  }
  drained() {
    if (this.queue.total === 0 && this.closing) { this.forget(); close(this.stream); } else this.fill();
  }
  // pullInto fills a view of the reader, and detaches the buffer that it was
  // given.
  pullInto(view, least) {
    const Type = kinds[kindOf.call(view)] || DataView;
    const request = deferred();
    const { byteOffset: offset, byteLength: length } = view;
    let buffer;
    try { buffer = transfer(view.buffer); } catch (err) { return Promise.reject(err); }
    const entry = { buffer, size: buffer.byteLength, offset, length, filled: 0, least, unit: Type.BYTES_PER_ELEMENT || 1, Type, reader: 'byob' };
    if (this.views.length) {
      this.views.push(entry);
      this.waiting().push(request);
      return request.promise;
    }
    if (this.state === 'closed') {
      request.resolve({ value: new Type(buffer, offset, 0), done: true });
      return request.promise;
    }
    if (this.queue.total > 0) {
      if (this.take(entry)) {
        const value = makeView(entry);
        this.drained();
        request.resolve({ value, done: false });
        return request.promise;
      }
      if (this.closing) {
        const err = new TypeError('The stream has ended in the middle of an element');
        this.error(err);
        return Promise.reject(err);
      }
    }
    this.views.push(entry);
    this.waiting().push(request);
    this.fill();
    return request.promise;
  }
  // take moves bytes from the queue into a view. It reports whether the view
  // has enough.
  take(entry) {
    let left = Math.min(this.queue.total, entry.length - entry.filled);
    const most = entry.filled + left;
    const whole = most - (most % entry.unit);
    const enough = whole >= entry.least;
    if (enough) left = whole - entry.filled;
    while (left > 0) {
      const part = this.queue.first();
      const n = Math.min(left, part.length);
      new Uint8Array(entry.buffer, entry.offset + entry.filled, n).set(new Uint8Array(part.buffer, part.offset, n));
      if (n === part.length) this.queue.shift();
      else this.queue.replace({ buffer: part.buffer, offset: part.offset + n, length: part.length - n }, part.length - n);
      entry.filled += n;
      left -= n;
    }
    return enough;
  }
  add(buffer, offset, length) { this.queue.push({ buffer, offset, length }, length); }
  addCopy(buffer, offset, length) { this.add(buffer.slice(offset, offset + length), 0, length); }
  // orphan moves the bytes of a view without a reader into the queue.
  orphan() {
    const entry = this.views.shift();
    if (entry.filled) this.addCopy(entry.buffer, entry.offset, entry.filled);
  }
  // full returns the views that the queue fills.
  full() {
    const out = [];
    while (this.views.length && this.queue.total > 0 && this.take(this.views[0])) out.push(this.views.shift());
    return out;
  }
  // commit resolves the request of a view.
  commit(entry) {
    const done = this.state === 'closed';
    const request = this.waiting().shift();
    const value = makeView(entry);
    if (request) request.resolve({ value: done && entry.reader === 'default' ? undefined : value, done });
  }
  enqueue(chunk) {
    if (!ArrayBuffer.isView(chunk)) raise('ERR_INVALID_ARG_TYPE', 'chunk', ['Buffer', 'TypedArray', 'DataView'], chunk);
    if (isDetached(chunk.buffer) || chunk.byteLength === 0 || chunk.buffer.byteLength === 0) raise('ERR_INVALID_STATE_TYPE', 'chunk ArrayBuffer is zero-length or detached');
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    const { byteOffset, byteLength } = chunk;
    const first = this.views[0];
    if (first && isDetached(first.buffer)) raise('ERR_INVALID_STATE_TYPE', 'The buffer of the request was detached');
    const buffer = transfer(chunk.buffer);
    if (first) {
      this.request = undefined;
      first.buffer = transfer(first.buffer);
      if (first.reader === 'none') this.orphan();
    }
    if (this.hasReader(false)) {
      const requests = this.waiting();
      while (requests.length && this.queue.total > 0) this.readQueue(requests.shift());
      if (!requests.length) this.add(buffer, byteOffset, byteLength);
      else {
        if (this.views.length) this.views.shift();
        requests.shift().resolve({ value: new Uint8Array(buffer, byteOffset, byteLength), done: false });
      }
    } else {
      this.add(buffer, byteOffset, byteLength);
      if (this.hasReader(true)) for (const entry of this.full()) this.commit(entry);
    }
    this.fill();
  }
  close() {
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    if (this.queue.total > 0) { this.closing = true; return; }
    const first = this.views[0];
    if (first && first.filled % first.unit) {
      const err = new TypeError('The stream has ended in the middle of an element');
      this.error(err);
      throw err;
    }
    this.closing = true;
    this.forget();
    close(this.stream);
  }
  error(err) {
    if (this.state === 'readable') this.clearViews();
    super.error(err);
  }
  clearViews() { this.request = undefined; this.views = []; }
  byobRequest() {
    if (!this.request && this.views.length) {
      const { buffer, offset, length, filled } = this.views[0];
      this.request = new ReadableStreamBYOBRequest(secret, this, new Uint8Array(buffer, offset + filled, length - filled));
    }
    return this.request || null;
  }
  respond(count) {
    const [first] = this.views;
    if (this.state === 'closed') { if (count !== 0) raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed'); } else {
      if (count === 0) raise('ERR_INVALID_STATE_TYPE', 'bytesWritten must be greater than 0');
      if (first.filled + count > first.length) throw new RangeError('bytesWritten is out of range');
    }
    first.buffer = transfer(first.buffer);
    this.responded(count);
  }
  respondWith(view) {
    const [first] = this.views;
    if (this.state === 'closed') { if (view.byteLength !== 0) raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed'); } else if (view.byteLength === 0) raise('ERR_INVALID_STATE_TYPE', 'The view is zero-length');
    if (first.offset + first.filled !== view.byteOffset || first.size !== view.buffer.byteLength || first.filled + view.byteLength > first.length) throw new RangeError('The view is not that of the request');
    const { byteLength } = view;
    first.buffer = transfer(view.buffer);
    this.responded(byteLength);
  }
  responded(count) {
    const [first] = this.views;
    this.request = undefined;
    if (this.state === 'closed') {
      if (first.reader === 'none') this.views.shift();
      if (this.hasReader(true)) while (this.waiting().length) this.commit(this.views.shift());
    } else {
      first.filled += count;
      if (first.reader === 'none') {
        this.orphan();
        for (const entry of this.full()) this.commit(entry);
      } else if (first.filled >= first.least) {
        this.views.shift();
        const extra = first.filled % first.unit;
        if (extra) this.addCopy(first.buffer, first.offset + first.filled - extra, extra);
        first.filled -= extra;
        const others = this.full();
        this.commit(first);
        for (const entry of others) this.commit(entry);
      }
    }
    this.fill();
  }
  released() {
    if (!this.views.length) return;
    this.views[0].reader = 'none';
    this.views.length = 1;
  }
  async cancel(reason) { this.clearViews(); return super.cancel(reason); }
}

function makeView({ buffer, offset, filled, unit, Type }) {
  return new Type(transfer(buffer), offset, filled / unit);
}

const requests = new WeakMap();
const requestOf = (request) => requests.get(request) || raise('ERR_INVALID_THIS', 'ReadableStreamBYOBRequest');
class ReadableStreamBYOBRequest {
  constructor(key, source, view) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    requests.set(this, { source, view });
  }
  get view() { const { source, view } = requestOf(this); return source.request === this ? view : null; }
  respond(count) {
    const { source, view } = requestOf(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'bytesWritten');
    const number = Math.trunc(Number(count));
    if (!Number.isFinite(number) || number < 0) throw new TypeError('bytesWritten is out of range');
    if (source.request !== this) raise('ERR_INVALID_STATE_TYPE', 'This BYOB request has been invalidated');
    if (isDetached(view.buffer)) raise('ERR_INVALID_STATE_TYPE', 'The buffer of the request was detached');
    source.respond(number);
  }
  respondWithNewView(view) {
    const { source } = requestOf(this);
    if (!ArrayBuffer.isView(view)) raise('ERR_INVALID_ARG_TYPE', 'view', ['Buffer', 'TypedArray', 'DataView'], view);
    if (source.request !== this) raise('ERR_INVALID_STATE_TYPE', 'This BYOB request has been invalidated');
    if (isDetached(view.buffer)) raise('ERR_INVALID_STATE_TYPE', 'The buffer of the view was detached');
    source.respondWith(view);
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
