'use strict';
// WeakRef and FinalizationRegistry. A run is short, so both keep what they
// hold.
const canBeHeld = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function'
  || (typeof value === 'symbol' && Symbol.keyFor(value) === undefined);

// adopt gives an object the prototype of its class if new.target has none.
function adopt(object, target, prototype) {
  if (Object.getPrototypeOf(object) === Object.prototype && target.prototype !== Object.prototype) Object.setPrototypeOf(object, prototype);
}

class WeakRef {
  #target;
  constructor(target) {
    if (!canBeHeld(target)) throw new TypeError('WeakRef: target must be an object');
    adopt(this, new.target, WeakRef.prototype);
    this.#target = target;
  }
  deref() { return this.#target; }
}

class FinalizationRegistry {
  #tokens = new Set();
  constructor(cleanup) {
    if (typeof cleanup !== 'function') throw new TypeError('FinalizationRegistry: cleanup must be callable');
    adopt(this, new.target, FinalizationRegistry.prototype);
  }
  register(target, held, token) {
    const tokens = this.#tokens;
    if (!canBeHeld(target)) throw new TypeError('FinalizationRegistry.prototype.register: invalid target');
    if (target === held) throw new TypeError('FinalizationRegistry.prototype.register: target and holdings must not be same');
    if (canBeHeld(token)) tokens.add(token);
    else if (token !== undefined) throw new TypeError(`Invalid unregisterToken ('${String(token)}')`);
  }
  unregister(token) {
    const tokens = this.#tokens;
    if (!canBeHeld(token)) throw new TypeError(`Invalid unregisterToken ('${String(token)}')`);
    return tokens.delete(token);
  }
}
Object.defineProperty(FinalizationRegistry.prototype.register, 'length', { value: 2, configurable: true });
for (const Class of [WeakRef, FinalizationRegistry]) {
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

module.exports = { WeakRef, FinalizationRegistry };
