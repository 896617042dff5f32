'use strict';
// Hashes and ciphers that are also streams.
const { Buffer } = require('buffer');

// asStream makes a stream from a hash or a cipher.
function asStream(target, flush) {
  const { Transform } = require('stream');
  return new Transform({
    transform(chunk, encoding, done) {
      try {
        const out = target.update(chunk);
        if (Buffer.isBuffer(out) && out.length) this.push(out);
        done();
      } catch (err) { done(err); }
    },
    flush(done) { try { done(null, flush()); } catch (err) { done(err); } },
  });
}
// Classes that can also be used as streams inherit from streamLike, which
// creates the stream when it is first used.
const streams = new WeakMap();
const kFlush = Symbol('kFlush');
const streamOf = (self) => {
  if (!streams.has(self)) streams.set(self, asStream(self, () => self[kFlush]()));
  return streams.get(self);
};
const streamLike = {
  get _readableState() { return streamOf(this)._readableState; },
  get _writableState() { return streamOf(this)._writableState; },
  get readable() { return streamOf(this).readable; },
  get writable() { return streamOf(this).writable; },
  get writableEnded() { return streamOf(this).writableEnded; },
  get destroyed() { return streamOf(this).destroyed; },
};
const streamMethods = 'write end on once off emit pipe unpipe read setEncoding addListener removeListener removeAllListeners listenerCount prependListener '
  + 'pause resume destroy cork uncork listeners';
sys('lazy')(streamLike, streamMethods, () => {
  for (const name of streamMethods.split(' ')) {
    Object.defineProperty(streamLike, name, {
      value(...args) {
        const stream = streamOf(this);
        const out = stream[name](...args);
        return out === stream ? this : out;
      },
      writable: true,
      configurable: true,
    });
  }
});
function addStream(Class, flush) {
  Object.setPrototypeOf(Class.prototype, streamLike);
  Object.defineProperty(Class.prototype, kFlush, { value() { return flush(this); } });
}

module.exports = { addStream };
