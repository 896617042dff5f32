'use strict';
require('patch_symbol');
const timers = require('timers');
const { make, AbortError } = require('codes');
const { validateObject, validateBoolean, validateAbortSignal } = require('validators');

// check returns the error in the options, or undefined.
function check(options) {
  try {
    if (options !== undefined) validateObject(options, 'options');
    const { signal, ref = true } = options || {};
    validateAbortSignal(signal, 'options.signal');
    validateBoolean(ref, 'options.ref');
  } catch (err) {
    return err;
  }
  return undefined;
}

const aborted = (signal) => new AbortError(undefined, { cause: signal.reason });

function wait(start, stop, value, options) {
  const wrong = check(options);
  if (wrong) return Promise.reject(wrong);
  const { signal, ref = true } = options || {};
  if (signal && signal.aborted) return Promise.reject(aborted(signal));
  return new Promise((resolve, reject) => {
    let onabort;
    const timer = start(() => {
      if (signal) signal.removeEventListener('abort', onabort);
      resolve(value);
    });
    if (!ref) timer.unref();
    if (!signal) return;
    onabort = () => { stop(timer); reject(aborted(signal)); };
    signal.addEventListener('abort', onabort);
  });
}

function setTimeout(delay, value, options) {
  return wait((done) => timers.setTimeout(done, delay), timers.clearTimeout, value, options);
}

function setImmediate(value, options) {
  return wait((done) => timers.setImmediate(done), timers.clearImmediate, value, options);
}

// setInterval yields the value each time the delay has passed.
function setInterval(delay, value, options) {
  const wrong = check(options);
  const { signal, ref = true } = (wrong ? undefined : options) || {};
  let due = 0;
  let wake = () => {};
  let timer;
  let over = false;
  const onabort = () => { timers.clearInterval(timer); wake(); };
  const begin = () => {
    timer = timers.setInterval(() => { due++; wake(); }, delay);
    if (!ref) timer.unref();
    if (signal) signal.addEventListener('abort', onabort, { once: true });
  };
  const end = () => {
    over = true;
    timers.clearInterval(timer);
    if (signal) signal.removeEventListener('abort', onabort);
  };
  return {
    async next() {
      if (over) return { value: undefined, done: true };
      if (wrong) { over = true; throw wrong; }
      if (!timer && !(signal && signal.aborted)) begin();
      while (due === 0 && !over) {
        if (signal && signal.aborted) { end(); throw aborted(signal); }
        await new Promise((resolve) => { wake = resolve; });
      }
      if (over) return { value: undefined, done: true };
      due--;
      return { value, done: false };
    },
    async return() { end(); return { value: undefined, done: true }; },
    [Symbol.asyncIterator]() { return this; },
  };
}

class Scheduler {
  constructor() { throw make('ERR_ILLEGAL_CONSTRUCTOR'); }
  wait(delay, options) { return setTimeout(delay, undefined, options); }
  yield() { return setImmediate(); }
}

module.exports = { setTimeout, setImmediate, setInterval, scheduler: Object.create(Scheduler.prototype) };
