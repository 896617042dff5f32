'use strict';
// finished, addAbortSignal, and functions that inspect a stream.
const { make, raise, AbortError } = require('codes');
const { validateAbortSignal, validateFunction, validateObject } = require('validators');
const { later } = require('stream_destroy');

const isStream = (s) => !!(s && (s._readableState || s._writableState || (typeof s.write === 'function' && typeof s.on === 'function') || (typeof s.pipe === 'function' && typeof s.on === 'function')));
const hasReadable = (s, strict) => !!(s && typeof s.pipe === 'function' && typeof s.on === 'function'
  && (!strict || (typeof s.pause === 'function' && typeof s.resume === 'function'))
  && (!s._writableState || (s._readableState && s._readableState.readable !== false)));
const hasWritable = (s) => !!(s && typeof s.write === 'function' && typeof s.on === 'function'
  && (!s._readableState || (s._writableState && s._writableState.writable !== false)));

const isDestroyed = (s) => {
  const state = s._writableState || s._readableState;
  return !!(s.destroyed || (state && state.destroyed));
};
const isReadableFinished = (s) => {
  const r = s._readableState;
  return !!r && (r.endEmitted || (r.ended === true && r.length === 0 && r.endEmitted));
};
const isWritableFinished = (s) => {
  if (s.writableFinished === true) return true;
  return !!(s._writableState && s._writableState.finished);
};

function isReadable(s) {
  if (s && typeof s.getReader === 'function') return require('webstreams').isReadableState(s);
  if (!s || typeof s.readable !== 'boolean') return null;
  if (isDestroyed(s)) return false;
  return hasReadable(s) && s.readable && !isReadableFinished(s);
}

function isWritable(s) {
  if (!s || typeof s.writable !== 'boolean') return null;
  if (isDestroyed(s)) return false;
  return hasWritable(s) && s.writable && !(s.writableEnded === true || (s._writableState && s._writableState.ending));
}

function isClosed(s) {
  const w = s._writableState;
  const r = s._readableState;
  if ((w && typeof w.closed === 'boolean') || (r && typeof r.closed === 'boolean')) return (w && w.closed) || (r && r.closed);
  return typeof s._closed === 'boolean' ? s._closed : null;
}

function willEmitClose(s) {
  const state = s._writableState || s._readableState;
  return !!(state && state.autoDestroy && state.emitClose && state.closed === false);
}

const erroredOf = (s) => (s._writableState && s._writableState.errored) || (s._readableState && s._readableState.errored) || null;
const isErrored = (s) => !!(s && (s.readableErrored || s.writableErrored || s.errored || erroredOf(s)
  || (typeof s.getReader === 'function' && require('webstreams').isErroredState(s))));
const isDisturbed = (s) => !!(s && ((s._readableState && (s.readableDidRead || s.readableAborted || s._readableState.dataEmitted))
  || (typeof s.getReader === 'function' && require('webstreams').isDisturbedState(s))));
const isRequest = (s) => s.setHeader && typeof s.abort === 'function';

function once(callback) {
  let called = false;
  return function (...args) {
    if (called) return;
    called = true;
    callback.apply(this, args);
  };
}

function finished(stream, options, callback) {
  if (arguments.length === 2) { callback = options; options = {}; } else if (options === null || options === undefined) options = {}; else validateObject(options, 'options');
  validateFunction(callback, 'callback');
  validateAbortSignal(options.signal, 'options.signal');
  callback = once(callback);
  if (!isStream(stream)) raise('ERR_INVALID_ARG_TYPE', 'stream', 'Stream', stream);
  const readable = options.readable === undefined || options.readable === null ? hasReadable(stream) : options.readable;
  const writable = options.writable === undefined || options.writable === null ? hasWritable(stream) : options.writable;
  const w = stream._writableState;
  const r = stream._readableState;
  let closes = willEmitClose(stream) && hasReadable(stream) === readable && hasWritable(stream) === writable;
  let written = isWritableFinished(stream);
  let read = isReadableFinished(stream);
  let closed = isClosed(stream);

  const onfinish = () => {
    written = true;
    if (stream.destroyed) closes = false;
    if (closes && (!stream.writable || readable)) return;
    if (!readable || read) callback.call(stream);
  };
  const onend = () => {
    read = true;
    if (stream.destroyed) closes = false;
    if (closes && (!stream.readable || writable)) return;
    if (!writable || written) callback.call(stream);
  };
  const onerror = (err) => callback.call(stream, err);
  const onclose = () => {
    closed = true;
    const err = erroredOf(stream);
    if (err && typeof err !== 'boolean') return callback.call(stream, err);
    const early = (readable && !read && hasReadable(stream, true) && !isReadableFinished(stream)) || (writable && !written && !isWritableFinished(stream));
    return early ? callback.call(stream, make('ERR_STREAM_PREMATURE_CLOSE')) : callback.call(stream);
  };
  const onlegacy = () => { if (!stream.writable) onfinish(); };
  const onrequest = () => { stream.req.on('finish', onfinish); };
  const listeners = [['end', onend], ['finish', onfinish], ['close', onclose]];
  if (options.error !== false) listeners.push(['error', onerror]);
  if (isRequest(stream)) {
    listeners.push(['complete', onfinish]);
    if (!closes) listeners.push(['abort', onclose]);
    if (stream.req) onrequest(); else listeners.push(['request', onrequest]);
  } else if (writable && !w) listeners.push(['end', onlegacy], ['close', onlegacy]);
  if (!closes && typeof stream.aborted === 'boolean') listeners.push(['aborted', onclose]);
  for (const [name, listener] of listeners) stream.on(name, listener);

  if (closed) later(onclose);
  else if ((w && w.errorEmitted) || (r && r.errorEmitted)) { if (!closes) later(onclose); } else if (!readable && (!closes || isReadable(stream)) && (written || isWritable(stream) === false)) later(onclose);
  else if (!writable && (!closes || isWritable(stream)) && (read || isReadable(stream) === false)) later(onclose);
  else if (r && stream.req && stream.aborted) later(onclose);

  const cleanup = () => {
    callback = () => {};
    for (const [name, listener] of listeners) stream.removeListener(name, listener);
    if (stream.req) stream.req.removeListener('finish', onfinish);
  };
  if (options.signal && !closed) watch(options.signal);
  return cleanup;

  function watch(signal) {
    const abort = () => {
      const end = callback;
      cleanup();
      end.call(stream, new AbortError(undefined, { cause: signal.reason }));
    };
    if (signal.aborted) { later(abort); return; }
    const inner = callback;
    callback = once((...args) => { signal.removeEventListener('abort', abort); inner.apply(stream, args); });
    signal.addEventListener('abort', abort);
  }
}

function addAbortSignal(signal, stream) {
  if (signal === null || typeof signal !== 'object' || !('aborted' in signal)) raise('ERR_INVALID_ARG_TYPE', 'signal', 'AbortSignal', signal);
  if (!isStream(stream)) raise('ERR_INVALID_ARG_TYPE', 'stream', 'stream.Stream', stream);
  const abort = () => stream.destroy(new AbortError(undefined, { cause: signal.reason }));
  if (signal.aborted) abort();
  else {
    signal.addEventListener('abort', abort);
    // The stream may still be under construction.
    later(() => finished(stream, () => signal.removeEventListener('abort', abort)));
  }
  return stream;
}

module.exports = { finished, addAbortSignal, isStream, hasReadable, hasWritable, isReadable, isWritable, isErrored, isDisturbed };
