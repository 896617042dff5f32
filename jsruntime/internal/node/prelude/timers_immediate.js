'use strict';
// Immediates, as objects that Node programs expect.
const add = sys('timer');
const clear = sys('timer.clear');
const weaken = sys('timer.weak');

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

exports.Immediate = Immediate;
exports.clearImmediate = function clearImmediate(timer) {
  if (!(timer instanceof Immediate) || timer._destroyed) return;
  timer._destroyed = true;
  timer._onImmediate = null;
  clear(timer._id);
};
