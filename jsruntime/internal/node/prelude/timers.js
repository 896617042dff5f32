'use strict';
// Timers, as objects that Node programs expect.
const validateCallback = (callback) => { if (typeof callback !== 'function') require('validators').validateCallback(callback); };
const add = sys('timer');
const clear = sys('timer.clear');
const weaken = sys('timer.weak');
const known = Object.create(null); // timers by id; a Map takes longer to create
const maxDelay = 2 ** 31 - 1;
const kDestroyed = Symbol('destroyed');

function delayOf(delay) {
  delay *= 1;
  if (delay >= 1 && delay <= maxDelay) return delay - (delay % 1);
  if (delay > maxDelay) {
    require('process').emitWarning(`${delay} does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.`, 'TimeoutOverflowWarning');
  }
  return 1;
}

class Timeout {
  constructor(callback, delay, args, repeat) {
    this._idleTimeout = delayOf(delay);
    this._onTimeout = callback;
    this._timerArgs = args && args.length ? args : undefined;
    this._repeat = repeat ? this._idleTimeout : null;
    this._destroyed = false;
    Object.defineProperty(this, '_strong', { value: true, writable: true });
    Object.defineProperty(this, '_id', { value: undefined, writable: true });
    start(this);
  }
  ref() { this._strong = true; weaken(this._id, false); return this; }
  unref() { this._strong = false; weaken(this._id, true); return this; }
  hasRef() { return this._strong; }
  refresh() {
    if (this._destroyed && this[kDestroyed] !== true) return this;
    clear(this._id);
    delete known[this._id];
    this._destroyed = false;
    start(this);
    return this;
  }
  close() { stop(this); return this; }
  [Symbol.toPrimitive]() { return this._id; }
}

function start(timer) {
  timer._id = add(() => fire(timer), timer._idleTimeout, false);
  known[timer._id] = timer;
  if (!timer._strong) weaken(timer._id, true);
}

function fire(timer) {
  if (timer._destroyed) return;
  delete known[timer._id];
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

Object.defineProperty(Timeout.prototype, kDestroyed, { value: undefined, writable: true });

function stop(timer) {
  timer._destroyed = true;
  timer._idleTimeout = -1;
  clear(timer._id);
  delete known[timer._id];
}

function clearTimeout(timer) {
  if (timer instanceof Timeout) { stop(timer); return; }
  if (typeof timer !== 'number' && typeof timer !== 'string') return;
  const found = known[+timer];
  if (found) stop(found);
}

exports.setTimeout = function setTimeout(callback, delay, ...args) { validateCallback(callback); return new Timeout(callback, delay, args, false); };
exports.setInterval = function setInterval(callback, delay, ...args) { validateCallback(callback); return new Timeout(callback, delay, args, true); };
exports.setImmediate = function setImmediate(callback, ...args) { validateCallback(callback); return new (require('timers_immediate').Immediate)(callback, args); };
exports.clearTimeout = clearTimeout;
exports.clearInterval = function clearInterval(timer) { clearTimeout(timer); };
exports.clearImmediate = function clearImmediate(immediate) { require('timers_immediate').clearImmediate(immediate); };

// The old interface is seldom needed.
exports.enroll = function enroll(item, delay) { require('timers_legacy').enroll(item, delay); };
exports.unenroll = function unenroll(item) { require('timers_legacy').unenroll(item); };
exports.active = exports._unrefActive = function active(item) { require('timers_legacy').active(item); };
Object.defineProperty(exports, 'promises', { get: () => require('timers_promises'), enumerable: true, configurable: true });

// Node's util.promisify(setTimeout) resolves with the value.
const custom = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(exports.setTimeout, custom, { get: () => require('timers_promises').setTimeout, enumerable: true });
Object.defineProperty(exports.setImmediate, custom, { get: () => require('timers_promises').setImmediate, enumerable: true });
