'use strict';
// How streams of all kinds start, fail and end.
const { make } = require('codes');
const tick = sys('tick');
const kDestroy = Symbol('kDestroy');
const kConstruct = Symbol('kConstruct');

const later = (f, ...args) => tick(() => f(...args));
const statesOf = (stream) => [stream._readableState, stream._writableState].filter(Boolean);
const some = (stream, key) => statesOf(stream).some((state) => state[key]);
const setAll = (stream, key, value) => { for (const state of statesOf(stream)) state[key] = value; };

// note keeps the first error of a stream.
function note(stream, err) {
  if (!err) return;
  for (const state of statesOf(stream)) if (!state.errored) state.errored = err;
}

// follow calls back for the promise that a method may return, unless the method
// has already called back.
function follow(result, callback, called) {
  if (result === undefined || result === null || typeof result.then !== 'function') return;
  result.then(() => { if (!called()) later(callback, null); }, (err) => { if (!called()) later(callback, err); });
}

function destroy(err, callback) {
  if (some(this, 'destroyed')) {
    if (typeof callback === 'function') callback();
    return this;
  }
  note(this, err);
  setAll(this, 'destroyed', true);
  if (statesOf(this).every((state) => state.constructed)) run(this, err, callback);
  else this.once(kDestroy, (other) => run(this, aggregate(other, err), callback));
  return this;
}

// aggregate joins the error of a constructor with the error of destroy.
function aggregate(inner, outer) {
  if (!inner || !outer || inner === outer) return inner || outer;
  const both = new AggregateError([outer, inner], outer.message);
  both.code = outer.code;
  return both;
}

function run(stream, given, callback) {
  let called = false;
  const done = (err) => {
    if (called) return;
    called = true;
    note(stream, err);
    setAll(stream, 'closed', true);
    if (typeof callback === 'function') callback(err);
    later(() => {
      if (err) emitError(stream, err);
      emitClose(stream);
    });
  };
  try {
    follow(stream._destroy(given || null, done), done, () => called);
  } catch (err) {
    done(err);
  }
}

function emitClose(stream) {
  setAll(stream, 'closeEmitted', true);
  if (some(stream, 'emitClose')) stream.emit('close');
}

function emitError(stream, err) {
  if (some(stream, 'errorEmitted')) return;
  setAll(stream, 'errorEmitted', true);
  stream.emit('error', err);
}

// errorOrDestroy fails a stream. It destroys the stream, or only reports the
// error if the stream does not destroy itself.
function errorOrDestroy(stream, err, sync) {
  if (some(stream, 'destroyed')) return;
  if (some(stream, 'autoDestroy')) {
    stream.destroy(err);
  } else if (err) {
    note(stream, err);
    if (sync) later(emitError, stream, err); else emitError(stream, err);
  }
}

function undestroy() {
  for (const state of statesOf(this)) {
    Object.assign(state, { constructed: true, closed: false, closeEmitted: false, destroyed: false, errored: null, errorEmitted: false });
  }
  const r = this._readableState;
  const w = this._writableState;
  if (r) Object.assign(r, { reading: false, ended: r.readable === false, endEmitted: r.readable === false });
  if (w) Object.assign(w, { finalCalled: false, prefinished: false, ended: w.writable === false, ending: w.writable === false, finished: w.writable === false });
}

// construct calls _construct before anything else, and then ready.
function construct(stream, ready) {
  if (typeof stream._construct !== 'function') return;
  setAll(stream, 'constructed', false);
  stream.once(kConstruct, ready);
  if (stream.listenerCount(kConstruct) > 1) return;
  later(() => {
    let called = false;
    const done = (err) => {
      if (called) return errorOrDestroy(stream, err !== undefined && err !== null ? err : make('ERR_MULTIPLE_CALLBACK'));
      called = true;
      setAll(stream, 'constructed', true);
      if (some(stream, 'destroyed')) stream.emit(kDestroy, err);
      else if (err) errorOrDestroy(stream, err, true);
      else later(() => stream.emit(kConstruct));
    };
    try {
      follow(stream._construct(done), done, () => called);
    } catch (err) {
      done(err);
    }
  });
}

const isRequest = (stream) => stream && stream.setHeader && typeof stream.abort === 'function';

// destroyer ends any kind of stream.
function destroyer(stream, err) {
  if (!stream) return;
  if (isRequest(stream)) { stream.abort(); return; }
  if (typeof stream.destroy === 'function') stream.destroy(err);
  else if (typeof stream.close === 'function') stream.close();
}

module.exports = { destroy, undestroy, errorOrDestroy, construct, destroyer, later, follow };
