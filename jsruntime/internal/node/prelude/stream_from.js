'use strict';
// Streams from other things: iterables, promises, functions, blobs.
require('patch_symbol');
const { Readable } = require('stream_readable');
const { Duplex } = require('stream_duplex');
const { Buffer } = require('buffer');
const { make, raise, AbortError } = require('codes');
const { later, destroyer } = require('stream_destroy');

const isStream = (value) => value && (value._readableState || value._writableState || (typeof value.write === 'function' && typeof value.on === 'function') || (typeof value.pipe === 'function' && typeof value.on === 'function'));

function iteratorOf(source) {
  if (source && source[Symbol.asyncIterator]) return [source[Symbol.asyncIterator](), true];
  if (source && source[Symbol.iterator]) return [source[Symbol.iterator](), false];
  return raise('ERR_INVALID_ARG_TYPE', 'iterable', ['Iterable'], source);
}

function readableFrom(source, options) {
  if (typeof source === 'string' || source instanceof Buffer) {
    return new Readable({ objectMode: true, ...options, read() { this.push(source); this.push(null); } });
  }
  const [iterator] = iteratorOf(source);
  const stream = new Readable({ objectMode: true, highWaterMark: 1, ...options });
  let reading = false;
  stream._read = () => { if (!reading) { reading = true; pump(); } };
  const pump = async () => {
    for (;;) {
      try {
        const step = await iterator.next();
        if (step.done) { stream.push(null); return; }
        const value = step.value && typeof step.value.then === 'function' ? await step.value : step.value;
        if (value === null) { reading = false; raise('ERR_STREAM_NULL_VALUES'); }
        if (stream.push(value)) continue;
        reading = false;
      } catch (err) {
        stream.destroy(err);
      }
      return;
    }
  };
  const close = async (err) => {
    if (err !== undefined && err !== null && typeof iterator.throw === 'function') {
      const step = await iterator.throw(err);
      await step.value;
      if (step.done) return;
    }
    if (typeof iterator.return === 'function') {
      const step = await iterator.return();
      await (step && step.value);
    }
  };
  stream._destroy = (err, callback) => { close(err).then(() => later(callback, err), (failure) => later(callback, failure || err)); };
  return stream;
}

// fromFunction runs an async generator function, or an async function, on the
// data written to the stream.
function fromFunction(body) {
  const { value, write, final, destroy } = writeSide(body);
  if (value !== null && value !== undefined && typeof value[Symbol.asyncIterator] === 'function') {
    return pair(readableFrom(value, { objectMode: true }), { write, final, destroy });
  }
  const then = value && value.then;
  if (typeof then === 'function') {
    let duplex;
    const promise = then.call(value, (out) => {
      if (out !== null && out !== undefined) raise('ERR_INVALID_RETURN_VALUE', 'nully', 'body', out);
    }, (err) => destroyer(duplex, err));
    duplex = new Duplex({
      objectMode: true,
      readable: false,
      write,
      final(callback) {
        final(async () => {
          try { await promise; later(callback, null); } catch (err) { later(callback, err); }
        });
      },
      destroy,
    });
    return duplex;
  }
  return raise('ERR_INVALID_RETURN_VALUE', 'Iterable, AsyncIterable or AsyncFunction', 'body', value);
}

// writeSide calls a function with an iterable of the written data.
function writeSide(body) {
  const controller = new (require('abort').AbortController)();
  let give;
  let slot = new Promise((resolve) => { give = resolve; });
  let finished = false;
  const source = {
    async next() {
      if (finished) return { value: undefined, done: true };
      const pending = slot;
      slot = null;
      const { chunk, done, callback } = await pending;
      later(callback);
      if (done) { finished = true; return { value: undefined, done: true }; }
      if (controller.signal.aborted) throw new AbortError(undefined, { cause: controller.signal.reason });
      slot = new Promise((resolve) => { give = resolve; });
      return { value: chunk, done: false };
    },
    async return(value) { finished = true; return { value, done: true }; },
    [Symbol.asyncIterator]() { return this; },
  };
  return {
    value: body(source, { signal: controller.signal }),
    write(chunk, encoding, callback) { const f = give; give = null; f({ chunk, done: false, callback }); },
    final(callback) { const f = give; give = null; f({ done: true, callback }); },
    destroy(err, callback) { controller.abort(); callback(err); },
  };
}

// pair makes one stream from a readable and the functions of a writable.
function pair(readable, writer) {
  return duplexOf({ readable, writable: new (require('stream_writable').Writable)({ objectMode: true, ...writer }) });
}

// duplexOf makes one stream from two.
function duplexOf({ readable, writable }) {
  const r = readable && typeof readable.read !== 'function' ? Readable.wrap(readable) : readable;
  const w = writable;
  const { finished } = require('stream_finished');
  const canRead = !!r && r.readable !== false;
  const canWrite = !!w && w.writable !== false;
  let onfinish;
  let ondrain;
  let onreadable;
  let onclose;
  const closed = (err) => {
    const callback = onclose;
    onclose = null;
    if (callback) callback(err); else if (err) d.destroy(err);
  };
  const d = new Duplex({
    readableObjectMode: !!(r && r.readableObjectMode), writableObjectMode: !!(w && w.writableObjectMode), readable: canRead, writable: canWrite,
  });
  if (canWrite) {
    finished(w, { readable: false }, (err) => { if (err) destroyer(r, err); if (!canRead || err) closed(err); });
    d._write = (chunk, encoding, callback) => { if (w.write(chunk, encoding)) callback(); else ondrain = callback; };
    d._final = (callback) => { w.end(); onfinish = callback; };
    w.on('drain', () => { if (ondrain) { const f = ondrain; ondrain = null; f(); } });
    w.on('finish', () => { if (onfinish) { const f = onfinish; onfinish = null; f(); } });
  }
  if (canRead) {
    finished(r, { writable: false }, (err) => { if (err) destroyer(w, err); closed(err); });
    r.on('readable', () => { if (onreadable) { const f = onreadable; onreadable = null; f(); } });
    r.on('end', () => d.push(null));
    d._read = () => {
      for (;;) {
        const chunk = r.read();
        if (chunk === null) { onreadable = d._read; return; }
        if (!d.push(chunk)) return;
      }
    };
  }
  d._destroy = (err, callback) => {
    if (!err && onclose !== null) err = new AbortError();
    onreadable = ondrain = onfinish = null;
    if (onclose === null) { callback(err); return; }
    onclose = callback;
    destroyer(w, err);
    destroyer(r, err);
    if (!canRead && !canWrite) callback(err);
  };
  return d;
}

function duplexFrom(body, name) {
  if (body instanceof Duplex) return body;
  if (body && body._readableState && !body._writableState) return duplexOf({ readable: body });
  if (body && body._writableState && !body._readableState) return duplexOf({ writable: body });
  if (isStream(body)) return duplexOf({ writable: body.writable !== false && typeof body.write === 'function' ? body : undefined, readable: typeof body.pipe === 'function' ? body : undefined });
  if (typeof body === 'function') return fromFunction(body);
  const Blob = require('buffer').Blob;
  if (body instanceof Blob) return duplexFrom(body.arrayBuffer());
  if (body instanceof ArrayBuffer) body = Buffer.from(body);
  if (typeof body === 'string' || body instanceof Uint8Array || (body && (body[Symbol.asyncIterator] || body[Symbol.iterator]))) {
    return readableFrom(body, { objectMode: true, writable: false });
  }
  if (body && (typeof body.writable === 'object' || typeof body.readable === 'object')) {
    const readable = body.readable ? (isStream(body.readable) && body.readable._readableState ? body.readable : duplexFrom(body.readable)) : undefined;
    const writable = body.writable ? (isStream(body.writable) ? body.writable : duplexFrom(body.writable)) : undefined;
    return duplexOf({ readable, writable });
  }
  const then = body && body.then;
  if (typeof then === 'function') {
    const d = new Duplex({ objectMode: true, writable: false, read() {} });
    then.call(body, (value) => { if (value !== null && value !== undefined) d.push(value); d.push(null); }, (err) => destroyer(d, err));
    return d;
  }
  throw make('ERR_INVALID_ARG_TYPE', name || 'body', ['Blob', 'ReadableStream', 'WritableStream', 'Stream', 'Iterable', 'AsyncIterable', 'Function', '{ readable, writable } pair', 'Promise'], body);
}

module.exports = { readableFrom, duplexFrom, duplexOf, isStream };
