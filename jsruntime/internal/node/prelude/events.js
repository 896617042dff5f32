'use strict';
// EventEmitter.
const { raise, make, AbortError } = require('codes');
const { validateFunction, validateAbortSignal, validateBoolean } = require('validators');
let defaultMaxListeners = 10;
let captureByDefault = false;
const kCapture = Symbol('kCapture');
const kRejection = Symbol.for('nodejs.rejection');
const kErrorMonitor = Symbol('events.errorMonitor');

function EventEmitter(options) { EventEmitter.init.call(this, options); }

EventEmitter.init = function init(options) {
  if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
    this._events = Object.create(null);
    this._eventsCount = 0;
  }
  this._maxListeners = this._maxListeners || undefined;
  if (options && options.captureRejections !== undefined) {
    validateBoolean(options.captureRejections, 'options.captureRejections');
    this[kCapture] = options.captureRejections;
  } else {
    this[kCapture] = captureByDefault;
  }
};

const proto = EventEmitter.prototype;
proto._events = undefined;
proto._eventsCount = 0;
proto._maxListeners = undefined;
Object.defineProperty(proto, kCapture, { value: false, writable: true });

const limitOf = (emitter) => (emitter._maxListeners === undefined ? defaultMaxListeners : emitter._maxListeners);
const asList = (entry) => (entry === undefined ? [] : typeof entry === 'function' ? [entry] : entry);

function add(emitter, name, listener, first) {
  validateFunction(listener, 'listener');
  if (emitter._events === undefined) {
    emitter._events = Object.create(null);
    emitter._eventsCount = 0;
  } else if (emitter._events.newListener !== undefined) {
    emitter.emit('newListener', name, listener.listener || listener);
  }
  const entry = emitter._events[name];
  if (entry === undefined) {
    emitter._events[name] = listener;
    emitter._eventsCount++;
    return emitter;
  }
  if (typeof entry === 'function') emitter._events[name] = first ? [listener, entry] : [entry, listener];
  else if (first) entry.unshift(listener);
  else entry.push(listener);
  warnOfMany(emitter, name, emitter._events[name]);
  return emitter;
}

// warnOfMany warns once that a name has more listeners than expected.
function warnOfMany(emitter, name, list) {
  const limit = limitOf(emitter);
  if (limit <= 0 || list.length <= limit || list.warned) return;
  list.warned = true;
  const { inspect } = require('inspect');
  const warning = new Error('Possible EventEmitter memory leak detected. '
    + `${list.length} ${String(name)} listeners added to ${inspect(emitter, { depth: -1 })}. `
    + 'Use emitter.setMaxListeners() to increase limit');
  Object.assign(warning, { name: 'MaxListenersExceededWarning', emitter, type: name, count: list.length });
  require('process').emitWarning(warning);
}

function onceOf(emitter, name, listener) {
  validateFunction(listener, 'listener');
  let fired = false;
  const wrapper = function (...args) {
    if (fired) return undefined;
    fired = true;
    emitter.removeListener(name, wrapper);
    return listener.apply(emitter, args);
  };
  wrapper.listener = listener;
  return wrapper;
}

// failUnheard throws an error event that has no listener.
function failUnheard(args) {
  const [err] = args;
  if (err instanceof Error) throw err;
  const { inspect } = require('inspect');
  let text;
  try { text = inspect(err); } catch { text = err; }
  const failure = make('ERR_UNHANDLED_ERROR', text);
  failure.context = err;
  throw failure;
}

// routeRejection passes on the rejection of a listener, if that is requested.
function routeRejection(emitter, result, name, args) {
  if (result === undefined || result === null) return;
  try {
    const then = result.then;
    if (typeof then !== 'function') return;
    then.call(result, undefined, (err) => sys('tick')(() => {
      if (typeof emitter[kRejection] === 'function') return emitter[kRejection](err, name, ...args);
      const before = emitter[kCapture];
      try {
        emitter[kCapture] = false;
        emitter.emit('error', err);
      } finally {
        emitter[kCapture] = before;
      }
    }));
  } catch (err) {
    emitter.emit('error', err);
  }
}

const methods = {
  addListener(name, listener) { return add(this, name, listener, false); },
  prependListener(name, listener) { return add(this, name, listener, true); },
  once(name, listener) { return this.on(name, onceOf(this, name, listener)); },
  prependOnceListener(name, listener) { return this.prependListener(name, onceOf(this, name, listener)); },
  removeListener(name, listener) {
    validateFunction(listener, 'listener');
    const entry = this._events && this._events[name];
    if (entry === undefined) return this;
    const list = asList(entry);
    let at = list.length - 1;
    while (at >= 0 && list[at] !== listener && list[at].listener !== listener) at--;
    if (at < 0) return this;
    const removed = list[at];
    const rest = list.slice();
    rest.splice(at, 1);
    if (list.warned) rest.warned = true;
    drop(this, name, rest);
    if (this._events.removeListener !== undefined) this.emit('removeListener', name, removed.listener || listener);
    return this;
  },
  removeAllListeners(name) {
    const events = this._events;
    if (events === undefined) return this;
    if (events.removeListener === undefined) {
      if (arguments.length === 0) { this._events = Object.create(null); this._eventsCount = 0; } else if (events[name] !== undefined) drop(this, name, []);
      return this;
    }
    if (arguments.length === 0) {
      for (const key of Reflect.ownKeys(events)) if (key !== 'removeListener') this.removeAllListeners(key);
      this.removeAllListeners('removeListener');
      this._events = Object.create(null);
      this._eventsCount = 0;
      return this;
    }
    for (const listener of asList(events[name]).slice().reverse()) this.removeListener(name, listener);
    return this;
  },
  emit(name, ...args) {
    const events = this._events;
    if (name === 'error') {
      if (events !== undefined && events[kErrorMonitor] !== undefined) this.emit(kErrorMonitor, ...args);
      if (events === undefined || events.error === undefined) failUnheard(args);
    }
    const entry = events === undefined ? undefined : events[name];
    if (entry === undefined) return false;
    const list = typeof entry === 'function' ? [entry] : entry.slice();
    for (const listener of list) {
      const result = Reflect.apply(listener, this, args);
      if (this[kCapture] && result !== undefined) routeRejection(this, result, name, args);
    }
    return true;
  },
  listeners(name) { return asList(this._events && this._events[name]).map((listener) => listener.listener || listener); },
  rawListeners(name) { return asList(this._events && this._events[name]).slice(); },
  listenerCount(name) { return asList(this._events && this._events[name]).length; },
  eventNames() { return this._eventsCount > 0 ? Reflect.ownKeys(this._events) : []; },
  setMaxListeners(n) {
    if (typeof n !== 'number' || n < 0 || Number.isNaN(n)) raise('ERR_OUT_OF_RANGE', 'n', 'a non-negative number', n);
    this._maxListeners = n;
    return this;
  },
  getMaxListeners() { return limitOf(this); },
};
methods.off = methods.removeListener;
methods.on = methods.addListener;
for (const key of Object.keys(methods)) proto[key] = methods[key];

// drop stores the remaining listeners.
function drop(emitter, name, rest) {
  if (rest.length) { emitter._events[name] = rest.length === 1 ? rest[0] : rest; return; }
  delete emitter._events[name];
  if (--emitter._eventsCount === 0) emitter._events = Object.create(null);
}

module.exports = EventEmitter;
EventEmitter.usingDomains = false;
EventEmitter.EventEmitter = EventEmitter;
EventEmitter.errorMonitor = kErrorMonitor;
EventEmitter.captureRejectionSymbol = kRejection;
Object.defineProperties(EventEmitter, {
  captureRejections: {
    get: () => captureByDefault,
    set(value) { validateBoolean(value, 'EventEmitter.captureRejections'); captureByDefault = value; },
    enumerable: true,
  },
  defaultMaxListeners: {
    get: () => defaultMaxListeners,
    set(value) {
      if (typeof value !== 'number' || value < 0 || Number.isNaN(value)) raise('ERR_OUT_OF_RANGE', 'defaultMaxListeners', 'a non-negative number', value);
      defaultMaxListeners = value;
    },
    enumerable: true,
  },
});
EventEmitter.listenerCount = (emitter, name) => (typeof emitter.listenerCount === 'function' ? emitter.listenerCount(name) : methods.listenerCount.call(emitter, name));
EventEmitter.setMaxListeners = (n = defaultMaxListeners, ...targets) => {
  if (typeof n !== 'number' || n < 0 || Number.isNaN(n)) raise('ERR_OUT_OF_RANGE', 'n', 'a non-negative number', n);
  if (targets.length === 0) { defaultMaxListeners = n; return; }
  for (const target of targets) {
    if (typeof target.setMaxListeners === 'function') target.setMaxListeners(n);
    else if (typeof target.addEventListener !== 'function') raise('ERR_INVALID_ARG_TYPE', 'eventTargets', ['EventEmitter', 'EventTarget'], target);
  }
};
EventEmitter.getEventListeners = (emitter, name) => {
  if (typeof emitter.listeners === 'function') return emitter.listeners(name);
  const list = require('abort').listenersOf(emitter, name);
  if (!list) raise('ERR_INVALID_ARG_TYPE', 'emitter', ['EventEmitter', 'EventTarget'], emitter);
  return list;
};

// attach listens on emitters and event targets alike, and returns a function
// that stops.
function attach(emitter, name, listener, once) {
  if (typeof emitter.on === 'function') {
    emitter[once ? 'once' : 'on'](name, listener);
    return () => emitter.removeListener(name, listener);
  }
  if (typeof emitter.addEventListener !== 'function') raise('ERR_INVALID_ARG_TYPE', 'emitter', 'EventEmitter', emitter);
  emitter.addEventListener(name, listener, { once });
  return () => emitter.removeEventListener(name, listener);
}

EventEmitter.once = async function once(emitter, name, options = {}) {
  const { signal } = options;
  validateAbortSignal(signal, 'options.signal');
  if (signal && signal.aborted) throw new AbortError(undefined, { cause: signal.reason });
  return new Promise((resolve, reject) => {
    const stops = [];
    const finish = (settle, value) => { for (const stop of stops) stop(); settle(value); };
    stops.push(attach(emitter, name, (...args) => finish(resolve, args), true));
    if (name !== 'error' && typeof emitter.once === 'function') stops.push(attach(emitter, 'error', (err) => finish(reject, err), true));
    if (signal) stops.push(attach(signal, 'abort', () => finish(reject, new AbortError(undefined, { cause: signal.reason })), true));
  });
};

EventEmitter.on = function on(emitter, name, options) {
  const signal = options ? options.signal : undefined;
  validateAbortSignal(signal, 'options.signal');
  if (signal && signal.aborted) throw new AbortError(undefined, { cause: signal.reason });
  require('patch_symbol');
  const queue = [];
  const waiting = [];
  const stops = [];
  let failure = null;
  let over = false;
  const close = () => {
    for (const stop of stops) stop();
    over = true;
    for (const w of waiting.splice(0)) w.resolve({ value: undefined, done: true });
    return Promise.resolve({ value: undefined, done: true });
  };
  const fail = (err) => {
    over = true;
    if (waiting.length) waiting.shift().reject(err); else failure = err;
    close();
  };
  stops.push(attach(emitter, name, (...args) => (waiting.length ? waiting.shift().resolve({ value: args, done: false }) : queue.push(args)), false));
  if (name !== 'error' && typeof emitter.on === 'function') stops.push(attach(emitter, 'error', fail, false));
  if (signal) stops.push(attach(signal, 'abort', () => fail(new AbortError(undefined, { cause: signal.reason })), true));
  return Object.setPrototypeOf({
    next() {
      if (queue.length) return Promise.resolve({ value: queue.shift(), done: false });
      if (failure) { const err = failure; failure = null; return Promise.reject(err); }
      if (over) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return: close,
    throw(err) {
      if (!(err instanceof Error)) raise('ERR_INVALID_ARG_TYPE', 'EventEmitter.AsyncIterator', 'Error', err);
      failure = err;
      for (const stop of stops) stop();
    },
    [Symbol.asyncIterator]() { return this; },
  }, {});
};
