'use strict';
// x instanceof a proxy of a class, which goja rejects because it checks the
// proxy itself instead of its prototype property. A handler in front of the
// given one provides Symbol.hasInstance, unless the class has its own method.
const Native = Proxy;
const standard = Function.prototype[Symbol.hasInstance];
const proxies = new WeakSet();

function isInstance(value) {
  if (typeof this !== 'function') return false;
  if (!proxies.has(this)) return standard.call(this, value);
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false;
  const { prototype } = this;
  if (prototype === null || (typeof prototype !== 'object' && typeof prototype !== 'function')) {
    throw new TypeError("Function has non-object prototype '" + String(prototype) + "' in instanceof check");
  }
  for (let o = Object.getPrototypeOf(value); o !== null; o = Object.getPrototypeOf(o)) if (o === prototype) return true;
  return false;
}

// front returns a handler with the traps of the given one, looked up when
// needed and called as its methods.
function front(handler) {
  const get = (target, key, receiver) => {
    const trap = handler.get;
    const value = trap === undefined || trap === null ? Reflect.get(target, key, receiver) : trap.call(handler, target, key, receiver);
    return key === Symbol.hasInstance && value === standard ? isInstance : value;
  };
  return new Native({}, { get: (_, name) => {
    if (name === 'get') return get;
    const trap = handler[name];
    return typeof trap === 'function' ? (...args) => trap.apply(handler, args) : trap;
  } });
}

function make(target, handler) {
  const known = typeof target === 'function' && handler !== null && typeof handler === 'object';
  return known ? front(handler) : handler;
}
function Wrapped(target, handler) {
  if (!new.target) throw new TypeError("Constructor Proxy requires 'new'");
  const proxy = new Native(target, make(target, handler));
  if (typeof target === 'function') proxies.add(proxy);
  return proxy;
}
// A bound function is a constructor without a prototype property, like Proxy.
const Bound = Wrapped.bind(undefined);
const members = {
  revocable(target, handler) {
    const made = Native.revocable(target, make(target, handler));
    if (typeof target === 'function') proxies.add(made.proxy);
    return made;
  },
};
Object.defineProperty(Bound, 'revocable', { value: members.revocable, writable: true, configurable: true });
Object.defineProperty(Bound, 'name', { value: 'Proxy', configurable: true });
Object.defineProperty(globalThis, 'Proxy', { value: Bound, writable: true, configurable: true });
