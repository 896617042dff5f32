'use strict';
// pipe and unpipe, with which a Readable feeds a Writable.
const { Readable } = require('stream_readable');
const { prependListener } = require('stream_legacy');
const { errorOrDestroy, later } = require('stream_destroy');

function ondrainOf(source, dest) {
  return () => {
    const state = source._readableState;
    if (state.awaitDrainWriters === dest) state.awaitDrainWriters = null;
    else if (state.multiAwaitDrain) state.awaitDrainWriters.delete(dest);
    if ((!state.awaitDrainWriters || state.awaitDrainWriters.size === 0) && source.listenerCount('data')) source.resume();
  };
}

// pauseFor stops the source until a slow destination has drained.
function pauseFor(source, state, dest) {
  if (state.pipes.length === 1 && state.pipes[0] === dest) {
    state.awaitDrainWriters = dest;
    state.multiAwaitDrain = false;
  } else if (state.pipes.length > 1 && state.pipes.includes(dest)) {
    state.awaitDrainWriters.add(dest);
  }
  source.pause();
}

Readable.prototype.pipe = function pipe(dest, options) {
  const source = this;
  const state = source._readableState;
  if (state.pipes.length === 1 && !state.multiAwaitDrain) {
    state.multiAwaitDrain = true;
    state.awaitDrainWriters = new Set(state.awaitDrainWriters ? [state.awaitDrainWriters] : []);
  }
  state.pipes.push(dest);
  const stdio = dest === process.stdout || dest === process.stderr;
  const ends = (!options || options.end !== false) && !stdio;
  let ondrain;
  let cleaned = false;
  const onend = () => dest.end();
  const unpipe = () => source.unpipe(dest);
  const slow = () => {
    if (!cleaned) pauseFor(source, state, dest);
    if (!ondrain) { ondrain = ondrainOf(source, dest); dest.on('drain', ondrain); }
  };
  const ondata = (chunk) => { if (dest.write(chunk) === false) slow(); };
  const onerror = (err) => {
    unpipe();
    dest.removeListener('error', onerror);
    if (dest.listenerCount('error') !== 0) return;
    const s = dest._writableState || dest._readableState;
    if (s && !s.errorEmitted) errorOrDestroy(dest, err); else dest.emit('error', err);
  };
  const onclose = () => { dest.removeListener('finish', onfinish); unpipe(); };
  const onfinish = () => { dest.removeListener('close', onclose); unpipe(); };
  const cleanup = () => {
    dest.removeListener('close', onclose);
    dest.removeListener('finish', onfinish);
    if (ondrain) dest.removeListener('drain', ondrain);
    dest.removeListener('error', onerror);
    dest.removeListener('unpipe', onunpipe);
    source.removeListener('end', ends ? onend : unpipe);
    source.removeListener('data', ondata);
    cleaned = true;
    if (ondrain && state.awaitDrainWriters && (!dest._writableState || dest._writableState.needDrain)) ondrain();
  };
  const onunpipe = (from, info) => {
    if (from === source && info && info.hasUnpiped === false) { info.hasUnpiped = true; cleanup(); }
  };
  if (state.endEmitted) later(ends ? onend : unpipe); else source.once('end', ends ? onend : unpipe);
  dest.on('unpipe', onunpipe);
  source.on('data', ondata);
  prependListener(dest, 'error', onerror);
  dest.once('close', onclose);
  dest.once('finish', onfinish);
  dest.emit('pipe', source);
  if (dest.writableNeedDrain === true) { if (state.flowing) slow(); } else if (!state.flowing) source.resume();
  return dest;
};

Readable.prototype.unpipe = function unpipe(dest) {
  const state = this._readableState;
  if (state.pipes.length === 0) return this;
  if (!dest) {
    const dests = state.pipes;
    state.pipes = [];
    this.pause();
    for (const each of dests) each.emit('unpipe', this, { hasUnpiped: false });
    return this;
  }
  const at = state.pipes.indexOf(dest);
  if (at < 0) return this;
  state.pipes.splice(at, 1);
  if (state.pipes.length === 0) this.pause();
  dest.emit('unpipe', this, { hasUnpiped: false });
  return this;
};
