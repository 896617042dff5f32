'use strict';
const { Stream } = require('stream_legacy');
const { Buffer } = require('buffer');
const { make, raise } = require('codes');
const { destroy, undestroy, errorOrDestroy, construct, later, follow } = require('stream_destroy');
const noop = () => {};

function highWaterMarkOf(options, key, isDuplex) {
  let mark = options ? options.highWaterMark : undefined;
  let name = 'highWaterMark';
  if (mark === undefined || mark === null) {
    mark = isDuplex && options ? options[key] : undefined;
    name = key;
  }
  if (mark === undefined || mark === null) return undefined;
  if (!Number.isInteger(mark) || mark < 0) raise('ERR_INVALID_ARG_VALUE', `options.${name}`, mark);
  return Math.floor(mark);
}

function WritableState(options, stream, isDuplex) {
  if (typeof isDuplex !== 'boolean') isDuplex = isDuplexOf(stream);
  this.objectMode = !!(options && (options.objectMode || (isDuplex && options.writableObjectMode)));
  const mark = highWaterMarkOf(options, 'writableHighWaterMark', isDuplex);
  this.highWaterMark = mark === undefined ? (this.objectMode ? 16 : 16 * 1024) : mark;
  this.finalCalled = false;
  this.needDrain = false;
  this.ending = false;
  this.ended = false;
  this.finished = false;
  this.destroyed = false;
  this.decodeStrings = !(options && options.decodeStrings === false);
  this.defaultEncoding = (options && options.defaultEncoding) || 'utf8';
  this.length = 0;
  this.writing = false;
  this.corked = 0;
  this.sync = true;
  this.bufferProcessing = false;
  this.onwrite = (err) => onwrite(stream, err);
  this.writecb = null;
  this.writelen = 0;
  this.afterWriteTickInfo = null;
  this.buffered = [];
  this.bufferedIndex = 0;
  this.pendingcb = 0;
  this.constructed = true;
  this.prefinished = false;
  this.errorEmitted = false;
  this.emitClose = !options || options.emitClose !== false;
  this.autoDestroy = !options || options.autoDestroy !== false;
  this.errored = null;
  this.closed = false;
  this.closeEmitted = false;
  this.onFinished = [];
}
WritableState.prototype.getBuffer = function getBuffer() { return this.buffered.slice(this.bufferedIndex); };
Object.defineProperty(WritableState.prototype, 'bufferedRequestCount', { get() { return this.buffered.length - this.bufferedIndex; } });

const isDuplexOf = (stream) => stream !== undefined && stream !== null && require('stream_duplex').Duplex.prototype.isPrototypeOf(stream);

function resetBuffer(state) {
  state.buffered = [];
  state.bufferedIndex = 0;
}

function Writable(options) {
  const isDuplex = isDuplexOf(this);
  if (!isDuplex && !Function.prototype[Symbol.hasInstance].call(Writable, this)) return new Writable(options);
  this._writableState = new WritableState(options, this, isDuplex);
  if (options) {
    for (const name of ['write', 'writev', 'destroy', 'final', 'construct']) {
      if (typeof options[name] === 'function') this['_' + name] = options[name];
    }
    if (options.signal) require('stream_finished').addAbortSignal(options.signal, this);
  }
  Stream.call(this, options);
  construct(this, () => {
    if (!this._writableState.writing) clearBuffer(this, this._writableState);
    finishMaybe(this, this._writableState);
  });
}
Writable.WritableState = WritableState;
Object.setPrototypeOf(Writable.prototype, Stream.prototype);
Object.setPrototypeOf(Writable, Stream);
Object.defineProperty(Writable, Symbol.hasInstance, {
  value(object) {
    if (Function.prototype[Symbol.hasInstance].call(this, object)) return true;
    return this === Writable && !!object && object._writableState instanceof WritableState;
  },
});

Writable.prototype.pipe = function pipe() { errorOrDestroy(this, make('ERR_STREAM_CANNOT_PIPE')); };

// accept converts a chunk to the arguments of _write, or throws.
function accept(state, chunk, encoding) {
  if (chunk === null) raise('ERR_STREAM_NULL_VALUES');
  if (state.objectMode) return [chunk, encoding];
  if (typeof chunk === 'string') return state.decodeStrings ? [Buffer.from(chunk, encoding), 'buffer'] : [chunk, encoding];
  if (chunk instanceof Buffer) return [chunk, 'buffer'];
  if (chunk instanceof Uint8Array) return [Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), 'buffer'];
  return raise('ERR_INVALID_ARG_TYPE', 'chunk', ['string', 'Buffer', 'Uint8Array'], chunk);
}

function _write(stream, chunk, encoding, callback) {
  const state = stream._writableState;
  if (typeof encoding === 'function') {
    callback = encoding;
    encoding = state.defaultEncoding;
  } else {
    if (!encoding) encoding = state.defaultEncoding;
    else if (encoding !== 'buffer' && !Buffer.isEncoding(encoding)) raise('ERR_UNKNOWN_ENCODING', encoding);
    if (typeof callback !== 'function') callback = noop;
  }
  [chunk, encoding] = accept(state, chunk, encoding);
  let err;
  if (state.ending) err = make('ERR_STREAM_WRITE_AFTER_END');
  else if (state.destroyed) err = make('ERR_STREAM_DESTROYED', 'write');
  if (err) {
    later(callback, err);
    errorOrDestroy(stream, err, true);
    return err;
  }
  state.pendingcb++;
  return writeOrBuffer(stream, state, chunk, encoding, callback);
}

Writable.prototype.write = function write(chunk, encoding, callback) { return _write(this, chunk, encoding, callback) === true; };
Writable.prototype.cork = function cork() { this._writableState.corked++; };
Writable.prototype.uncork = function uncork() {
  const state = this._writableState;
  if (!state.corked) return;
  state.corked--;
  if (!state.writing) clearBuffer(this, state);
};
Writable.prototype.setDefaultEncoding = function setDefaultEncoding(encoding) {
  if (typeof encoding === 'string') encoding = encoding.toLowerCase();
  if (!Buffer.isEncoding(encoding)) raise('ERR_UNKNOWN_ENCODING', encoding);
  this._writableState.defaultEncoding = encoding;
  return this;
};

function writeOrBuffer(stream, state, chunk, encoding, callback) {
  const size = state.objectMode ? 1 : chunk.length;
  state.length += size;
  const room = state.length < state.highWaterMark;
  if (!room) state.needDrain = true;
  if (state.writing || state.corked || state.errored || !state.constructed) {
    state.buffered.push({ chunk, encoding, callback });
  } else {
    state.writelen = size;
    state.writecb = callback;
    state.writing = true;
    state.sync = true;
    stream._write(chunk, encoding, state.onwrite);
    state.sync = false;
  }
  return room && !state.errored && !state.destroyed;
}

function doWrite(stream, state, many, size, chunk, encoding, callback) {
  state.writelen = size;
  state.writecb = callback;
  state.writing = true;
  state.sync = true;
  if (state.destroyed) state.onwrite(make('ERR_STREAM_DESTROYED', 'write'));
  else if (many) stream._writev(chunk, state.onwrite);
  else stream._write(chunk, encoding, state.onwrite);
  state.sync = false;
}

function onwriteError(stream, state, err, callback) {
  --state.pendingcb;
  callback(err);
  errorBuffer(state);
  errorOrDestroy(stream, err);
}

function onwrite(stream, err) {
  const state = stream._writableState;
  const { sync, writecb: callback } = state;
  if (typeof callback !== 'function') return errorOrDestroy(stream, make('ERR_MULTIPLE_CALLBACK'));
  state.writing = false;
  state.writecb = null;
  state.length -= state.writelen;
  state.writelen = 0;
  if (err) {
    if (!state.errored) state.errored = err;
    if (stream._readableState && !stream._readableState.errored) stream._readableState.errored = err;
    if (sync) later(onwriteError, stream, state, err, callback); else onwriteError(stream, state, err, callback);
    return undefined;
  }
  if (state.buffered.length > state.bufferedIndex) clearBuffer(stream, state);
  if (!sync) return afterWrite(stream, state, 1, callback);
  // Callbacks of writes that ended at once are called together.
  if (state.afterWriteTickInfo !== null && state.afterWriteTickInfo.callback === callback) {
    state.afterWriteTickInfo.count++;
  } else {
    const info = { count: 1, callback };
    state.afterWriteTickInfo = info;
    later(() => {
      state.afterWriteTickInfo = null;
      afterWrite(stream, state, info.count, info.callback);
    });
  }
  return undefined;
}

function afterWrite(stream, state, count, callback) {
  if (!state.ending && !stream.destroyed && state.length === 0 && state.needDrain) {
    state.needDrain = false;
    stream.emit('drain');
  }
  while (count-- > 0) {
    state.pendingcb--;
    callback();
  }
  if (state.destroyed) errorBuffer(state);
  finishMaybe(stream, state);
}

// errorBuffer fails the writes that will not happen.
function errorBuffer(state) {
  if (state.writing) return;
  for (let i = state.bufferedIndex; i < state.buffered.length; i++) {
    const { chunk, callback } = state.buffered[i];
    state.length -= state.objectMode ? 1 : chunk.length;
    callback(make('ERR_STREAM_DESTROYED', 'write'));
  }
  for (const callback of state.onFinished.splice(0)) callback(make('ERR_STREAM_DESTROYED', 'end'));
  resetBuffer(state);
}

function clearBuffer(stream, state) {
  if (state.corked || state.bufferProcessing || state.destroyed || !state.constructed) return;
  const { buffered, bufferedIndex, objectMode } = state;
  const count = buffered.length - bufferedIndex;
  if (!count) return;
  state.bufferProcessing = true;
  if (count > 1 && stream._writev) {
    state.pendingcb -= count - 1;
    const chunks = bufferedIndex === 0 ? buffered : buffered.slice(bufferedIndex);
    const callback = (err) => { for (const item of chunks) item.callback(err); };
    chunks.allBuffers = chunks.every((item) => item.encoding === 'buffer');
    doWrite(stream, state, true, state.length, chunks, '', callback);
    resetBuffer(state);
  } else {
    let i = bufferedIndex;
    do {
      const { chunk, encoding, callback } = buffered[i];
      buffered[i++] = null;
      doWrite(stream, state, false, objectMode ? 1 : chunk.length, chunk, encoding, callback);
    } while (i < buffered.length && !state.writing);
    if (i === buffered.length) resetBuffer(state); else state.bufferedIndex = i;
  }
  state.bufferProcessing = false;
}

Writable.prototype._write = function _write(chunk, encoding, callback) {
  if (!this._writev) raise('ERR_METHOD_NOT_IMPLEMENTED', '_write()');
  this._writev([{ chunk, encoding }], callback);
};
Writable.prototype._writev = null;

Writable.prototype.end = function end(chunk, encoding, callback) {
  const state = this._writableState;
  if (typeof chunk === 'function') { callback = chunk; chunk = null; encoding = null; }
  if (typeof encoding === 'function') { callback = encoding; encoding = null; }
  let err;
  if (chunk !== null && chunk !== undefined) {
    const result = _write(this, chunk, encoding);
    if (result instanceof Error) err = result;
  }
  if (state.corked) { state.corked = 1; this.uncork(); }
  if (!err) {
    if (!state.errored && !state.ending) {
      state.ending = true;
      finishMaybe(this, state, true);
      state.ended = true;
    } else if (state.finished) err = make('ERR_STREAM_ALREADY_FINISHED', 'end');
    else if (state.destroyed) err = make('ERR_STREAM_DESTROYED', 'end');
  }
  if (typeof callback === 'function') {
    if (err || state.finished) later(callback, err); else state.onFinished.push(callback);
  }
  return this;
};

const needFinish = (state) => state.ending && state.constructed && state.length === 0 && !state.errored
  && state.buffered.length === 0 && !state.finished && !state.writing && !state.errorEmitted && !state.closeEmitted;

function callFinal(stream, state) {
  let called = false;
  const done = (err) => {
    if (called) return errorOrDestroy(stream, err !== undefined && err !== null ? err : make('ERR_MULTIPLE_CALLBACK'));
    called = true;
    state.pendingcb--;
    if (err) {
      for (const callback of state.onFinished.splice(0)) callback(err);
      errorOrDestroy(stream, err, state.sync);
    } else if (needFinish(state)) {
      state.prefinished = true;
      stream.emit('prefinish');
      state.pendingcb++;
      later(finish, stream, state);
    }
    return undefined;
  };
  state.sync = true;
  state.pendingcb++;
  try {
    follow(stream._final(done), done, () => called);
  } catch (err) {
    done(err);
  }
  state.sync = false;
}

function prefinish(stream, state) {
  if (state.prefinished || state.finalCalled) return;
  if (typeof stream._final === 'function' && !state.destroyed) {
    state.finalCalled = true;
    callFinal(stream, state);
  } else {
    state.prefinished = true;
    stream.emit('prefinish');
  }
}

function finishMaybe(stream, state, sync) {
  if (!needFinish(state)) return;
  prefinish(stream, state);
  if (state.pendingcb !== 0) return;
  if (sync) {
    state.pendingcb++;
    later(() => { if (needFinish(state)) finish(stream, state); else state.pendingcb--; });
  } else if (needFinish(state)) {
    state.pendingcb++;
    finish(stream, state);
  }
}

function finish(stream, state) {
  state.pendingcb--;
  state.finished = true;
  for (const callback of state.onFinished.splice(0)) callback();
  stream.emit('finish');
  if (!state.autoDestroy) return;
  const r = stream._readableState;
  if (!r || (r.autoDestroy && (r.endEmitted || r.readable === false))) stream.destroy();
}

const read = (key) => function () { return this._writableState ? this._writableState[key] : undefined; };
const accessors = {
  destroyed: [function () { return this._writableState ? this._writableState.destroyed : false; }, function (value) { if (this._writableState) this._writableState.destroyed = value; }],
  writable: [function () {
    const w = this._writableState;
    return !!w && w.writable !== false && !w.destroyed && !w.errored && !w.ending && !w.ended;
  }, function (value) { if (this._writableState) this._writableState.writable = !!value; }],
  closed: [function () { return this._writableState ? this._writableState.closed : false; }],
  errored: [function () { return this._writableState ? this._writableState.errored : null; }],
  writableFinished: [read('finished')],
  writableObjectMode: [function () { return this._writableState ? this._writableState.objectMode : false; }],
  writableBuffer: [function () { return this._writableState && this._writableState.getBuffer(); }],
  writableEnded: [function () { return this._writableState ? this._writableState.ending : false; }],
  writableNeedDrain: [function () { const w = this._writableState; return !!w && !w.destroyed && !w.ending && w.needDrain; }],
  writableHighWaterMark: [read('highWaterMark')],
  writableCorked: [function () { return this._writableState ? this._writableState.corked : 0; }],
  writableLength: [read('length')],
  writableAborted: [function () { const w = this._writableState; return !!(w && w.writable !== false && (w.destroyed || w.errored) && !w.finished); }],
};
for (const name of Object.keys(accessors)) {
  const [get, set] = accessors[name];
  Object.defineProperty(Writable.prototype, name, { get, set, configurable: true, enumerable: name.startsWith('writableA') });
}

Writable.prototype.destroy = function (err, callback) {
  const state = this._writableState;
  if (!state.destroyed && (state.bufferedIndex < state.buffered.length || state.onFinished.length)) later(errorBuffer, state);
  destroy.call(this, err, callback);
  return this;
};
Writable.prototype._undestroy = undestroy;
Writable.prototype._destroy = function _destroy(err, callback) { callback(err); };
Writable.prototype[Symbol.for('nodejs.rejection')] = function (err) { this.destroy(err); };
Writable.fromWeb = (stream, options) => require('stream_web_adapters').writableFromWeb(stream, options);
Writable.toWeb = (stream) => require('stream_web_adapters').writableToWeb(stream);

module.exports = { Writable, WritableState, highWaterMarkOf };
