'use strict';
// Timers, as objects that Node's programs expect.
const add = sys('timer');
const clear = sys('timer.clear');
const weaken = sys('timer.weak');

class Timeout {
  constructor(callback, delay, args, repeat) {
    if (typeof callback !== 'function') {
      const err = new TypeError('Callback must be a function. Received ' + String(callback));
      err.code = 'ERR_INVALID_CALLBACK';
      throw err;
    }
    delay = +delay;
    this._start = () => {
      this._id = add(() => callback.apply(this, args), delay >= 1 ? Math.trunc(delay) : 1, repeat);
    };
    this._strong = true;
    this._start();
  }
  ref() { this._strong = true; weaken(this._id, false); return this; }
  unref() { this._strong = false; weaken(this._id, true); return this; }
  hasRef() { return this._strong; }
  refresh() { clear(this._id); this._start(); return this; }
  close() { clear(this._id); return this; }
  [Symbol.toPrimitive]() { return this._id; }
}
for (const key of ['_id', '_start', '_strong']) {
  Object.defineProperty(Timeout.prototype, key, { value: undefined, writable: true });
}

class Immediate {
  constructor(callback, args) {
    this._id = add(() => callback.apply(this, args), -1, false);
  }
  ref() { weaken(this._id, false); return this; }
  unref() { weaken(this._id, true); return this; }
  hasRef() { return true; }
}

function stop(timer) {
  if (timer === null || timer === undefined) return;
  clear(typeof timer === 'object' ? timer._id : +timer);
}

exports.setTimeout = function setTimeout(callback, delay, ...args) { return new Timeout(callback, delay, args, false); };
exports.setInterval = function setInterval(callback, delay, ...args) { return new Timeout(callback, delay, args, true); };
exports.setImmediate = function setImmediate(callback, ...args) { return new Immediate(callback, args); };
exports.clearTimeout = function clearTimeout(timer) { stop(timer); };
exports.clearInterval = function clearInterval(timer) { stop(timer); };
exports.clearImmediate = function clearImmediate(timer) { stop(timer); };
Object.defineProperty(exports, 'promises', { get: () => require('timers_promises'), enumerable: true });

// Node's util.promisify(setTimeout) resolves with the value.
const custom = Symbol.for('nodejs.util.promisify.custom');
Object.defineProperty(exports.setTimeout, custom, { get: () => require('timers_promises').setTimeout });
Object.defineProperty(exports.setImmediate, custom, { get: () => require('timers_promises').setImmediate });
