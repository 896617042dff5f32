'use strict';
// WritableStream of the WHATWG Streams standard, with its writer.
const { raise, make } = require('codes');
const { strategyOf, Queue, checkFunction, deferred, markHandled } = require('webstreams_common');

const states = new WeakMap();
const writers = new WeakMap();
const secret = Symbol('secret');
const stateOf = (stream) => states.get(stream) || raise('ERR_INVALID_THIS', 'WritableStream');
const isWritableStream = (value) => states.has(value);

class WritableStream {
  constructor(sink = {}, strategy = {}) {
    if (sink === null || (typeof sink !== 'object' && typeof sink !== 'function')) raise('ERR_INVALID_ARG_TYPE', 'sink', 'Object', sink);
    if (sink.type !== undefined) raise('ERR_INVALID_ARG_VALUE_RANGE', 'sink.type', sink.type);
    const { highWaterMark, size } = strategyOf(strategy, 1);
    const state = {
      stream: this, state: 'writable', error: undefined, writer: null, queue: new Queue(), highWaterMark, size, sink, started: false,
      writing: null, closing: null, closed: null, aborting: null, pressure: false, waiting: [],
      methods: {}, abortController: new (require('abort').AbortController)(),
    };
    for (const name of ['write', 'close', 'abort']) state.methods[name] = checkFunction(sink[name], `sink.${name}`);
    const start = checkFunction(sink.start, 'sink.start');
    states.set(this, state);
    state.controller = new WritableStreamDefaultController(secret, state);
    state.pressure = desired(state) <= 0;
    const result = start ? start.call(sink, state.controller) : undefined;
    Promise.resolve(result).then(() => { state.started = true; advance(state); }, (err) => { state.started = true; startErroring(state, err); finishErroring(state); });
  }
  get locked() { return stateOf(this).writer !== null; }
  abort(reason = undefined) {
    if (!isWritableStream(this)) return Promise.reject(make('ERR_INVALID_THIS', 'WritableStream'));
    if (stateOf(this).writer) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'WritableStream is locked'));
    return abort(stateOf(this), reason);
  }
  close() {
    if (!isWritableStream(this)) return Promise.reject(make('ERR_INVALID_THIS', 'WritableStream'));
    if (stateOf(this).writer) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'WritableStream is locked'));
    return close(stateOf(this));
  }
  getWriter() { stateOf(this); return new WritableStreamDefaultWriter(this); }
}

const desired = (state) => (state.state === 'errored' || state.state === 'erroring' ? null : state.state === 'closed' ? 0 : state.highWaterMark - state.queue.total);

// setPressure tells the writer whether to wait.
function setPressure(state) {
  const pressure = desired(state) <= 0;
  if (state.state !== 'writable' || state.closing || pressure === state.pressure) return;
  state.pressure = pressure;
  const w = state.writer && writers.get(state.writer);
  if (!w) return;
  if (pressure) w.ready = deferred(); else w.ready.resolve();
}

function close(state) {
  if (state.state === 'closed' || state.state === 'errored') return Promise.reject(make('ERR_INVALID_STATE_TYPE', `The stream is ${state.state}`));
  if (state.closing) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'Failed to close the stream'));
  state.closing = deferred();
  const w = state.writer && writers.get(state.writer);
  if (w && state.pressure && state.state === 'writable') w.ready.resolve();
  advance(state);
  return state.closing.promise;
}

function write(state, chunk) {
  let size;
  try {
    size = state.size && state.state === 'writable' ? state.size(chunk) : 1;
  } catch (err) {
    if (state.state === 'writable') { startErroring(state, err); advance(state); }
    size = 1;
  }
  if (state.state === 'errored') return Promise.reject(state.error);
  if (state.closing || state.state === 'closed') return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'The stream is closing or closed'));
  if (state.state === 'erroring') return Promise.reject(state.error);
  const request = deferred();
  try {
    state.queue.push({ chunk, request }, size);
  } catch (err) {
    startErroring(state, err);
    advance(state);
    return Promise.reject(err);
  }
  setPressure(state);
  advance(state);
  return request.promise;
}

function abort(state, reason) {
  if (state.state === 'closed' || state.state === 'errored') return Promise.resolve();
  state.abortController.abort(reason);
  if (state.state === 'closed' || state.state === 'errored') return Promise.resolve();
  if (state.aborting) return state.aborting.promise;
  const already = state.state === 'erroring';
  const request = { ...deferred(), reason: already ? undefined : reason, already };
  state.aborting = request;
  if (!already) startErroring(state, reason);
  return request.promise;
}

function startErroring(state, err) {
  if (state.state !== 'writable') return;
  state.state = 'erroring';
  state.error = err;
  const w = state.writer && writers.get(state.writer);
  if (w) rejectReady(w, err);
  if (!state.writing && !state.closeCalled && state.started) finishErroring(state);
}

function rejectReady(w, err) {
  w.ready.reject(err);
  w.ready = deferred();
  w.ready.reject(err);
  markHandled(w.ready.promise);
}

function finishErroring(state) {
  if (state.state !== 'erroring') return;
  state.state = 'errored';
  const pending = state.queue.items.map((item) => item.value.request);
  state.queue.reset();
  for (const request of pending) request.reject(state.error);
  const { aborting } = state;
  state.aborting = null;
  if (!aborting) { rejectClosed(state); return; }
  if (aborting.already) { aborting.reject(state.error); rejectClosed(state); return; }
  const method = state.methods.abort;
  let result;
  try { result = Promise.resolve(method ? method.call(state.sink, aborting.reason) : undefined); } catch (err) { result = Promise.reject(err); }
  result.then(() => { aborting.resolve(); rejectClosed(state); }, (err) => { aborting.reject(err); rejectClosed(state); });
}

function rejectClosed(state) {
  if (state.closing) { state.closing.reject(state.error); markHandled(state.closing.promise); state.closing = null; }
  const w = state.writer && writers.get(state.writer);
  if (w) { w.closed.reject(state.error); markHandled(w.closed.promise); }
}

// advance performs the next step in the queue.
function advance(state) {
  if (!state.started || state.writing || state.closeCalled) return;
  if (state.state === 'erroring') { finishErroring(state); return; }
  if (state.state !== 'writable') return;
  if (state.queue.length) { writeNext(state); return; }
  if (state.closing) closeSink(state);
}

function writeNext(state) {
  const { chunk, request } = state.queue.first();
  state.writing = request;
  call(state, 'write', chunk, state.controller).then(() => {
    state.writing = null;
    request.resolve();
    if (state.state === 'errored') return;
    state.queue.shift();
    if (!state.closing && state.state === 'writable') setPressure(state);
    advance(state);
  }, (err) => {
    state.writing = null;
    request.reject(err);
    if (state.queue.length) state.queue.shift();
    if (state.state === 'writable') startErroring(state, err);
    if (state.state === 'erroring') finishErroring(state);
  });
}

function call(state, name, ...args) {
  try {
    const method = state.methods[name];
    return Promise.resolve(method ? method.apply(state.sink, args) : undefined);
  } catch (err) {
    return Promise.reject(err);
  }
}

function closeSink(state) {
  state.closeCalled = true;
  call(state, 'close').then(() => {
    state.closeCalled = false;
    if (state.state === 'erroring') { state.error = undefined; if (state.aborting) { state.aborting.resolve(); state.aborting = null; } }
    state.state = 'closed';
    state.closing.resolve();
    state.closing = null;
    const w = state.writer && writers.get(state.writer);
    if (w) w.closed.resolve();
  }, (err) => {
    state.closeCalled = false;
    state.closing.reject(err);
    markHandled(state.closing.promise);
    state.closing = null;
    if (state.aborting) { state.aborting.reject(err); state.aborting = null; }
    if (state.state === 'writable') startErroring(state, err);
    finishErroring(state);
  });
}

class WritableStreamDefaultWriter {
  constructor(stream) {
    if (!isWritableStream(stream)) raise('ERR_INVALID_ARG_TYPE', 'stream', 'WritableStream', stream);
    const state = stateOf(stream);
    if (state.writer) raise('ERR_INVALID_STATE_TYPE', 'WritableStream is locked');
    state.writer = this;
    const w = { state, ready: deferred(), closed: deferred() };
    writers.set(this, w);
    if (state.state === 'writable') { if (state.closing || !state.pressure) w.ready.resolve(); } else if (state.state === 'closed') { w.ready.resolve(); w.closed.resolve(); } else {
      w.ready.reject(state.error);
      if (state.state === 'errored') w.closed.reject(state.error);
    }
    markHandled(w.ready.promise);
    markHandled(w.closed.promise);
  }
  get closed() { const w = writers.get(this); return w ? w.closed.promise : Promise.reject(make('ERR_INVALID_THIS', 'WritableStreamDefaultWriter')); }
  get ready() { const w = writers.get(this); return w ? w.ready.promise : Promise.reject(make('ERR_INVALID_THIS', 'WritableStreamDefaultWriter')); }
  get desiredSize() {
    const w = writers.get(this) || raise('ERR_INVALID_THIS', 'WritableStreamDefaultWriter');
    if (!w.state) raise('ERR_INVALID_STATE_TYPE', 'Writer is not bound to a WritableStream');
    return desired(w.state);
  }
  abort(reason = undefined) { return bound(this, (state) => abort(state, reason)); }
  close() { return bound(this, (state) => close(state)); }
  write(chunk = undefined) { return bound(this, (state) => write(state, chunk)); }
  releaseLock() {
    const w = writers.get(this) || raise('ERR_INVALID_THIS', 'WritableStreamDefaultWriter');
    if (!w.state) return;
    const err = make('ERR_INVALID_STATE_TYPE', 'Writer has been released');
    for (const key of ['ready', 'closed']) { w[key].reject(err); w[key] = deferred(); w[key].reject(err); markHandled(w[key].promise); }
    w.state.writer = null;
    w.state = null;
  }
}

function bound(writer, f) {
  const w = writers.get(writer);
  if (!w) return Promise.reject(make('ERR_INVALID_THIS', 'WritableStreamDefaultWriter'));
  if (!w.state) return Promise.reject(make('ERR_INVALID_STATE_TYPE', 'Writer is not bound to a WritableStream'));
  return f(w.state);
}

const ofControllers = new WeakMap();
class WritableStreamDefaultController {
  constructor(key, state) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    ofControllers.set(this, state);
  }
  get signal() { return (ofControllers.get(this) || raise('ERR_INVALID_THIS', 'WritableStreamDefaultController')).abortController.signal; }
  error(err = undefined) {
    const state = ofControllers.get(this) || raise('ERR_INVALID_THIS', 'WritableStreamDefaultController');
    if (state.state === 'writable') startErroring(state, err);
  }
}

module.exports = { WritableStream, WritableStreamDefaultWriter, WritableStreamDefaultController, isWritableStream, stateOf, abort, close, startErroring };
