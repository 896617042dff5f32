'use strict';
// Timers, as objects that Node's programs expect.
const { validateCallback, validateNumber } = require('validators');
const { raise } = require('codes');
const add = sys('timer');
const clear = sys('timer.clear');
const weaken = sys('timer.weak');
const known = new Map();
const maxDelay = 2 ** 31 - 1;
const kDestroyed = Symbol('destroyed');

function delayOf(delay) {
  delay *= 1;
  if (delay >= 1 && delay <= maxDelay) return Math.trunc(delay);
  if (delay > maxDelay) {
    require('process').emitWarning(`${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`, 'TimeoutOverflowWarning');
  }
  return 1;
}

function Timeout(callback, delay, args, repeat) {
  this._idleTimeout = delayOf(delay);
  this._onTimeout = callback;
  this._timerArgs = args && args.length ? args : undefined;
  this._repeat = repeat ? this._idleTimeout : null;
  this._destroyed = false;
  Object.defineProperty(this, '_strong', { value: true, writable: true });
  Object.defineProperty(this, '_id', { value: undefined, writable: true });
  start(this);
}

function start(timer) {
  timer._id = add(() => fire(timer), timer._idleTimeout, false);
  known.set(timer._id, timer);
  if (!timer._strong) weaken(timer._id, true);
}

function fire(timer) {
  if (timer._destroyed) return;
  known.delete(timer._id);
  const callback = timer._onTimeout;
  const id = timer._id;
  timer[kDestroyed] = true;
  try {
    if (typeof callback === 'function') callback.apply(timer, timer._timerArgs || []);
  } finally {
    // The callback may have stopped, restarted or changed the timer.
    if (timer._id === id && !timer._destroyed) {
      if (timer._repeat) { timer._idleTimeout = timer._repeat; start(timer); } else timer._destroyed = true;
    }
  }
}

Object.assign(Timeout.prototype, {
  ref() { this._strong = true; weaken(this._id, false); return this; },
  unref() { this._strong = false; weaken(this._id, true); return this; },
  hasRef() { return this._strong; },
  refresh() {
    if (this._destroyed && this[kDestroyed] !== true) return this;
    clear(this._id);
    known.delete(this._id);
    this._destroyed = false;
    start(this);
    return this;
  },
  close() { stop(this); return this; },
  [Symbol.toPrimitive]() { return this._id; },
});
for (const key of Object.keys(Timeout.prototype)) Object.defineProperty(Timeout.prototype, key, { enumerable: false });
Object.defineProperty(Timeout.prototype, kDestroyed, { value: undefined, writable: true });

function stop(timer) {
  timer._destroyed = true;
  timer._idleTimeout = -1;
  clear(timer._id);
  known.delete(timer._id);
}

class Immediate {
  constructor(callback, args) {
    this._idleNext = null;
    this._idlePrev = null;
    this._onImmediate = callback;
    this._argv = args;
    this._destroyed = false;
    Object.defineProperty(this, '_strong', { value: true, writable: true });
    Object.defineProperty(this, '_id', {
      value: add(() => {
        if (this._destroyed) return;
        this._destroyed = true;
        this._onImmediate = null;
        callback.apply(this, args);
      }, -1, false),
    });
  }
  ref() { this._strong = true; weaken(this._id, false); return this; }
  unref() { this._strong = false; weaken(this._id, true); return this; }
  hasRef() { return !this._destroyed && this._strong; }
}

function clearTimeout(timer) {
  if (timer instanceof Timeout) { stop(timer); return; }
  if (typeof timer !== 'number' && typeof timer !== 'string') return;
  const found = known.get(+timer);
  if (found) stop(found);
}

exports.setTimeout = function setTimeout(callback, delay, ...args) { validateCallback(callback); return new Timeout(callback, delay, args, false); };
exports.setInterval = function setInterval(callback, delay, ...args) { validateCallback(callback); return new Timeout(callback, delay, args, true); };
exports.setImmediate = function setImmediate(callback, ...args) { validateCallback(callback); return new Immediate(callback, args); };
exports.clearTimeout = clearTimeout;
exports.clearInterval = function clearInterval(timer) { clearTimeout(timer); };
exports.clearImmediate = function clearImmediate(timer) {
  if (!(timer instanceof Immediate) || timer._destroyed) return;
  timer._destroyed = true;
  timer._onImmediate = null;
  clear(timer._id);
};

// The interface of old: enroll sets a timeout of an object, active starts it.
exports.enroll = function enroll(item, delay) {
  validateNumber(delay, 'msecs');
  if (delay < 0 || !Number.isFinite(delay)) raise('ERR_OUT_OF_RANGE', 'msecs', 'a non-negative finite number', delay);
  exports.unenroll(item);
  item._idleTimeout = delay > maxDelay ? delayOf(maxDelay) : Math.trunc(delay);
};
exports.unenroll = function unenroll(item) {
  if (item._vaultTimer) clearTimeout(item._vaultTimer);
  item._idleTimeout = -1;
};
exports.active = exports._unrefActive = function active(item) {
  if (!(item._idleTimeout >= 0)) return;
  if (item._vaultTimer) clearTimeout(item._vaultTimer);
  const timer = new Timeout(() => { if (item._onTimeout) item._onTimeout(); }, item._idleTimeout, [], false);
  Object.defineProperty(item, '_vaultTimer', { value: timer, configurable: true, writable: true });
};
Object.defineProperty(exports, 'promises', { get: () => require('timers_promises'), enumerable: true, configurable: true });

// Node's util.promisify(setTimeout) resolves with the value.
const custom = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(exports.setTimeout, custom, { get: () => require('timers_promises').setTimeout, enumerable: true });
Object.defineProperty(exports.setImmediate, custom, { get: () => require('timers_promises').setImmediate, enumerable: true });
