'use strict';
// Streams: Readable, Writable, Duplex, Transform, PassThrough and the helpers
// that programs use with them. Everything is buffered in the run itself.
require('patch_symbol');
const EventEmitter = require('events');
const { Buffer } = require('buffer');
const later = require('process').nextTick;

class Stream extends EventEmitter {
  pipe(target, options) {
    this.on('data', (chunk) => target.write(chunk));
    if (!options || options.end !== false) this.on('end', () => target.end());
    target.emit('pipe', this);
    return target;
  }
}

const readable = (Base) => class extends Base {
  _initReadable(options) {
    this.readable = true;
    this.readableEnded = false;
    this.readableObjectMode = !!(options.objectMode || options.readableObjectMode);
    this.readableFlowing = null;
    this._queue = [];
    this._decoder = null;
    this._done = false;
    this._reading = false;
    if (options.read) this._read = options.read;
    if (options.encoding) this.setEncoding(options.encoding);
  }
  _read() {}
  push(chunk, encoding) {
    this._reading = false;
    if (chunk === null) {
      if (this._decoder) { const rest = this._decoder.end(); if (rest) this._queue.push(rest); }
      this._done = true;
    } else {
      if (!this.readableObjectMode && typeof chunk === 'string') chunk = this._decoder && !encoding ? chunk : Buffer.from(chunk, encoding);
      if (this._decoder && typeof chunk !== 'string') chunk = this._decoder.write(chunk);
      this._queue.push(chunk);
    }
    this._wake();
    return this._queue.length < 16;
  }
  unshift(chunk) { this._queue.unshift(chunk); this._wake(); }
  _wake() {
    if (this._woken) return;
    this._woken = true;
    later(() => { this._woken = false; this._flow(); });
  }
  _flow() {
    if (this.destroyed) return;
    if (this.readableFlowing) {
      while (this._queue.length && this.readableFlowing) this.emit('data', this._queue.shift());
    } else if (this.listenerCount('readable') && (this._queue.length || this._done)) {
      this.emit('readable');
    }
    if (this._queue.length === 0 && this._done) return this._finishReading();
    if (!this._done && !this._reading && (this.readableFlowing || this.listenerCount('readable'))) {
      this._reading = true;
      this._read(16384);
    }
  }
  _finishReading() {
    if (this.readableEnded || (!this.readableFlowing && this._queue.length)) return;
    this.readableEnded = true;
    this.readable = false;
    this.emit('end');
    if (this.writableFinished !== false) later(() => this.destroy());
  }
  on(name, listener) {
    super.on(name, listener);
    if (name === 'data' && this.readableFlowing !== false) this.resume();
    if (name === 'readable') this._wake();
    return this;
  }
  read(size) {
    if (this._queue.length === 0) { this._wake(); return null; }
    if (this.readableObjectMode) return this._queue.shift();
    const all = typeof this._queue[0] === 'string' ? this._queue.join('') : Buffer.concat(this._queue);
    if (size !== undefined && size < all.length) { this._queue = [all.slice(size)]; return all.slice(0, size); }
    this._queue = [];
    if (this._done) this._wake();
    return all;
  }
  resume() { this.readableFlowing = true; this._wake(); return this; }
  pause() { this.readableFlowing = false; return this; }
  isPaused() { return this.readableFlowing === false; }
  setEncoding(encoding) {
    const { StringDecoder } = require('string_decoder');
    this._decoder = new StringDecoder(encoding);
    this._queue = this._queue.map((chunk) => this._decoder.write(chunk));
    return this;
  }
  unpipe() { this.removeAllListeners('data'); return this; }
  [Symbol.asyncIterator]() {
    const chunks = [];
    let wake;
    let failure;
    let ended = false;
    const notify = () => { if (wake) { wake(); wake = undefined; } };
    this.on('error', (err) => { failure = err; notify(); });
    this.on('end', () => { ended = true; notify(); });
    this.on('close', () => { ended = true; notify(); });
    this.on('data', (chunk) => { chunks.push(chunk); notify(); });
    const stream = this;
    return {
      async next() {
        for (;;) {
          if (chunks.length) return { value: chunks.shift(), done: false };
          if (failure) throw failure;
          if (ended) return { value: undefined, done: true };
          await new Promise((resolve) => { wake = resolve; });
        }
      },
      async return() { stream.destroy(); return { value: undefined, done: true }; },
      [Symbol.asyncIterator]() { return this; },
    };
  }
};

const writable = (Base) => class extends Base {
  _initWritable(options) {
    this.writable = true;
    this.writableEnded = false;
    this.writableFinished = false;
    this.writableObjectMode = !!(options.objectMode || options.writableObjectMode);
    this.writableLength = 0;
    this._pending = [];
    this._writing = false;
    this._decodeStrings = options.decodeStrings !== false;
    for (const name of ['write', 'writev', 'final']) if (options[name]) this['_' + name] = options[name];
  }
  _write(chunk, encoding, callback) { callback(); }
  write(chunk, encoding, callback) {
    if (typeof encoding === 'function') { callback = encoding; encoding = undefined; }
    if (this.writableEnded) {
      const err = new Error('write after end');
      err.code = 'ERR_STREAM_WRITE_AFTER_END';
      if (callback) later(callback, err);
      this.destroy(err);
      return false;
    }
    if (chunk === null) { const err = new TypeError('May not write null values to stream'); err.code = 'ERR_STREAM_NULL_VALUES'; throw err; }
    if (!this.writableObjectMode && typeof chunk === 'string' && this._decodeStrings) { chunk = Buffer.from(chunk, encoding); encoding = 'buffer'; }
    this._pending.push({ chunk, encoding: encoding || 'utf8', callback });
    this._advance();
    return this._pending.length < 16;
  }
  _advance() {
    if (this._writing || this.destroyed) return;
    const next = this._pending.shift();
    if (!next) {
      if (this.writableEnded && !this._finalized) { this._finalized = true; this._finish(); }
      return;
    }
    this._writing = true;
    this._write(next.chunk, next.encoding, (err) => {
      this._writing = false;
      if (next.callback) next.callback(err);
      if (err) return this.destroy(err);
      if (this._pending.length === 0 && !this.writableEnded) later(() => this.emit('drain'));
      this._advance();
    });
  }
  _finish() {
    const done = (err) => {
      if (err) return this.destroy(err);
      this.writableFinished = true;
      this.writable = false;
      later(() => {
        this.emit('finish');
        if (this.readableEnded !== false) this.destroy();
      });
    };
    if (this._final) this._final(done); else done();
  }
  end(chunk, encoding, callback) {
    if (typeof chunk === 'function') { callback = chunk; chunk = undefined; }
    if (typeof encoding === 'function') { callback = encoding; encoding = undefined; }
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    if (callback) this.once('finish', callback);
    this.writableEnded = true;
    this._advance();
    return this;
  }
  cork() {}
  uncork() {}
  setDefaultEncoding() { return this; }
};

const destroyable = (Base) => class extends Base {
  destroy(err) {
    if (this.destroyed) return this;
    this.destroyed = true;
    const done = (failure) => later(() => {
      if (failure) this.emit('error', failure);
      this.emit('close');
    });
    if (this._destroy) this._destroy(err || null, (failure) => done(failure || err)); else done(err);
    return this;
  }
};

class Readable extends readable(destroyable(Stream)) {
  constructor(options = {}) { super(); this.destroyed = false; if (options.destroy) this._destroy = options.destroy; this._initReadable(options); }
  static from(source, options) {
    if (typeof source === 'string' || source instanceof Uint8Array) source = [source];
    const iterator = source[Symbol.asyncIterator] ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
    const stream = new Readable({
      objectMode: true,
      ...options,
      read() {
        Promise.resolve(iterator.next()).then(async ({ value, done }) => stream.push(done ? null : await value)).catch((err) => stream.destroy(err));
      },
    });
    return stream;
  }
}

class Writable extends writable(destroyable(Stream)) {
  constructor(options = {}) { super(); this.destroyed = false; if (options.destroy) this._destroy = options.destroy; this._initWritable(options); }
}

class Duplex extends writable(readable(destroyable(Stream))) {
  constructor(options = {}) {
    super();
    this.destroyed = false;
    if (options.destroy) this._destroy = options.destroy;
    this._initReadable(options);
    this._initWritable(options);
  }
}

class Transform extends Duplex {
  constructor(options = {}) {
    super(options);
    if (options.transform) this._transform = options.transform;
    if (options.flush) this._flush = options.flush;
  }
  _transform(chunk, encoding, callback) { callback(null, chunk); }
  _write(chunk, encoding, callback) {
    this._transform(chunk, encoding, (err, value) => {
      if (!err && value !== undefined && value !== null) this.push(value);
      callback(err);
    });
  }
  _final(callback) {
    const done = (err, value) => {
      if (err) return callback(err);
      if (value !== undefined && value !== null) this.push(value);
      this.push(null);
      callback();
    };
    if (this._flush) this._flush(done); else done();
  }
}

class PassThrough extends Transform {}

function finished(stream, options, callback) {
  if (typeof options === 'function') callback = options;
  let over = false;
  const done = (err) => { if (!over) { over = true; callback(err); } };
  stream.on('error', done);
  stream.on('end', () => { if (!stream.writable || stream.writableFinished) done(); });
  stream.on('finish', () => { if (!stream.readable) done(); });
  stream.on('close', () => done());
  return () => { over = true; };
}

function pipeline(...streams) {
  const callback = typeof streams[streams.length - 1] === 'function' ? streams.pop() : () => {};
  if (Array.isArray(streams[0])) streams = streams[0];
  if (!(streams[0] instanceof Stream)) streams[0] = Readable.from(streams[0]);
  let over = false;
  const done = (err) => {
    if (over) return;
    over = true;
    if (err) for (const stream of streams) if (!stream.destroyed) stream.destroy();
    callback(err);
  };
  const last = streams[streams.length - 1];
  for (const stream of streams) stream.on('error', done);
  streams.reduce((from, to) => from.pipe(to));
  last.on(last.writable ? 'finish' : 'end', () => done());
  return last;
}

Object.assign(Stream, { Stream, Readable, Writable, Duplex, Transform, PassThrough, finished, pipeline });
Object.defineProperty(Stream, 'promises', { get: () => require('stream_promises') });
module.exports = Stream;
