'use strict';
require('patch_symbol');
const { Stream } = require('stream_legacy');
const { Buffer } = require('buffer');
const { make, raise } = require('codes');
const { destroy, undestroy, errorOrDestroy, construct, later } = require('stream_destroy');
const { highWaterMarkOf } = require('stream_writable');
const EventEmitter = require('events');
const kPaused = Symbol('kPaused');

function ReadableState(options, stream, isDuplex) {
  if (typeof isDuplex !== 'boolean') isDuplex = isDuplexOf(stream);
  this.objectMode = !!(options && (options.objectMode || (isDuplex && options.readableObjectMode)));
  const mark = highWaterMarkOf(options, 'readableHighWaterMark', isDuplex);
  this.highWaterMark = mark === undefined ? (this.objectMode ? 16 : 16 * 1024) : mark;
  this.buffer = [];
  this.length = 0;
  this.pipes = [];
  this.flowing = null;
  this.ended = false;
  this.endEmitted = false;
  this.reading = false;
  this.constructed = true;
  this.sync = true;
  this.needReadable = false;
  this.emittedReadable = false;
  this.readableListening = false;
  this.resumeScheduled = false;
  this[kPaused] = null;
  this.errorEmitted = false;
  this.emitClose = !options || options.emitClose !== false;
  this.autoDestroy = !options || options.autoDestroy !== false;
  this.destroyed = false;
  this.errored = null;
  this.closed = false;
  this.closeEmitted = false;
  this.defaultEncoding = (options && options.defaultEncoding) || 'utf8';
  this.awaitDrainWriters = null;
  this.multiAwaitDrain = false;
  this.readingMore = false;
  this.dataEmitted = false;
  this.decoder = null;
  this.encoding = null;
  if (options && options.encoding) setDecoder(this, options.encoding);
}
Object.defineProperties(ReadableState.prototype, {
  pipesCount: { get() { return this.pipes.length; } },
  paused: { get() { return this[kPaused] !== false; }, set(value) { this[kPaused] = !!value; } },
});

const isDuplexOf = (stream) => stream !== undefined && stream !== null && require('stream_duplex').Duplex.prototype.isPrototypeOf(stream);

function setDecoder(state, encoding) {
  const { StringDecoder } = require('string_decoder');
  state.decoder = new StringDecoder(encoding);
  state.encoding = encoding;
}

function Readable(options) {
  if (!(this instanceof Readable)) return new Readable(options);
  this._readableState = new ReadableState(options, this, isDuplexOf(this));
  if (options) {
    for (const name of ['read', 'destroy', 'construct']) if (typeof options[name] === 'function') this['_' + name] = options[name];
    if (options.signal && !isDuplexOf(this)) require('stream_finished').addAbortSignal(options.signal, this);
  }
  Stream.call(this, options);
  construct(this, () => { if (this._readableState.needReadable) maybeReadMore(this, this._readableState); });
}
Readable.ReadableState = ReadableState;
Object.setPrototypeOf(Readable.prototype, Stream.prototype);
Object.setPrototypeOf(Readable, Stream);

Readable.prototype.destroy = destroy;
Readable.prototype._undestroy = undestroy;
Readable.prototype._destroy = function _destroy(err, callback) { callback(err); };
Readable.prototype[EventEmitter.captureRejectionSymbol] = function (err) { this.destroy(err); };
Readable.prototype.push = function push(chunk, encoding) { return addChunk(this, chunk, encoding, false); };
Readable.prototype.unshift = function unshift(chunk, encoding) { return addChunk(this, chunk, encoding, true); };

// convert converts text to bytes, or to text in the stream's own encoding.
function convert(state, chunk, encoding, front) {
  if (typeof chunk === 'string') {
    encoding = encoding || state.defaultEncoding;
    if (state.encoding === encoding) return chunk;
    const bytes = Buffer.from(chunk, encoding);
    return front && state.encoding ? bytes.toString(state.encoding) : bytes;
  }
  if (chunk instanceof Buffer) return chunk;
  if (chunk instanceof Uint8Array) return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (chunk === undefined || chunk === null) return chunk;
  return make('ERR_INVALID_ARG_TYPE', 'chunk', ['string', 'Buffer', 'Uint8Array'], chunk);
}

function addChunk(stream, chunk, encoding, front) {
  const state = stream._readableState;
  if (!state.objectMode) {
    const asText = typeof chunk === 'string' && (encoding || state.defaultEncoding) === state.encoding;
    chunk = convert(state, chunk, encoding, front);
    if (asText || chunk instanceof Buffer) encoding = '';
  }
  if (chunk instanceof Error && !state.objectMode) {
    errorOrDestroy(stream, chunk);
  } else if (chunk === null) {
    state.reading = false;
    onEof(stream, state);
  } else if (state.objectMode || (chunk && chunk.length > 0)) {
    take(stream, state, chunk, encoding, front);
  } else if (!front) {
    state.reading = false;
    maybeReadMore(stream, state);
  }
  return !state.ended && (state.length < state.highWaterMark || state.length === 0);
}

function take(stream, state, chunk, encoding, front) {
  if (front) {
    if (state.endEmitted) errorOrDestroy(stream, make('ERR_STREAM_UNSHIFT_AFTER_END_EVENT'));
    else if (!state.destroyed && !state.errored) store(stream, state, chunk, true);
    return;
  }
  if (state.ended) { errorOrDestroy(stream, make('ERR_STREAM_PUSH_AFTER_EOF')); return; }
  if (state.destroyed || state.errored) return;
  state.reading = false;
  if (state.decoder && !encoding && typeof chunk !== 'string') {
    chunk = state.decoder.write(chunk);
    if (!state.objectMode && chunk.length === 0) { maybeReadMore(stream, state); return; }
  }
  store(stream, state, chunk, false);
}

function store(stream, state, chunk, front) {
  if (state.flowing && state.length === 0 && !state.sync && stream.listenerCount('data') > 0) {
    if (state.multiAwaitDrain) state.awaitDrainWriters.clear(); else state.awaitDrainWriters = null;
    state.dataEmitted = true;
    stream.emit('data', chunk);
  } else {
    state.length += state.objectMode ? 1 : chunk.length;
    if (front) state.buffer.unshift(chunk); else state.buffer.push(chunk);
    if (state.needReadable) emitReadable(stream);
  }
  maybeReadMore(stream, state);
}

Readable.prototype.isPaused = function isPaused() {
  const state = this._readableState;
  return state[kPaused] === true || state.flowing === false;
};

Readable.prototype.setEncoding = function setEncoding(encoding) {
  const { StringDecoder } = require('string_decoder');
  const state = this._readableState;
  state.decoder = new StringDecoder(encoding);
  state.encoding = state.decoder.encoding;
  const text = state.buffer.map((chunk) => state.decoder.write(chunk)).join('');
  state.buffer = text === '' ? [] : [text];
  state.length = text.length;
  return this;
};

const maxMark = 0x40000000;
function nextMark(n) {
  if (n > maxMark) raise('ERR_OUT_OF_RANGE', 'size', '<= 1GiB', n);
  return 2 ** Math.ceil(Math.log2(Math.max(n, 1)));
}

function howMuch(n, state) {
  if (n <= 0 || (state.length === 0 && state.ended)) return 0;
  if (state.objectMode) return 1;
  if (Number.isNaN(n)) return state.flowing && state.length ? state.buffer[0].length : state.length;
  if (n <= state.length) return n;
  return state.ended ? state.length : 0;
}

Readable.prototype.read = function read(n) {
  const state = this._readableState;
  if (n === undefined) n = NaN;
  else if (!Number.isInteger(n)) n = Number.parseInt(n, 10);
  const wanted = n;
  if (n > state.highWaterMark) state.highWaterMark = nextMark(n);
  if (n !== 0) state.emittedReadable = false;
  const full = state.highWaterMark !== 0 ? state.length >= state.highWaterMark : state.length > 0;
  if (n === 0 && state.needReadable && (full || state.ended)) {
    if (state.length === 0 && state.ended) endReadable(this); else emitReadable(this);
    return null;
  }
  n = howMuch(n, state);
  if (n === 0 && state.ended) {
    if (state.length === 0) endReadable(this);
    return null;
  }
  if (callRead(this, state, n)) n = howMuch(wanted, state);
  const out = n > 0 ? shift(n, state) : null;
  if (out === null) {
    state.needReadable = state.length <= state.highWaterMark;
    n = 0;
  } else {
    state.length -= n;
    if (state.multiAwaitDrain) state.awaitDrainWriters.clear(); else state.awaitDrainWriters = null;
  }
  if (state.length === 0) {
    if (!state.ended) state.needReadable = true;
    if (wanted !== n && state.ended) endReadable(this);
  }
  if (out !== null) {
    state.dataEmitted = true;
    this.emit('data', out);
  }
  return out;
};

// callRead requests more from the source if there is room, and reports whether
// it responded at once.
function callRead(stream, state, n) {
  const wanted = state.needReadable || state.length === 0 || state.length - n < state.highWaterMark;
  if (!wanted || state.ended || state.reading || state.destroyed || state.errored || !state.constructed) return false;
  state.reading = true;
  state.sync = true;
  if (state.length === 0) state.needReadable = true;
  const result = stream._read(state.highWaterMark);
  if (result !== undefined && result !== null && typeof result.then === 'function') result.then(undefined, (err) => errorOrDestroy(stream, err));
  state.sync = false;
  return !state.reading;
}

function onEof(stream, state) {
  if (state.ended) return;
  if (state.decoder) {
    const rest = state.decoder.end();
    if (rest && rest.length) {
      state.buffer.push(rest);
      state.length += state.objectMode ? 1 : rest.length;
    }
  }
  state.ended = true;
  if (state.sync) {
    emitReadable(stream);
  } else {
    state.needReadable = false;
    state.emittedReadable = true;
    emitReadableNow(stream);
  }
}

function emitReadable(stream) {
  const state = stream._readableState;
  state.needReadable = false;
  if (state.emittedReadable) return;
  state.emittedReadable = true;
  later(emitReadableNow, stream);
}

function emitReadableNow(stream) {
  const state = stream._readableState;
  if (!state.destroyed && !state.errored && (state.length || state.ended)) {
    stream.emit('readable');
    state.emittedReadable = false;
  }
  state.needReadable = !state.flowing && !state.ended && state.length <= state.highWaterMark;
  flow(stream);
}

function maybeReadMore(stream, state) {
  if (state.readingMore || !state.constructed) return;
  state.readingMore = true;
  later(() => {
    while (!state.reading && !state.ended && (state.length < state.highWaterMark || (state.flowing && state.length === 0))) {
      const before = state.length;
      stream.read(0);
      if (before === state.length) break;
    }
    state.readingMore = false;
  });
}

Readable.prototype._read = function _read() { raise('ERR_METHOD_NOT_IMPLEMENTED', '_read()'); };

Readable.prototype.on = function on(event, listener) {
  const out = Stream.prototype.on.call(this, event, listener);
  const state = this._readableState;
  if (event === 'data') {
    state.readableListening = this.listenerCount('readable') > 0;
    if (state.flowing !== false) this.resume();
  } else if (event === 'readable' && !state.endEmitted && !state.readableListening) {
    state.readableListening = state.needReadable = true;
    state.flowing = false;
    state.emittedReadable = false;
    if (state.length) emitReadable(this);
    else if (!state.reading) later(() => this.read(0));
  }
  return out;
};
Readable.prototype.addListener = Readable.prototype.on;

Readable.prototype.removeListener = function removeListener(event, listener) {
  const out = Stream.prototype.removeListener.call(this, event, listener);
  if (event === 'readable') later(updateListening, this);
  return out;
};
Readable.prototype.off = Readable.prototype.removeListener;
Readable.prototype.removeAllListeners = function removeAllListeners(event) {
  const out = Stream.prototype.removeAllListeners.apply(this, arguments);
  if (event === 'readable' || event === undefined) later(updateListening, this);
  return out;
};

function updateListening(stream) {
  const state = stream._readableState;
  state.readableListening = stream.listenerCount('readable') > 0;
  if (state.resumeScheduled && state[kPaused] === false) state.flowing = true;
  else if (stream.listenerCount('data') > 0) stream.resume();
  else if (!state.readableListening) state.flowing = null;
}

Readable.prototype.resume = function resume() {
  const state = this._readableState;
  if (!state.flowing) {
    state.flowing = !state.readableListening;
    if (!state.resumeScheduled) {
      state.resumeScheduled = true;
      later(() => {
        if (!state.reading) this.read(0);
        state.resumeScheduled = false;
        this.emit('resume');
        flow(this);
        if (state.flowing && !state.reading) this.read(0);
      });
    }
  }
  state[kPaused] = false;
  return this;
};

Readable.prototype.pause = function pause() {
  if (this._readableState.flowing !== false) {
    this._readableState.flowing = false;
    this.emit('pause');
  }
  this._readableState[kPaused] = true;
  return this;
};

function flow(stream) {
  while (stream._readableState.flowing && stream.read() !== null);
}

// shift removes n units from the front of the buffer.
function shift(n, state) {
  if (state.length === 0) return null;
  if (state.objectMode) return state.buffer.shift();
  const whole = !n || n >= state.length;
  if (whole) {
    const list = state.buffer;
    state.buffer = [];
    if (state.decoder) return list.join('');
    return list.length === 1 ? list[0] : Buffer.concat(list, state.length);
  }
  const parts = [];
  let need = n;
  while (need > 0) {
    const head = state.buffer[0];
    const part = head.length <= need ? state.buffer.shift() : head.slice(0, need);
    if (part !== head) state.buffer[0] = head.slice(need);
    parts.push(part);
    need -= part.length;
  }
  if (parts.length === 1) return parts[0];
  return state.decoder ? parts.join('') : Buffer.concat(parts, n);
}

function endReadable(stream) {
  const state = stream._readableState;
  if (state.endEmitted) return;
  state.ended = true;
  later(() => {
    if (state.errorEmitted || state.closeEmitted || state.endEmitted || state.length !== 0) return;
    state.endEmitted = true;
    stream.emit('end');
    const w = stream._writableState;
    if (stream.writable && stream.allowHalfOpen === false) {
      later(() => { if (stream.writable && !stream.writableEnded && !stream.destroyed) stream.end(); });
    } else if (state.autoDestroy && (!w || (w.autoDestroy && (w.finished || w.writable === false)))) {
      stream.destroy();
    }
  });
}

module.exports = { Readable, ReadableState };
require('stream_readable_pipe');
require('stream_readable_more');
