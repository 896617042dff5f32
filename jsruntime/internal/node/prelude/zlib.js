'use strict';
// zlib: streams and whole buffers. Go does the work, with a limit on the
// decompressed size.
const { Buffer, kMaxLength } = require('buffer');
const { Transform } = require('stream');
const { make, raise } = require('codes');
const { constants, codes, modes } = require('zlib_constants');
const open = sys('zlib.new');
const write = sys('zlib.write');
const close = sys('zlib.close');
const { Z_NO_FLUSH, Z_FULL_FLUSH, Z_FINISH, Z_BLOCK, Z_MIN_CHUNK, Z_DEFAULT_CHUNK } = constants;

// checkRange checks a numeric option, and returns it or the default.
function checkRange(value, name, min, max, standard) {
  if (value === undefined || Number.isNaN(value)) return standard;
  if (typeof value !== 'number') raise('ERR_INVALID_ARG_TYPE', name, 'number', value);
  if (!Number.isFinite(value)) raise('ERR_OUT_OF_RANGE', name, 'a finite number', value);
  if (value < min || value > max) raise('ERR_OUT_OF_RANGE', name, max === Infinity ? `>= ${min}` : `>= ${min} and <= ${max}`, value);
  return value;
}

function dictionaryOf(value) {
  if (value === undefined) return undefined;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return raise('ERR_INVALID_ARG_TYPE', 'options.dictionary', ['Buffer', 'TypedArray', 'DataView', 'ArrayBuffer'], value);
}

// base initializes what all streams of this module share.
function base(stream, options, mode) {
  const brotli = modes[mode].brotli;
  const none = brotli ? constants.BROTLI_OPERATION_PROCESS : Z_NO_FLUSH;
  const most = brotli ? constants.BROTLI_OPERATION_EMIT_METADATA : Z_BLOCK;
  stream._chunkSize = checkRange(options.chunkSize, 'options.chunkSize', Z_MIN_CHUNK, Infinity, Z_DEFAULT_CHUNK);
  stream._defaultFlushFlag = checkRange(options.flush, 'options.flush', none, most, none);
  stream._finishFlushFlag = checkRange(options.finishFlush, 'options.finishFlush', none, most, brotli ? constants.BROTLI_OPERATION_FINISH : Z_FINISH);
  stream._defaultFullFlushFlag = brotli ? constants.BROTLI_OPERATION_FLUSH : Z_FULL_FLUSH;
  stream._maxOutputLength = checkRange(options.maxOutputLength, 'options.maxOutputLength', 1, kMaxLength, kMaxLength);
  Transform.call(stream, { autoDestroy: true, ...options, ...(options.encoding || options.objectMode || options.writableObjectMode ? { encoding: null, objectMode: false, writableObjectMode: false } : {}) });
  Object.assign(stream, { bytesWritten: 0, _mode: mode, _brotli: brotli, _ended: false, _info: options.info });
  stream._handle = {};
  start(stream);
}

function start(stream) {
  stream._id = open(modes[stream._mode].native, stream._brotli ? stream._quality : stream._level, stream._dictionary);
  Object.defineProperty(stream, '_id', { enumerable: false, writable: true });
}

function setZlibOptions(stream, options, mode) {
  const inflating = modes[mode].inflates;
  // Zero lets a decompressing stream take the size from the header.
  if (!(inflating && (options.windowBits === undefined || options.windowBits === null || options.windowBits === 0))) {
    stream._windowBits = checkRange(options.windowBits, 'options.windowBits', mode === 'Gzip' ? 9 : 8, 15, 15);
  }
  stream._level = checkRange(options.level, 'options.level', -1, 9, -1);
  stream._memLevel = checkRange(options.memLevel, 'options.memLevel', 1, 9, 8);
  stream._strategy = checkRange(options.strategy, 'options.strategy', 0, 4, 0);
  stream._dictionary = dictionaryOf(options.dictionary);
}

function setBrotliOptions(stream, options) {
  stream._quality = 11;
  for (const key of Object.keys(options.params || {})) {
    const value = options.params[key];
    if (Number.isNaN(+key) || key < 0 || key > 9) raise('ERR_BROTLI_INVALID_PARAM', key);
    if (typeof value !== 'number' && typeof value !== 'boolean') raise('ERR_INVALID_ARG_TYPE', 'options.params[key]', 'number', value);
    if (+key === constants.BROTLI_PARAM_QUALITY) stream._quality = Math.min(11, Math.max(0, Number(value)));
    if (Number(value) > 30 && (+key === constants.BROTLI_PARAM_LGWIN)) raise('ERR_ZLIB_INITIALIZATION_FAILED');
  }
}

function ZlibBase(options, mode) {
  options = options || {};
  if (modes[mode].brotli) setBrotliOptions(this, options); else setZlibOptions(this, options, mode);
  base(this, options, mode);
}
Object.setPrototypeOf(ZlibBase.prototype, Transform.prototype);
Object.setPrototypeOf(ZlibBase, Transform);

// step feeds the state and returns the output. It fails like a stream.
function step(stream, bytes, flag) {
  // Brotli numbers its operations differently: process, flush, finish.
  if (stream._brotli) flag = [0, 2, 4, 0][flag];
  if (modes[stream._mode].inflates && flag !== Z_FINISH) flag = Z_NO_FLUSH;
  const before = stream.bytesWritten;
  const [out, ended, used, left] = write(stream._id, bytes, flag);
  stream._ended = ended && left > 0;
  stream.bytesWritten = Math.max(before, used);
  return Buffer.from(out);
}

Object.assign(ZlibBase.prototype, {
  reset() {
    if (!this._handle) require('assert')(this._handle, 'zlib binding closed');
    close(this._id);
    this._ended = false;
    start(this);
  },
  _flush(callback) { this._transform(Buffer.alloc(0), '', callback); },
  _final(callback) { callback(); },
  _processChunk(chunk, flag) { return step(this, chunk, flag); },
  flush(kind, callback) {
    if (typeof kind === 'function' || (kind === undefined && !callback)) { callback = kind; kind = this._defaultFullFlushFlag; }
    if (this.writableFinished) { if (callback) sys('tick')(callback); } else if (this.writableEnded) { if (callback) this.once('end', callback); } else {
      const mark = Buffer.alloc(0);
      flushes.set(mark, kind);
      this.write(mark, '', callback);
    }
  },
  close(callback) {
    if (callback) require('stream_finished').finished(this, () => callback());
    this.destroy();
  },
  _destroy(err, callback) {
    this._close();
    callback(err);
  },
  _close() {
    if (!this._handle) return;
    close(this._id);
    this._handle = null;
  },
  _transform(chunk, encoding, callback) {
    let flag = this._defaultFlushFlag;
    if (flushes.has(chunk)) flag = flushes.get(chunk);
    else if (this.writableEnded && this.writableLength === chunk.byteLength) flag = this._finishFlushFlag;
    later(() => {
      if (!this._handle) { if (!this.destroyed) callback(); return; }
      let out;
      try {
        out = step(this, chunk, flag);
      } catch (err) {
        this._close();
        this.destroy(err);
        return;
      }
      for (let at = 0; at < out.length; at += this._chunkSize) this.push(out.subarray(at, at + this._chunkSize));
      if (this._ended && modes[this._mode].inflates) this.push(null);
      callback();
    });
  },
});
const flushes = new WeakMap();
const later = (f) => require('timers').setImmediate(f);
for (const name of ['_closed', 'bytesRead']) {
  Object.defineProperty(ZlibBase.prototype, name, {
    get() { return name === '_closed' ? !this._handle : this.bytesWritten; },
    set(value) { if (name === 'bytesRead') this.bytesWritten = value; },
    configurable: true, enumerable: true,
  });
}

// params changes level and strategy from here on.
function params(level, strategy, callback) {
  checkRange(level, 'level', -1, 9);
  checkRange(strategy, 'strategy', 0, 4);
  this.flush(constants.Z_SYNC_FLUSH, () => {
    this._level = level;
    this._strategy = strategy;
    if (callback) callback();
  });
}

// whole runs all of the bytes through a new stream at once.
function whole(engine, data) {
  if (typeof data === 'string') data = Buffer.from(data);
  else if (data instanceof ArrayBuffer) data = Buffer.from(data);
  else if (!ArrayBuffer.isView(data)) raise('ERR_INVALID_ARG_TYPE', 'buffer', ['string', 'Buffer', 'TypedArray', 'DataView', 'ArrayBuffer'], data);
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  try {
    const out = step(engine, bytes, engine._finishFlushFlag);
    if (out.length > engine._maxOutputLength) throw make('ERR_BUFFER_TOO_LARGE', engine._maxOutputLength);
    return engine._info ? { buffer: out, engine } : out;
  } finally {
    engine._close();
  }
}

for (const mode of Object.keys(modes)) {
  const Named = function (options) {
    if (!(this instanceof Named)) return new Named(options);
    ZlibBase.call(this, options, mode);
    return undefined;
  };
  Object.defineProperty(Named, 'name', { value: mode });
  Object.setPrototypeOf(Named.prototype, ZlibBase.prototype);
  Object.setPrototypeOf(Named, ZlibBase);
  if (!modes[mode].brotli) Named.prototype.params = params;
  exports[mode] = Named;
  exports['create' + mode] = Object.defineProperty((options) => new Named(options), 'name', { value: 'create' + mode });
  const sync = (data, options) => whole(new Named(options), data);
  exports[modes[mode].method + 'Sync'] = Object.defineProperty(sync, 'name', { value: modes[mode].method + 'Sync' });
  exports[modes[mode].method] = Object.defineProperty((data, options, callback) => {
    if (typeof options === 'function') { callback = options; options = {}; }
    if (typeof callback !== 'function') raise('ERR_INVALID_ARG_TYPE', 'callback', 'Function', callback);
    if (typeof data !== 'string' && !ArrayBuffer.isView(data) && !(data instanceof ArrayBuffer)) whole(null, data);
    const engine = new Named(options);
    later(() => {
      let out;
      try { out = whole(engine, data); } catch (err) { callback(err); return; }
      callback(null, out);
    });
  }, 'name', { value: modes[mode].method });
}

for (const name of Object.keys(constants)) {
  if (!name.startsWith('BROTLI')) Object.defineProperty(exports, name, { value: constants[name], enumerable: false, writable: false });
}
Object.defineProperty(exports, 'constants', { value: Object.freeze(constants), enumerable: true, writable: false, configurable: false });
Object.defineProperty(exports, 'codes', { value: Object.freeze(codes), enumerable: true, writable: false });
