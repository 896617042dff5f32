'use strict';
// pipeline and compose.
require('patch_symbol');
const { make, raise, AbortError } = require('codes');
const { validateAbortSignal, validateCallback } = require('validators');
const { later, destroyer } = require('stream_destroy');
const { finished, isStream, hasReadable, isReadable, isWritable } = require('stream_finished');
const { Duplex, PassThrough } = require('stream_duplex');

const isIterable = (value, asyncOnly) => !!value && (typeof value[Symbol.asyncIterator] === 'function' || (!asyncOnly && typeof value[Symbol.iterator] === 'function'));

function once(callback) {
  let called = false;
  return (...args) => { if (!called) { called = true; callback(...args); } };
}

// guard destroys a stream, unless it has already ended.
function guard(stream, reading, writing) {
  let over = false;
  stream.on('close', () => { over = true; });
  const cleanup = finished(stream, { readable: reading, writable: writing }, (err) => { over = !err; });
  return {
    destroy(err) {
      if (over) return;
      over = true;
      destroyer(stream, err || make('ERR_STREAM_DESTROYED', 'pipe'));
    },
    cleanup,
  };
}

// pump writes the values of an iterable, no faster than the stream accepts
// them.
async function pump(iterable, stream, finish, end) {
  let failure;
  let resume = null;
  const wake = (err) => {
    if (err) failure = err;
    if (resume) { const f = resume; resume = null; f(); }
  };
  const wait = () => new Promise((resolve, reject) => {
    if (failure) reject(failure);
    else resume = () => (failure ? reject(failure) : resolve());
  });
  stream.on('drain', wake);
  const cleanup = finished(stream, { readable: false }, wake);
  try {
    if (stream.writableNeedDrain) await wait();
    const iterator = iterable[Symbol.asyncIterator] ? iterable[Symbol.asyncIterator]() : iterable[Symbol.iterator]();
    try {
      for (let step = await iterator.next(); !step.done; step = await iterator.next()) {
        if (!stream.write(await step.value)) await wait();
      }
    } catch (err) {
      if (iterator.return) await iterator.return();
      throw err;
    }
    if (end) stream.end();
    await wait();
    finish();
  } catch (err) {
    finish(failure !== err && failure ? failure : err);
  } finally {
    cleanup();
    stream.off('drain', wake);
  }
}

function connect(from, to, finish, end) {
  let ended = false;
  to.on('close', () => { if (!ended) finish(make('ERR_STREAM_PREMATURE_CLOSE')); });
  from.pipe(to, { end: false });
  if (end) {
    const stop = () => { ended = true; to.end(); };
    if (from._readableState && from._readableState.endEmitted) later(stop); else from.once('end', stop);
  } else {
    finish();
  }
  finished(from, { readable: true, writable: false }, (err) => {
    const r = from._readableState;
    // A source that ended before it was closed has not reported it yet.
    if (err && err.code === 'ERR_STREAM_PREMATURE_CLOSE' && r && r.ended && !r.errored && !r.errorEmitted) from.once('end', finish).once('error', finish);
    else finish(err);
  });
  return finished(to, { readable: false, writable: true }, finish);
}

const asyncIterable = (value) => {
  if (isIterable(value)) return value;
  if (hasReadable(value)) return new (require('stream_readable').Readable)({ objectMode: true }).wrap(value);
  return raise('ERR_INVALID_ARG_TYPE', 'val', ['Readable', 'Iterable', 'AsyncIterable'], value);
};

function pipeline(...streams) {
  validateCallback(streams[streams.length - 1]);
  const callback = once(streams.pop());
  return run(streams, callback);
}

function run(streams, callback, options = {}) {
  if (streams.length === 1 && Array.isArray(streams[0])) streams = streams[0];
  if (streams.length < 2) raise('ERR_MISSING_ARGS', 'streams');
  const controller = new (require('abort').AbortController)();
  const { signal } = controller;
  const outer = options.signal;
  validateAbortSignal(outer, 'options.signal');
  const destroys = [];
  const lastCleanup = [];
  let error;
  let value;
  let pending = 0;
  const abort = () => settle(new AbortError());
  if (outer) outer.addEventListener('abort', abort);
  const finish = (err) => settle(err, --pending === 0);
  const settle = (err, last) => {
    if (err && (!error || error.code === 'ERR_STREAM_PREMATURE_CLOSE')) error = err;
    if (!error && !last) return;
    while (destroys.length) destroys.shift()(error);
    if (outer) outer.removeEventListener('abort', abort);
    controller.abort();
    if (!last) return;
    if (!error) for (const f of lastCleanup) f();
    later(callback, error, value);
  };

  let ret;
  const last = streams.length - 1;
  for (let i = 0; i <= last; i++) {
    const stream = streams[i];
    const end = i < last || options.end !== false;
    if (isStream(stream)) watch(stream, i, end);
    if (i === 0) ret = first(stream);
    else if (typeof stream === 'function') ret = through(stream, i, end);
    else if (isStream(stream)) ret = into(stream, i, end);
    else ret = Duplex.from(stream);
  }
  if (signal.aborted || (outer && outer.aborted)) later(abort);
  return ret;

  function watch(stream, i, end) {
    if (end) {
      const { destroy, cleanup } = guard(stream, i < last, i > 0);
      destroys.push(destroy);
      if (isReadable(stream) && i === last) lastCleanup.push(cleanup);
    }
    const onerror = (err) => { if (err && err.name !== 'AbortError' && err.code !== 'ERR_STREAM_PREMATURE_CLOSE') finish(err); };
    stream.on('error', onerror);
    if (isReadable(stream) && i === last) lastCleanup.push(() => stream.removeListener('error', onerror));
  }
  function first(stream) {
    if (typeof stream === 'function') {
      const out = stream({ signal });
      if (!isIterable(out)) raise('ERR_INVALID_RETURN_VALUE', 'Iterable, AsyncIterable or Stream', 'source', out);
      return out;
    }
    return isIterable(stream) || hasReadable(stream) ? stream : Duplex.from(stream);
  }
  function through(stream, i, end) {
    const out = stream(asyncIterable(ret), { signal });
    if (i < last) {
      if (!isIterable(out, true)) raise('ERR_INVALID_RETURN_VALUE', 'AsyncIterable', `transform[${i - 1}]`, out);
      return out;
    }
    const pass = new PassThrough({ objectMode: true });
    const then = out && out.then;
    if (typeof then === 'function') {
      pending++;
      then.call(out, (got) => {
        value = got;
        if (got !== null && got !== undefined) pass.write(got);
        if (end) pass.end();
        later(finish);
      }, (err) => { pass.destroy(err); later(finish, err); });
    } else if (isIterable(out, true)) {
      pending++;
      pump(out, pass, finish, end);
    } else {
      raise('ERR_INVALID_RETURN_VALUE', 'AsyncIterable or Promise', 'destination', out);
    }
    const { destroy, cleanup } = guard(pass, false, true);
    destroys.push(destroy);
    lastCleanup.push(cleanup);
    return pass;
  }
  function into(stream, i, end) {
    if (hasReadable(ret)) {
      pending += 2;
      const cleanup = connect(ret, stream, finish, end);
      if (isReadable(stream) && i === last) lastCleanup.push(cleanup);
    } else if (isIterable(ret)) {
      pending++;
      pump(ret, stream, finish, end);
    } else {
      raise('ERR_INVALID_ARG_TYPE', 'val', ['Readable', 'Iterable', 'AsyncIterable'], ret);
    }
    return stream;
  }
}

// compose joins streams into one stream that writes to the first and reads from
// the last.
function compose(...streams) {
  if (streams.length === 0) raise('ERR_MISSING_ARGS', 'streams');
  if (streams.length === 1) return Duplex.from(streams[0]);
  const given = streams.slice();
  if (typeof streams[0] === 'function') streams[0] = Duplex.from(streams[0]);
  const at = streams.length - 1;
  if (typeof streams[at] === 'function') streams[at] = Duplex.from(streams[at]);
  streams.forEach((stream, n) => {
    if (!isStream(stream)) return;
    if (n < at && !isReadable(stream)) raise('ERR_INVALID_ARG_VALUE', `streams[${n}]`, given[n], 'must be readable');
    if (n > 0 && !isWritable(stream)) raise('ERR_INVALID_ARG_VALUE', `streams[${n}]`, given[n], 'must be writable');
  });
  let ondrain;
  let onfinish;
  let onreadable;
  let onclose;
  let d;
  const done = (err) => {
    const callback = onclose;
    onclose = null;
    if (callback) callback(err); else if (err) d.destroy(err); else if (!canRead && !canWrite) d.destroy();
  };
  const head = streams[0];
  const tail = pipeline(...streams, done);
  const canWrite = !!isWritable(head);
  const canRead = !!isReadable(tail);
  d = new Duplex({
    writableObjectMode: !!(head && head.writableObjectMode), readableObjectMode: !!(tail && tail.readableObjectMode), writable: canWrite, readable: canRead,
  });
  if (canWrite) {
    d._write = (chunk, encoding, callback) => { if (head.write(chunk, encoding)) callback(); else ondrain = callback; };
    d._final = (callback) => { head.end(); onfinish = callback; };
    head.on('drain', () => { if (ondrain) { const f = ondrain; ondrain = null; f(); } });
    finished(tail, () => { if (onfinish) { const f = onfinish; onfinish = null; f(); } });
  }
  if (canRead) {
    tail.on('readable', () => { if (onreadable) { const f = onreadable; onreadable = null; f(); } });
    tail.on('end', () => d.push(null));
    d._read = () => {
      for (;;) {
        const chunk = tail.read();
        if (chunk === null) { onreadable = d._read; return; }
        if (!d.push(chunk)) return;
      }
    };
  }
  d._destroy = (err, callback) => {
    if (!err && onclose !== null) err = new AbortError();
    onreadable = ondrain = onfinish = null;
    if (onclose === null) callback(err);
    else { onclose = callback; destroyer(tail, err); }
  };
  return d;
}

module.exports = { pipeline, run, compose };
