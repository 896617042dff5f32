'use strict';
// Symbols as keys of WeakMap and WeakSet, which goja rejects. They are kept as
// long as the collection.
const allowed = (key) => typeof key === 'symbol' && Symbol.keyFor(key) === undefined;
const { get: sideOf, set: putSide } = WeakMap.prototype;
const sides = new WeakMap(); // the symbols of a collection

function patch(Class, Side, names) {
  const probe = Class.prototype.has;
  const side = (collection) => {
    probe.call(collection, sides); // throws for anything else
    let found = sideOf.call(sides, collection);
    if (!found) putSide.call(sides, collection, found = new Side());
    return found;
  };
  for (const name of names) {
    const native = Class.prototype[name];
    const { [name]: method } = {
      [name](key, value) {
        if (!allowed(key)) return native.call(this, key, value);
        const out = side(this)[name](key, value);
        return name === 'set' || name === 'add' ? this : out;
      },
    };
    Object.defineProperty(method, 'length', { value: native.length, configurable: true });
    Object.defineProperty(Class.prototype, name, { value: method, writable: true, configurable: true });
  }
}
patch(WeakMap, Map, ['get', 'set', 'has', 'delete']);
patch(WeakSet, Set, ['add', 'has', 'delete']);
