'use strict';
// Parts of Readable beyond its core: properties, iteration, wrap, from.
const { Readable } = require('stream_readable');
const { validateObject } = require('validators');
const { destroyer, errorOrDestroy } = require('stream_destroy');

Readable.prototype.wrap = function wrap(stream) {
  let paused = false;
  stream.on('data', (chunk) => { if (!this.push(chunk) && stream.pause) { paused = true; stream.pause(); } });
  stream.on('end', () => this.push(null));
  stream.on('error', (err) => errorOrDestroy(this, err));
  stream.on('close', () => destroyer(this));
  stream.on('destroy', () => destroyer(this));
  this._read = () => { if (paused && stream.resume) { paused = false; stream.resume(); } };
  for (const key of Object.keys(stream)) {
    if (this[key] === undefined && typeof stream[key] === 'function') this[key] = stream[key].bind(stream);
  }
  return this;
};

// iterate reads a stream chunk by chunk. All iteration builds on it.
function iterate(stream, options = {}) {
  const state = stream._readableState;
  let wake = () => {};
  let over = false;
  let started = false;
  let failed = state.errorEmitted;
  let failure = state.errored;
  let ended = state.endEmitted || state.closeEmitted;
  const onchange = () => { const f = wake; wake = () => {}; f(); };
  const start = () => {
    started = true;
    stream.on('readable', onchange);
    stream.on('error', (err) => { failed = true; failure = err; onchange(); });
    stream.on('end', () => { ended = true; onchange(); });
    stream.on('close', () => { ended = true; onchange(); });
  };
  const stop = () => {
    over = true;
    if (options.destroyOnReturn !== false && (state.autoDestroy || !state.endEmitted)) destroyer(stream, null);
  };
  const fail = (err) => {
    over = true;
    if (options.destroyOnError !== false) destroyer(stream, err);
    throw err;
  };
  const next = async () => {
    if (!started && !over) start();
    for (;;) {
      if (over) return { value: undefined, done: true };
      const chunk = stream.destroyed ? null : stream.read();
      if (chunk !== null) return { value: chunk, done: false };
      if (failed) fail(failure);
      if (ended) { stop(); return { value: undefined, done: true }; }
      await new Promise((resolve) => { wake = resolve; });
    }
  };
  let queue = Promise.resolve();
  const serial = (run) => { const out = queue.then(run); queue = out.catch(() => {}); return out; };
  const iterator = {
    next: () => serial(next),
    return: (value) => serial(async () => { if (!over) { if (started) stop(); else over = true; } return { value, done: true }; }),
    throw: (err) => serial(async () => { if (!over) fail(err); throw err; }),
    [Symbol.asyncIterator]() { return this; },
    stream,
  };
  Object.defineProperty(iterator, 'stream', { enumerable: false });
  return iterator;
}

function toIterator(stream, options) {
  if (typeof stream.read !== 'function') stream = new Readable({ objectMode: true }).wrap(stream);
  return iterate(stream, options);
}

Readable.prototype[Symbol.asyncIterator] = function () { return toIterator(this); };
Readable.prototype.iterator = function (options) {
  if (options !== undefined) validateObject(options, 'options');
  return toIterator(this, options);
};

const state = (key, fallback) => function () { return this._readableState ? this._readableState[key] : fallback; };
const accessors = {
  readable: [function () {
    const r = this._readableState;
    return !!r && r.readable !== false && !r.destroyed && !r.errorEmitted && !r.endEmitted;
  }, function (value) { if (this._readableState) this._readableState.readable = !!value; }],
  readableDidRead: [function () { return this._readableState.dataEmitted; }],
  readableAborted: [function () { const r = this._readableState; return !!(r.readable !== false && (r.destroyed || r.errored) && !r.endEmitted); }],
  readableHighWaterMark: [state('highWaterMark')],
  readableBuffer: [state('buffer')],
  readableFlowing: [state('flowing'), function (value) { if (this._readableState) this._readableState.flowing = value; }],
  readableLength: [state('length')],
  readableObjectMode: [state('objectMode', false)],
  readableEncoding: [state('encoding', null)],
  errored: [state('errored', null)],
  closed: [state('closed', false)],
  destroyed: [state('destroyed', false), function (value) { if (this._readableState) this._readableState.destroyed = value; }],
  readableEnded: [state('endEmitted', false)],
};
for (const name of Object.keys(accessors)) {
  const [get, set] = accessors[name];
  Object.defineProperty(Readable.prototype, name, { get, set, configurable: true, enumerable: name === 'readableDidRead' });
}

Readable.from = (source, options) => require('stream_from').readableFrom(source, options);
Readable.fromWeb = (stream, options) => require('stream_web_adapters').readableFromWeb(stream, options);
Readable.toWeb = (stream) => require('stream_web_adapters').readableToWeb(stream);
Readable.wrap = (source, options) => new Readable({
  objectMode: source.readableObjectMode !== undefined ? source.readableObjectMode : source.objectMode !== undefined ? source.objectMode : true,
  ...options,
  destroy(err, callback) { destroyer(source, err); callback(err); },
}).wrap(source);

// The operators are loaded when first used.
for (const name of ['map', 'filter', 'forEach', 'toArray', 'some', 'every', 'find', 'flatMap', 'drop', 'take', 'reduce', 'asIndexedPairs']) {
  Object.defineProperty(Readable.prototype, name, {
    value: { [name](...args) { return require('stream_operators')[name].apply(this, args); } }[name],
    writable: true, configurable: true, enumerable: false,
  });
}
Readable.prototype.compose = function compose(stream, options) {
  if (options !== undefined) validateObject(options, 'options');
  return require('stream_pipeline').compose(this, stream);
};
module.exports = { iterate };
