'use strict';
// The streams of the WHATWG standard: TransformStream, and all names together.
const { raise } = require('codes');
const common = require('webstreams_common');
const readable = require('webstreams_readable');
const writable = require('webstreams_writable');
const { strategyOf, checkFunction, deferred } = common;

const transforms = new WeakMap();
const secret = Symbol('secret');

class TransformStream {
  constructor(transformer = {}, writableStrategy = {}, readableStrategy = {}) {
    transformer = transformer === null || transformer === undefined ? {} : transformer;
    for (const name of ['readableType', 'writableType']) if (transformer[name] !== undefined) raise('ERR_INVALID_ARG_VALUE_RANGE', `transformer.${name}`, transformer[name]);
    const methods = {};
    for (const name of ['start', 'transform', 'flush', 'cancel']) methods[name] = checkFunction(transformer[name], `transformer.${name}`);
    const t = { transformer, methods, waiting: deferred(), finished: null };
    transforms.set(this, t);
    const started = deferred();
    t.readable = new readable.ReadableStream({
      start(controller) { t.out = controller; return started.promise; },
      pull() { t.waiting.resolve(); t.waiting = deferred(); },
      cancel: (reason) => end(t, () => methods.cancel && methods.cancel.call(transformer, reason), (err) => failWritable(t, err), () => failWritable(t, reason)),
    }, { highWaterMark: strategyOf(readableStrategy, 0).highWaterMark, size: strategyOf(readableStrategy, 0).size });
    t.writable = new writable.WritableStream({
      start(controller) { t.in = controller; return started.promise; },
      async write(chunk) {
        while (writable.stateOf(t.writable).state === 'writable' && readable.isReadableState(t.readable) && t.out.desiredSize <= 0 && !needs(t)) await t.waiting.promise;
        if (writable.stateOf(t.writable).state === 'erroring') throw writable.stateOf(t.writable).error;
        await transform(t, chunk);
      },
      close: () => end(t, () => methods.flush && methods.flush.call(transformer, t.controller), (err) => t.out.error(err), () => { if (readable.isReadableState(t.readable)) closeReadable(t); }),
      abort: (reason) => end(t, () => methods.cancel && methods.cancel.call(transformer, reason), (err) => t.out.error(err), () => t.out.error(reason)),
    }, { highWaterMark: strategyOf(writableStrategy, 1).highWaterMark, size: strategyOf(writableStrategy, 1).size });
    t.controller = new TransformStreamDefaultController(secret, t);
    started.resolve(methods.start ? methods.start.call(transformer, t.controller) : undefined);
  }
  get readable() { return (transforms.get(this) || raise('ERR_INVALID_THIS', 'TransformStream')).readable; }
  get writable() { return (transforms.get(this) || raise('ERR_INVALID_THIS', 'TransformStream')).writable; }
}

// needs reports whether a read is waiting.
function needs(t) {
  const { reader } = readable.stateOf(t.readable);
  return !!reader && readable.readers.get(reader).requests.length > 0;
}

function closeReadable(t) {
  try { t.out.close(); } catch { /* The transformer has already closed it. */ }
}

function failWritable(t, err) {
  t.in.error(err);
  t.waiting.resolve();
}

function failBoth(t, err) {
  t.out.error(err);
  failWritable(t, err);
}

// end runs the last method of a transformer, once.
function end(t, method, failed, done) {
  if (t.finished) return t.finished;
  const run = async () => {
    try {
      await method();
    } catch (err) {
      failed(err);
      throw err;
    }
    done();
  };
  t.finished = run();
  return t.finished;
}

async function transform(t, chunk) {
  try {
    if (t.methods.transform) await t.methods.transform.call(t.transformer, chunk, t.controller);
    else t.controller.enqueue(chunk);
  } catch (err) {
    failBoth(t, err);
    throw err;
  }
}

const ofControllers = new WeakMap();
const find = (controller) => ofControllers.get(controller) || raise('ERR_INVALID_THIS', 'TransformStreamDefaultController');
class TransformStreamDefaultController {
  constructor(key, t) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    ofControllers.set(this, t);
  }
  get desiredSize() { return find(this).out.desiredSize; }
  enqueue(chunk = undefined) {
    const t = find(this);
    try {
      t.out.enqueue(chunk);
    } catch (err) {
      const state = readable.stateOf(t.readable);
      failWritable(t, state.state === 'errored' ? state.error : err);
      throw state.state === 'errored' ? state.error : err;
    }
  }
  error(reason = undefined) { failBoth(find(this), reason); }
  terminate() {
    const t = find(this);
    closeReadable(t);
    failWritable(t, new TypeError('The stream was terminated'));
  }
}

// through makes a class whose two ends are the ends of a transform.
function through(name, init, extra = {}) {
  const inner = new WeakMap();
  const of = (self) => inner.get(self) || raise('ERR_INVALID_THIS', name);
  const Class = {
    [name]: class {
      constructor(...args) { inner.set(this, init(...args)); }
      get readable() { return of(this).stream.readable; }
      get writable() { return of(this).stream.writable; }
    },
  }[name];
  for (const key of Object.keys(extra)) Object.defineProperty(Class.prototype, key, { get() { return extra[key](of(this)); }, configurable: true, enumerable: true });
  return Class;
}

const TextEncoderStream = through('TextEncoderStream', () => {
  const encoder = new (require('encoding').TextEncoder)();
  let high = '';
  return { stream: new TransformStream({
    transform(chunk, controller) {
      let text = high + `${chunk}`;
      high = '';
      const last = text.charCodeAt(text.length - 1);
      if (last >= 0xd800 && last <= 0xdbff) { high = text[text.length - 1]; text = text.slice(0, -1); }
      if (text) controller.enqueue(encoder.encode(text));
    },
    flush(controller) { if (high) controller.enqueue(encoder.encode(high)); },
  }) };
}, { encoding: () => 'utf-8' });

const TextDecoderStream = through('TextDecoderStream', (label = 'utf-8', options = {}) => {
  const decoder = new (require('encoding').TextDecoder)(label, options);
  return { decoder, stream: new TransformStream({
    transform(chunk, controller) { const text = decoder.decode(chunk, { stream: true }); if (text) controller.enqueue(text); },
    flush(controller) { const text = decoder.decode(); if (text) controller.enqueue(text); },
  }) };
}, { encoding: ({ decoder }) => decoder.encoding, fatal: ({ decoder }) => decoder.fatal, ignoreBOM: ({ decoder }) => decoder.ignoreBOM });

const compression = (name, kinds) => through(name, (format) => {
  if (!Object.prototype.hasOwnProperty.call(kinds, format)) raise('ERR_INVALID_ARG_VALUE', 'format', format);
  const write = sys('zlib.write');
  const id = sys('zlib.new')(kinds[format], -1);
  const push = (bytes, flush, controller) => {
    let result;
    try {
      result = write(id, bytes, flush);
    } catch (err) {
      throw Object.assign(new TypeError(err.message), { code: err.code });
    }
    const [out, , , left] = result;
    if (out.byteLength) controller.enqueue(new Uint8Array(out));
    if (left > 0) throw new TypeError('Trailing bytes after the end of the compressed data');
  };
  return { stream: new TransformStream({
    transform(chunk, controller) {
      if (chunk instanceof ArrayBuffer) chunk = new Uint8Array(chunk);
      if (!ArrayBuffer.isView(chunk)) raise('ERR_INVALID_ARG_TYPE', 'chunk', ['ArrayBuffer', 'Buffer', 'TypedArray', 'DataView'], chunk);
      push(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength), 0, controller);
    },
    flush(controller) { push(new Uint8Array(0), 4, controller); sys('zlib.close')(id); },
  }) };
});

const classes = {
  ...Object.fromEntries(['ReadableStream', 'ReadableStreamDefaultReader', 'ReadableStreamBYOBReader', 'ReadableStreamBYOBRequest', 'ReadableByteStreamController', 'ReadableStreamDefaultController'].map((name) => [name, readable[name]])),
  TransformStream, TransformStreamDefaultController,
  WritableStream: writable.WritableStream, WritableStreamDefaultController: writable.WritableStreamDefaultController, WritableStreamDefaultWriter: writable.WritableStreamDefaultWriter,
  ByteLengthQueuingStrategy: common.ByteLengthQueuingStrategy, CountQueuingStrategy: common.CountQueuingStrategy,
  TextEncoderStream, TextDecoderStream,
  CompressionStream: compression('CompressionStream', { gzip: 'gzip', deflate: 'zlib', 'deflate-raw': 'raw' }),
  DecompressionStream: compression('DecompressionStream', { gzip: 'gunzip', deflate: 'inflate', 'deflate-raw': 'inflateraw' }),
};
for (const name of Object.keys(classes)) {
  const proto = classes[name].prototype;
  sys('enumerable')(proto, true);
  Object.defineProperty(proto, Symbol.toStringTag, { value: name, configurable: true });
  Object.defineProperty(proto, Symbol.for('nodejs.util.inspect.custom'), {
    value(depth, options) { return depth < 0 ? this : `${name} ${require('inspect').inspect({}, options)}`; }, configurable: true, writable: true,
  });
}

Object.assign(module.exports, classes);
for (const name of ['isReadableState', 'isErroredState', 'isDisturbedState']) Object.defineProperty(module.exports, name, { value: readable[name] });
