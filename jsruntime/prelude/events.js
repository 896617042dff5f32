'use strict';
// EventEmitter.
function EventEmitter() { EventEmitter.init.call(this); }
EventEmitter.init = function () {
  if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
    Object.defineProperty(this, '_events', { value: Object.create(null), writable: true, enumerable: false });
  }
};
EventEmitter.defaultMaxListeners = 10;
EventEmitter.errorMonitor = Symbol('events.errorMonitor');

function check(listener) {
  if (typeof listener !== 'function') {
    const err = new TypeError('The "listener" argument must be of type function. Received ' + (listener === null ? 'null' : typeof listener));
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
}

function add(emitter, name, listener, first) {
  check(listener);
  EventEmitter.init.call(emitter);
  if (emitter._events.newListener) emitter.emit('newListener', name, listener.listener || listener);
  const list = emitter._events[name] || (emitter._events[name] = []);
  if (first) list.unshift(listener); else list.push(listener);
  return emitter;
}

function onceOf(emitter, name, listener) {
  check(listener);
  const wrapper = function (...args) {
    emitter.removeListener(name, wrapper);
    return listener.apply(emitter, args);
  };
  wrapper.listener = listener;
  return wrapper;
}

const listenersOf = (emitter, name) => (emitter._events && emitter._events[name]) || [];

Object.assign(EventEmitter.prototype, {
  on(name, listener) { return add(this, name, listener, false); },
  addListener(name, listener) { return add(this, name, listener, false); },
  prependListener(name, listener) { return add(this, name, listener, true); },
  once(name, listener) { return add(this, name, onceOf(this, name, listener), false); },
  prependOnceListener(name, listener) { return add(this, name, onceOf(this, name, listener), true); },
  off(name, listener) { return this.removeListener(name, listener); },
  removeListener(name, listener) {
    check(listener);
    const list = listenersOf(this, name);
    for (let i = list.length - 1; i >= 0; i--) {
      if (list[i] !== listener && list[i].listener !== listener) continue;
      const rest = list.slice();
      rest.splice(i, 1);
      if (rest.length) this._events[name] = rest; else delete this._events[name];
      if (this._events.removeListener) this.emit('removeListener', name, listener);
      break;
    }
    return this;
  },
  removeAllListeners(name) {
    EventEmitter.init.call(this);
    if (arguments.length === 0) this._events = Object.create(null); else delete this._events[name];
    return this;
  },
  emit(name, ...args) {
    const list = listenersOf(this, name);
    if (name === 'error') {
      for (const listener of listenersOf(this, EventEmitter.errorMonitor)) listener.apply(this, args);
    }
    if (list.length === 0) {
      if (name !== 'error') return false;
      if (args[0] instanceof Error) throw args[0];
      const err = new Error('Unhandled error. (' + require('util').inspect(args[0]) + ')');
      err.code = 'ERR_UNHANDLED_ERROR';
      err.context = args[0];
      throw err;
    }
    for (const listener of list.slice()) listener.apply(this, args);
    return true;
  },
  listeners(name) { return listenersOf(this, name).map((listener) => listener.listener || listener); },
  rawListeners(name) { return listenersOf(this, name).slice(); },
  listenerCount(name) { return listenersOf(this, name).length; },
  eventNames() { return this._events ? Reflect.ownKeys(this._events) : []; },
  setMaxListeners(n) { Object.defineProperty(this, '_maxListeners', { value: n, configurable: true, writable: true }); return this; },
  getMaxListeners() { return this._maxListeners === undefined ? EventEmitter.defaultMaxListeners : this._maxListeners; },
});
for (const key of Object.keys(EventEmitter.prototype)) Object.defineProperty(EventEmitter.prototype, key, { enumerable: false });

EventEmitter.EventEmitter = EventEmitter;
EventEmitter.listenerCount = (emitter, name) => emitter.listenerCount(name);
EventEmitter.getEventListeners = (emitter, name) => emitter.listeners(name);
EventEmitter.once = (emitter, name, options = {}) => new Promise((resolve, reject) => {
  const { signal } = options;
  if (signal && signal.aborted) return reject(signal.reason);
  if (typeof emitter.addEventListener === 'function') {
    emitter.addEventListener(name, (event) => resolve([event]), { once: true });
    return;
  }
  const fail = (err) => { emitter.removeListener(name, done); reject(err); };
  const done = (...args) => { emitter.removeListener('error', fail); resolve(args); };
  emitter.once(name, done);
  if (name !== 'error') emitter.once('error', fail);
  if (signal) signal.addEventListener('abort', () => { emitter.removeListener(name, done); fail(signal.reason); });
});
EventEmitter.on = (emitter, name) => {
  require('patch_symbol');
  const queue = [];
  const waiting = [];
  let failure;
  const handler = (...args) => (waiting.length ? waiting.shift().resolve({ value: args, done: false }) : queue.push(args));
  const fail = (err) => (waiting.length ? waiting.shift().reject(err) : (failure = err));
  emitter.on(name, handler);
  if (name !== 'error') emitter.on('error', fail);
  return {
    next() {
      if (queue.length) return Promise.resolve({ value: queue.shift(), done: false });
      if (failure) { const err = failure; failure = undefined; return Promise.reject(err); }
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return() {
      emitter.removeListener(name, handler);
      emitter.removeListener('error', fail);
      for (const w of waiting) w.resolve({ value: undefined, done: true });
      return Promise.resolve({ value: undefined, done: true });
    },
    [Symbol.asyncIterator]() { return this; },
  };
};

module.exports = EventEmitter;
