'use strict';
// ReadableStream of the WHATWG Streams standard, with its readers.
require('patch_symbol');
const { raise, make } = require('codes');
const { strategyOf, Queue, checkFunction, deferred, markHandled, isObject } = require('webstreams_common');

const states = new WeakMap(); // of streams
const readers = new WeakMap();
const controllers = new WeakMap();
const secret = Symbol('secret');
const stateOf = (stream) => states.get(stream) || raise('ERR_INVALID_THIS', 'ReadableStream');
const isReadableStream = (value) => states.has(value);

class ReadableStream {
  constructor(source = {}, strategy = {}) {
    if (source === null || (typeof source !== 'object' && typeof source !== 'function')) raise('ERR_INVALID_ARG_VALUE', 'source', 'Object', source);
    const state = { state: 'readable', disturbed: false, reader: null, error: undefined, controller: null };
    states.set(this, state);
    const { type } = source;
    const bytes = type !== undefined && `${type}` === 'bytes';
    if (!bytes && type !== undefined) raise('ERR_INVALID_ARG_VALUE', 'source.type', type);
    if (bytes && strategy && strategy.size !== undefined) throw new RangeError('A byte stream takes no size function');
    const { highWaterMark, size } = strategyOf(strategy, bytes ? 0 : 1);
    const Controller = bytes ? ReadableByteStreamController : ReadableStreamDefaultController;
    state.controller = new Controller(secret, this, source, highWaterMark, size);
  }
  get locked() { return stateOf(this).reader !== null; }
  cancel(reason = undefined) {
    if (!isReadableStream(this)) return Promise.reject(make('ERR_INVALID_THIS', 'ReadableStream'));
    if (stateOf(this).reader) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'ReadableStream is locked'));
    return cancel(this, reason);
  }
  getReader(options = {}) {
    stateOf(this);
    if (options !== null && options !== undefined && !isObject(options)) raise('ERR_INVALID_ARG_TYPE', 'options', 'Object', options);
    const mode = options === null || options === undefined ? undefined : options.mode;
    if (mode === undefined) return new ReadableStreamDefaultReader(this);
    if (`${mode}` !== 'byob') raise('ERR_INVALID_ARG_VALUE', 'options.mode', mode);
    return new ReadableStreamBYOBReader(this);
  }
  pipeThrough(pair, options = {}) {
    stateOf(this);
    const { isWritableStream } = require('webstreams_writable');
    if (!isObject(pair) || !isReadableStream(pair.readable)) raise('ERR_INVALID_ARG_TYPE', 'transform.readable', 'ReadableStream', pair && pair.readable);
    if (!isWritableStream(pair.writable)) raise('ERR_INVALID_ARG_TYPE', 'transform.writable', 'WritableStream', pair.writable);
    const { readable, writable } = pair;
    const { pipe, optionsOf } = require('webstreams_pipe');
    const read = optionsOf(options);
    if (this.locked) raise('ERR_INVALID_STATE_TYPE', 'The ReadableStream is locked');
    if (writable.locked) raise('ERR_INVALID_STATE_TYPE', 'The WritableStream is locked');
    markHandled(pipe(this, writable, read));
    return readable;
  }
  pipeTo(destination, options = {}) {
    try {
      stateOf(this);
      if (!require('webstreams_writable').isWritableStream(destination)) raise('ERR_INVALID_ARG_TYPE', 'transform.writable', 'WritableStream', destination);
      const { pipe, optionsOf } = require('webstreams_pipe');
      const read = optionsOf(options);
      if (this.locked) raise('ERR_INVALID_STATE_TYPE', 'The ReadableStream is locked');
      if (destination.locked) raise('ERR_INVALID_STATE_TYPE', 'The WritableStream is locked');
      return pipe(this, destination, read);
    } catch (err) {
      return Promise.reject(err);
    }
  }
  tee() { stateOf(this); return require('webstreams_pipe').tee(this); }
  values(options = {}) {
    stateOf(this);
    return iterate(this, !!(options && options.preventCancel));
  }
  static from(iterable) {
    if (!isObject(iterable)) raise('ERR_ARG_NOT_ITERABLE', 'The argument');
    const method = iterable[Symbol.asyncIterator] || iterable[Symbol.iterator];
    if (typeof method !== 'function') raise('ERR_ARG_NOT_ITERABLE', 'The argument');
    const iterator = method.call(iterable);
    if (!isObject(iterator)) throw new TypeError('The iterator is not an object');
    return new ReadableStream({
      async pull(controller) {
        const step = await iterator.next();
        if (!isObject(step)) throw new TypeError('The iterator returned no object');
        if (step.done) controller.close(); else controller.enqueue(await step.value);
      },
      async cancel(reason) {
        const { return: stop } = iterator;
        if (stop === undefined || stop === null) return;
        const step = await stop.call(iterator, reason);
        if (!isObject(step)) throw new TypeError('The iterator returned no object');
      },
    }, { highWaterMark: 0 });
  }
}
Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, { value: ReadableStream.prototype.values, writable: true, configurable: true });

// iterate reads a stream in order, one step after the other.
function iterate(stream, preventCancel) {
  const reader = new ReadableStreamDefaultReader(stream);
  let over = false;
  let last = Promise.resolve();
  const chain = (f) => { last = last.then(f, f); return last; };
  const next = async () => {
    if (over) return { done: true, value: undefined };
    try {
      const step = await reader.read();
      if (!step.done) return step;
    } catch (err) {
      over = true;
      reader.releaseLock();
      throw err;
    }
    over = true;
    reader.releaseLock();
    return { done: true, value: undefined };
  };
  const stop = async (value) => {
    if (over) return { done: true, value };
    over = true;
    const done = preventCancel ? undefined : reader.cancel(value);
    reader.releaseLock();
    await done;
    return { done: true, value };
  };
  return { next: () => chain(next), return: (value) => chain(() => stop(value)), [Symbol.asyncIterator]() { return this; } };
}

function cancel(stream, reason) {
  const state = stateOf(stream);
  state.disturbed = true;
  if (state.state === 'closed') return Promise.resolve();
  if (state.state === 'errored') return Promise.reject(state.error);
  close(stream);
  const r = state.reader && readers.get(state.reader);
  if (r && r.byob) for (const request of r.requests.splice(0)) request.resolve({ value: undefined, done: true });
  return controllers.get(state.controller).cancel(reason).then(() => undefined);
}

function close(stream) {
  const state = stateOf(stream);
  state.state = 'closed';
  const r = state.reader && readers.get(state.reader);
  if (!r) return;
  r.closed.resolve();
  if (!r.byob) for (const request of r.requests.splice(0)) request.resolve({ value: undefined, done: true });
}

function fail(stream, error) {
  const state = stateOf(stream);
  if (state.state !== 'readable') return;
  state.state = 'errored';
  state.error = error;
  const r = state.reader && readers.get(state.reader);
  if (!r) return;
  r.closed.reject(error);
  markHandled(r.closed.promise);
  for (const request of r.requests.splice(0)) request.reject(error);
}

// attach makes a reader the reader of a stream.
function attach(reader, stream, byob) {
  if (!isReadableStream(stream)) raise('ERR_INVALID_ARG_TYPE', 'stream', 'ReadableStream', stream);
  const state = stateOf(stream);
  if (state.reader) raise('ERR_INVALID_STATE_TYPE', 'ReadableStream is locked');
  if (byob && !(state.controller instanceof ReadableByteStreamController)) raise('ERR_INVALID_ARG_VALUE', 'stream', stream, 'must be a byte stream');
  const r = { stream, byob, requests: [], closed: deferred() };
  readers.set(reader, r);
  state.reader = reader;
  if (state.state === 'closed') r.closed.resolve();
  if (state.state === 'errored') r.closed.reject(state.error);
  markHandled(r.closed.promise);
}

function release(reader, name) {
  const r = readers.get(reader) || raise('ERR_INVALID_THIS', name);
  if (!r.stream) return;
  const state = stateOf(r.stream);
  const err = make('ERR_INVALID_STATE_TYPE', 'The reader is not attached to a stream');
  if (state.state !== 'readable') r.closed = deferred();
  r.closed.reject(err);
  markHandled(r.closed.promise);
  controllers.get(state.controller).released();
  for (const request of r.requests.splice(0)) request.reject(err);
  state.reader = null;
  r.stream = null;
}

const readerMethods = (Class, name) => Object.defineProperties(Class.prototype, {
  closed: {
    get() { const r = readers.get(this); return r && r.byob === (name === 'ReadableStreamBYOBReader') ? r.closed.promise : Promise.reject(make('ERR_INVALID_THIS', name)); },
    enumerable: true, configurable: true,
  },
  cancel: {
    value: function cancel_(reason = undefined) {
      const r = readers.get(this);
      if (!r) return Promise.reject(make('ERR_INVALID_THIS', name));
      if (!r.stream) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'The reader is not attached to a stream'));
      return cancel(r.stream, reason);
    },
    enumerable: true, configurable: true, writable: true,
  },
  releaseLock: { value: function releaseLock() { release(this, name); }, enumerable: true, configurable: true, writable: true },
});

class ReadableStreamDefaultReader {
  constructor(stream) { attach(this, stream, false); }
  read() {
    const r = readers.get(this);
    if (!r || r.byob) return Promise.reject(make('ERR_INVALID_THIS', 'ReadableStreamDefaultReader'));
    if (!r.stream) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'The reader is not attached to a stream'));
    const state = stateOf(r.stream);
    state.disturbed = true;
    if (state.state === 'closed') return Promise.resolve({ value: undefined, done: true });
    if (state.state === 'errored') return Promise.reject(state.error);
    return controllers.get(state.controller).pull();
  }
}
readerMethods(ReadableStreamDefaultReader, 'ReadableStreamDefaultReader');

class ReadableStreamBYOBReader {
  constructor(stream) { attach(this, stream, true); }
  read(view, options = {}) {
    const r = readers.get(this);
    if (!r || !r.byob) return Promise.reject(make('ERR_INVALID_THIS', 'ReadableStreamBYOBReader'));
    if (!ArrayBuffer.isView(view)) return Promise.reject(make('ERR_INVALID_ARG_TYPE', 'view', ['Buffer', 'TypedArray', 'DataView'], view));
    if (view.byteLength === 0) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'View is zero-length'));
    if (!r.stream) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'The reader is not attached to a stream'));
    const state = stateOf(r.stream);
    state.disturbed = true;
    if (state.state === 'errored') return Promise.reject(state.error);
    const least = options && options.min !== undefined ? Number(options.min) : 1;
    if (least === 0) return Promise.reject(new TypeError('min must be greater than 0'));
    if (least > (view.length === undefined ? view.byteLength : view.length)) return Promise.reject(new RangeError('min is larger than the view'));
    return controllers.get(state.controller).pullInto(view, least * (view.BYTES_PER_ELEMENT || 1));
  }
}
readerMethods(ReadableStreamBYOBReader, 'ReadableStreamBYOBReader');

// Source has the common parts of both kinds of controllers: the queue, and
// calls of the source's own methods.
class Source {
  constructor(controller, stream, source, highWaterMark, size) {
    Object.assign(this, { controller, stream, size, highWaterMark, started: false, pulling: false, again: false, closing: false, queue: new Queue(), views: [] });
    this.source = source;
    this.pullMethod = checkFunction(source.pull, 'source.pull');
    this.cancelMethod = checkFunction(source.cancel, 'source.cancel');
    const start = checkFunction(source.start, 'source.start');
    controllers.set(controller, this);
    stateOf(stream).controller = controller;
    const result = start ? start.call(source, controller) : undefined;
    Promise.resolve(result).then(() => { this.started = true; this.fill(); }, (err) => this.error(err));
  }
  get state() { return stateOf(this.stream).state; }
  desired() {
    if (this.state === 'errored') return null;
    return this.state === 'closed' ? 0 : this.highWaterMark - this.queue.total;
  }
  waiting() {
    const { reader } = stateOf(this.stream);
    return reader ? readers.get(reader).requests : [];
  }
  wants() {
    if (this.closing || this.state !== 'readable' || !this.started) return false;
    return this.waiting().length > 0 || this.desired() > 0;
  }
  fill() {
    if (!this.wants()) return;
    if (this.pulling) { this.again = true; return; }
    this.pulling = true;
    let result;
    try {
      result = this.pullMethod ? Promise.resolve(this.pullMethod.call(this.source, this.controller)) : Promise.resolve();
    } catch (err) {
      result = Promise.reject(err);
    }
    result.then(() => {
      this.pulling = false;
      if (this.again) { this.again = false; this.fill(); }
    }, (err) => this.error(err));
  }
  error(err) {
    if (this.state !== 'readable') return;
    this.queue.reset();
    this.forget();
    fail(this.stream, err);
  }
  forget() { this.pullMethod = this.cancelMethod = this.size = undefined; }
  async cancel(reason) {
    this.queue.reset();
    const method = this.cancelMethod;
    const { source } = this;
    this.forget();
    return method ? method.call(source, reason) : undefined;
  }
  released() {}
}

class DefaultSource extends Source {
  pull() {
    if (this.queue.length) {
      const value = this.queue.shift();
      if (this.closing && !this.queue.length) { this.forget(); close(this.stream); } else this.fill();
      return Promise.resolve({ value, done: false });
    }
    const request = deferred();
    this.waiting().push(request);
    this.fill();
    return request.promise;
  }
  close() {
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    this.closing = true;
    if (!this.queue.length) { this.forget(); close(this.stream); }
  }
  enqueue(chunk) {
    if (this.closing || this.state !== 'readable') raise('ERR_INVALID_STATE_TYPE', 'Controller is already closed');
    const requests = this.waiting();
    if (requests.length) requests.shift().resolve({ value: chunk, done: false });
    else {
      try {
        this.queue.push(chunk, this.size ? this.size(chunk) : 1);
      } catch (err) {
        this.error(err);
        throw err;
      }
    }
    this.fill();
  }
}

const ofController = (controller, name) => controllers.get(controller) || raise('ERR_INVALID_THIS', name);

class ReadableStreamDefaultController {
  constructor(key, ...args) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    new DefaultSource(this, ...args);
  }
  get desiredSize() { return ofController(this, 'ReadableStreamDefaultController').desired(); }
  close() { ofController(this, 'ReadableStreamDefaultController').close(); }
  enqueue(chunk = undefined) { ofController(this, 'ReadableStreamDefaultController').enqueue(chunk); }
  error(err = undefined) { ofController(this, 'ReadableStreamDefaultController').error(err); }
}

const isState = (name) => (stream) => isReadableStream(stream) && stateOf(stream).state === name;
module.exports = {
  ReadableStream, ReadableStreamDefaultReader, ReadableStreamBYOBReader, ReadableStreamDefaultController,
  isReadableStream, stateOf, cancel, close, readers, controllers, secret, Source, ofController,
  isReadableState: isState('readable'), isErroredState: isState('errored'), isDisturbedState: (stream) => isReadableStream(stream) && stateOf(stream).disturbed,
};
const { ReadableByteStreamController, ReadableStreamBYOBRequest } = require('webstreams_bytes');
Object.assign(module.exports, { ReadableByteStreamController, ReadableStreamBYOBRequest });
