'use strict';
const { raise } = require('codes');
const { Readable } = require('stream_readable');
const { Writable, highWaterMarkOf } = require('stream_writable');
const { later } = require('stream_destroy');

function Duplex(options) {
  if (!(this instanceof Duplex)) return new Duplex(options);
  Readable.call(this, options);
  Writable.call(this, options);
  this.allowHalfOpen = true;
  if (!options) return;
  if (options.allowHalfOpen === false) this.allowHalfOpen = false;
  if (options.readable === false) Object.assign(this._readableState, { readable: false, ended: true, endEmitted: true });
  if (options.writable === false) Object.assign(this._writableState, { writable: false, ending: true, ended: true, finished: true });
}
Object.setPrototypeOf(Duplex.prototype, Readable.prototype);
Object.setPrototypeOf(Duplex, Readable);
for (const name of Object.keys(Writable.prototype)) {
  if (!(name in Duplex.prototype) || name === 'write' || name === 'end') Duplex.prototype[name] = Writable.prototype[name];
}
for (const name of Object.getOwnPropertyNames(Writable.prototype)) {
  if (/^writable/.test(name)) Object.defineProperty(Duplex.prototype, name, Object.getOwnPropertyDescriptor(Writable.prototype, name));
}
Duplex.prototype.destroy = Writable.prototype.destroy;
Object.defineProperty(Duplex.prototype, 'destroyed', {
  get() {
    if (this._readableState === undefined || this._writableState === undefined) return false;
    return this._readableState.destroyed && this._writableState.destroyed;
  },
  set(value) {
    if (this._readableState && this._writableState) { this._readableState.destroyed = value; this._writableState.destroyed = value; }
  },
  configurable: true,
});
Duplex.from = (body) => require('stream_from').duplexFrom(body, 'body');
Duplex.fromWeb = (pair, options) => require('stream_web_adapters').duplexFromWeb(pair, options);
Duplex.toWeb = (stream) => require('stream_web_adapters').duplexToWeb(stream);

const kCallback = Symbol('kCallback');

function Transform(options) {
  if (!(this instanceof Transform)) return new Transform(options);
  // A writable side must not wait for its readable side if nothing reads from
  // it.
  const none = options && highWaterMarkOf(options, 'readableHighWaterMark', true) === 0;
  Duplex.call(this, none ? { ...options, highWaterMark: null, readableHighWaterMark: 0, writableHighWaterMark: options.writableHighWaterMark || 0 } : options);
  this._readableState.sync = false;
  this[kCallback] = null;
  if (options) {
    if (typeof options.transform === 'function') this._transform = options.transform;
    if (typeof options.flush === 'function') this._flush = options.flush;
  }
  this.on('prefinish', prefinish);
}
Object.setPrototypeOf(Transform.prototype, Duplex.prototype);
Object.setPrototypeOf(Transform, Duplex);

// flush ends the readable side after the output of _flush.
function flush(stream, callback) {
  const done = (err, data) => {
    if (err) { if (callback) callback(err); else stream.destroy(err); return; }
    if (data !== null && data !== undefined) stream.push(data);
    stream.push(null);
    if (callback) callback();
  };
  if (typeof stream._flush !== 'function' || stream.destroyed) return done();
  const result = stream._flush(done);
  if (result !== undefined && result !== null && typeof result.then === 'function') {
    result.then((data) => later(done, null, data), (err) => later(done, err));
  }
  return undefined;
}

function final(callback) { flush(this, callback); }
function prefinish() { if (this._final !== final) flush(this); }

Transform.prototype._final = final;
Transform.prototype._transform = function _transform() { raise('ERR_METHOD_NOT_IMPLEMENTED', '_transform()'); };
Transform.prototype._write = function _write(chunk, encoding, callback) {
  const r = this._readableState;
  const w = this._writableState;
  const before = r.length;
  let called = false;
  const done = (err, value) => {
    called = true;
    if (err) { callback(err); return; }
    if (value !== null && value !== undefined) this.push(value);
    if (w.ended || before === r.length || r.length < r.highWaterMark) callback();
    else this[kCallback] = callback;
  };
  const result = this._transform(chunk, encoding, done);
  if (!called && result !== undefined && result !== null && typeof result.then === 'function') {
    result.then((value) => { if (value !== null && value !== undefined) this.push(value); later(done, null); }, (err) => later(callback, err));
  }
};
Transform.prototype._read = function _read() {
  const callback = this[kCallback];
  if (!callback) return;
  this[kCallback] = null;
  callback();
};

function PassThrough(options) {
  if (!(this instanceof PassThrough)) return new PassThrough(options);
  Transform.call(this, options);
}
Object.setPrototypeOf(PassThrough.prototype, Transform.prototype);
Object.setPrototypeOf(PassThrough, Transform);
PassThrough.prototype._transform = function _transform(chunk, encoding, callback) { callback(null, chunk); };

module.exports = { Duplex, Transform, PassThrough };
