'use strict';
// The oldest form of stream, from which the others inherit.
const EventEmitter = require('events');

function Stream(options) { EventEmitter.call(this, options); }
Object.setPrototypeOf(Stream.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Stream, EventEmitter);

// prependListener puts a listener before all others, also on emitters that only
// look like ours.
function prependListener(emitter, event, listener) {
  if (typeof emitter.prependListener === 'function') return emitter.prependListener(event, listener);
  if (!emitter._events || !emitter._events[event]) return emitter.on(event, listener);
  if (Array.isArray(emitter._events[event])) emitter._events[event].unshift(listener);
  else emitter._events[event] = [listener, emitter._events[event]];
  return undefined;
}

Stream.prototype.pipe = function pipe(dest, options) {
  const source = this;
  const ondata = (chunk) => { if (dest.writable && dest.write(chunk) === false && source.pause) source.pause(); };
  const ondrain = () => { if (source.readable && source.resume) source.resume(); };
  let ended = false;
  const onend = () => { if (!ended) { ended = true; dest.end(); } };
  const onclose = () => { if (!ended) { ended = true; if (typeof dest.destroy === 'function') dest.destroy(); } };
  const onerror = function (err) {
    cleanup();
    if (EventEmitter.listenerCount(this, 'error') === 0) this.emit('error', err);
  };
  const both = [[source, 'data', ondata], [dest, 'drain', ondrain], [source, 'end', cleanup], [source, 'close', cleanup], [dest, 'close', cleanup]];
  function cleanup() {
    for (const [emitter, name, listener] of both) emitter.removeListener(name, listener);
    source.removeListener('end', onend);
    source.removeListener('close', onclose);
    source.removeListener('error', onerror);
    dest.removeListener('error', onerror);
  }
  source.on('data', ondata);
  dest.on('drain', ondrain);
  if (!dest._isStdio && (!options || options.end !== false)) {
    source.on('end', onend);
    source.on('close', onclose);
  }
  prependListener(source, 'error', onerror);
  prependListener(dest, 'error', onerror);
  for (const [emitter, name, listener] of both.slice(2)) emitter.on(name, listener);
  dest.emit('pipe', source);
  return dest;
};

module.exports = { Stream, prependListener };
