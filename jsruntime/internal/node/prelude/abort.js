'use strict';
// Event, EventTarget, AbortController and DOMException.
const { raise } = require('codes');
const { validateObject } = require('validators');
const inspectName = Symbol.for('nodejs.util.inspect.custom');

const legacyCodes = {
  IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7, NotFoundError: 8,
  NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12, InvalidModificationError: 13, NamespaceError: 14,
  InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18, NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22,
  TimeoutError: 23, InvalidNodeTypeError: 24, DataCloneError: 25,
};

class DOMException extends Error {
  #name;
  constructor(message = '', options = 'Error') {
    super(`${message}`);
    if (options !== null && typeof options === 'object') {
      this.#name = options.name === undefined ? 'Error' : `${options.name}`;
      if ('cause' in options) Object.defineProperty(this, 'cause', { value: options.cause, configurable: true, writable: true });
    } else {
      this.#name = `${options}`;
    }
    const { stack } = this;
    if (typeof stack === 'string' && stack.startsWith('Error')) Object.defineProperty(this, 'stack', { value: this.#name + stack.slice(5), configurable: true, writable: true });
  }
  get name() { return this.#name; }
  get code() { return legacyCodes[this.#name] || 0; }
}
sys('enumerable')(DOMException.prototype, true, 'name code');
Object.defineProperty(DOMException.prototype, Symbol.toStringTag, { value: 'DOMException', configurable: true });
const constants = {
  INDEX_SIZE_ERR: { value: 1, enumerable: true }, HIERARCHY_REQUEST_ERR: { value: 3, enumerable: true }, WRONG_DOCUMENT_ERR: { value: 4, enumerable:
  true }, INVALID_CHARACTER_ERR: { value: 5, enumerable: true }, NO_MODIFICATION_ALLOWED_ERR: { value: 7, enumerable: true }, NOT_FOUND_ERR: { value: 8,
  enumerable: true }, NOT_SUPPORTED_ERR: { value: 9, enumerable: true }, IN_USE_ATTRIBUTE_ERR: { value: 10, enumerable: true }, INVALID_STATE_ERR: {
  value: 11, enumerable: true }, SYNTAX_ERR: { value: 12, enumerable: true }, INVALID_MODIFICATION_ERR: { value: 13, enumerable: true }, NAMESPACE_ERR:
  { value: 14, enumerable: true }, INVALID_ACCESS_ERR: { value: 15, enumerable: true }, TYPE_MISMATCH_ERR: { value: 17, enumerable: true },
  SECURITY_ERR: { value: 18, enumerable: true }, NETWORK_ERR: { value: 19, enumerable: true }, ABORT_ERR: { value: 20, enumerable: true },
  URL_MISMATCH_ERR: { value: 21, enumerable: true }, QUOTA_EXCEEDED_ERR: { value: 22, enumerable: true }, TIMEOUT_ERR: { value: 23, enumerable: true },
  INVALID_NODE_TYPE_ERR: { value: 24, enumerable: true }, DATA_CLONE_ERR: { value: 25, enumerable: true },
};
Object.defineProperties(DOMException, constants);
Object.defineProperties(DOMException.prototype, constants);

const flags = new WeakMap();
const stateOf = (event) => flags.get(event) || raise('ERR_INVALID_THIS', 'Event');

class Event {
  constructor(type, options = undefined) {
    if (arguments.length === 0) raise('ERR_MISSING_ARGS', 'type');
    if (options !== undefined) validateObject(options, 'options', { allowArray: true, allowFunction: true, nullable: true });
    const { bubbles, cancelable, composed } = options || {};
    flags.set(this, {
      type: `${type}`, cancelable: !!cancelable, bubbles: !!bubbles, composed: !!composed, prevented: false, stopped: false, stoppedNow: false, passive: false,
      target: null, current: null, phase: 0, time: sys('hrtime')() / 1e6,
    });
    // A program must not be able to pass its own events off as the host's.
    Object.defineProperty(this, 'isTrusted', { get: trusted, enumerable: true, configurable: false });
  }
  get type() { return stateOf(this).type; }
  get target() { return stateOf(this).target; }
  get srcElement() { return stateOf(this).target; }
  get currentTarget() { return stateOf(this).current; }
  get eventPhase() { return stateOf(this).phase; }
  get bubbles() { return stateOf(this).bubbles; }
  get cancelable() { return stateOf(this).cancelable; }
  get composed() { return stateOf(this).composed; }
  get timeStamp() { return stateOf(this).time; }
  get defaultPrevented() { const s = stateOf(this); return s.cancelable && s.prevented; }
  get returnValue() { return !this.defaultPrevented; }
  set returnValue(value) { if (!value) this.preventDefault(); }
  get cancelBubble() { return stateOf(this).stopped; }
  set cancelBubble(value) { if (value) stateOf(this).stopped = true; }
  composedPath() { const { current } = stateOf(this); return current === null ? [] : [current]; }
  preventDefault() { const s = stateOf(this); if (s.cancelable && !s.passive) s.prevented = true; }
  stopPropagation() { stateOf(this).stopped = true; }
  stopImmediatePropagation() { const s = stateOf(this); s.stopped = true; s.stoppedNow = true; }
  initEvent(type, bubbles = false, cancelable = false) {
    const s = stateOf(this);
    if (s.phase !== 0) return;
    Object.assign(s, { type: `${type}`, bubbles: !!bubbles, cancelable: !!cancelable, prevented: false, stopped: false, stoppedNow: false, target: null });
  }
  [inspectName](depth, options) {
    const name = this.constructor.name;
    if (depth < 0) return name;
    const { inspect } = require('inspect');
    return `${name} ${inspect({ type: this.type, defaultPrevented: this.defaultPrevented, cancelable: this.cancelable, timeStamp: this.timeStamp }, options)}`;
  }
}
const trusted = function isTrusted() { return false; };
sys('enumerable')(Event.prototype, true);
Object.defineProperty(Event.prototype, Symbol.toStringTag, { value: 'Event', configurable: true });
for (const [i, name] of ['NONE', 'CAPTURING_PHASE', 'AT_TARGET', 'BUBBLING_PHASE'].entries()) {
  for (const target of [Event, Event.prototype]) Object.defineProperty(target, name, { value: i, enumerable: true });
}

class CustomEvent extends Event {
  #detail;
  constructor(type, options = undefined) {
    if (arguments.length === 0) raise('ERR_MISSING_ARGS', 'type');
    super(type, options);
    this.#detail = options && options.detail !== undefined ? options.detail : null;
  }
  get detail() { return this.#detail; }
  initCustomEvent(type, bubbles, cancelable, detail = null) { this.initEvent(type, bubbles, cancelable); this.#detail = detail; }
}
sys('enumerable')(CustomEvent.prototype, true, 'detail initCustomEvent');
Object.defineProperty(CustomEvent.prototype, Symbol.toStringTag, { value: 'CustomEvent', configurable: true });

const listeners = new WeakMap();
const mapOf = (target) => {
  const map = listeners.get(target === undefined || target === null ? globalThis : target);
  return map || raise('ERR_INVALID_THIS', 'EventTarget');
};
const optionsOf = (options) => (typeof options === 'object' && options !== null ? options : typeof options === 'function' ? options : { capture: !!options });

class EventTarget {
  constructor() { listeners.set(this, new Map()); }
  addEventListener(type, listener, options = {}) {
    const map = mapOf(this);
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'type', 'listener');
    const { once = false, capture = false, passive = false, signal } = optionsOf(options);
    if (listener === null || listener === undefined) return;
    if (typeof listener !== 'function' && typeof listener !== 'object') raise('ERR_INVALID_ARG_TYPE', 'listener', 'EventListener', listener);
    if (signal !== undefined && !(signal instanceof AbortSignal)) raise('ERR_INVALID_ARG_TYPE', 'options.signal', 'AbortSignal', signal);
    if (signal && signal.aborted) return;
    type = `${type}`;
    const list = map.get(type) || [];
    if (list.some((entry) => entry.listener === listener && entry.capture === !!capture)) return;
    list.push({ listener, once: !!once, capture: !!capture, passive: !!passive, removed: false });
    map.set(type, list);
    if (signal) signal.addEventListener('abort', () => this.removeEventListener(type, listener, options), { once: true });
  }
  removeEventListener(type, listener, options = {}) {
    const map = mapOf(this);
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'type', 'listener');
    const { capture = false } = optionsOf(options);
    type = `${type}`;
    const list = map.get(type) || [];
    const found = list.find((entry) => entry.listener === listener && entry.capture === !!capture);
    if (!found) return;
    found.removed = true;
    map.set(type, list.filter((entry) => entry !== found));
  }
  dispatchEvent(event) {
    mapOf(this);
    if (arguments.length < 1) raise('ERR_MISSING_ARGS', 'event');
    if (!(event instanceof Event)) raise('ERR_INVALID_ARG_TYPE', 'event', 'Event', event);
    const state = stateOf(event);
    if (state.phase !== 0) raise('ERR_EVENT_RECURSION', event.type);
    dispatch(this, event, state);
    return !event.defaultPrevented;
  }
  [inspectName](depth, options) {
    const name = this.constructor.name;
    return depth < 0 ? name : `${name} ${require('inspect').inspect({}, options)}`;
  }
}

function dispatch(target, event, state) {
  state.target = target;
  state.current = target;
  state.phase = 2;
  for (const entry of (mapOf(target).get(event.type) || []).slice()) {
    if (entry.removed) continue;
    if (entry.once) target.removeEventListener(event.type, entry.listener, { capture: entry.capture });
    state.passive = entry.passive;
    try {
      if (typeof entry.listener === 'function') entry.listener.call(target, event);
      else if (entry.listener.handleEvent) entry.listener.handleEvent(event);
    } catch (err) {
      // A failing listener does not keep others from being called.
      require('process').nextTick(() => { throw err; });
    }
    state.passive = false;
    if (state.stoppedNow) break;
  }
  state.current = null;
  state.phase = 0;
  state.stopped = false;
}
sys('enumerable')(EventTarget.prototype, true, 'addEventListener removeEventListener dispatchEvent');
Object.defineProperty(EventTarget.prototype, Symbol.toStringTag, { value: 'EventTarget', configurable: true });

// listenersOf returns the listeners for events.getEventListeners.
function listenersOf(target, type) {
  const map = listeners.get(target);
  return map && (map.get(`${type}`) || []).map((entry) => entry.listener);
}

// handler defines an attribute like onabort.
function handler(Class, type) {
  const handlers = new WeakMap();
  Object.defineProperty(Class.prototype, 'on' + type, {
    get() { const found = handlers.get(this); return found ? found.value : null; },
    set(value) {
      let found = handlers.get(this);
      const usable = typeof value === 'function' || (typeof value === 'object' && value !== null) ? value : null;
      if (!found) {
        found = { value: null };
        handlers.set(this, found);
        this.addEventListener(type, function (event) { if (typeof found.value === 'function') found.value.call(this, event); });
      }
      found.value = usable;
    },
    enumerable: true, configurable: true,
  });
}

const secret = Symbol('secret');
const signals = new WeakMap();
const signalOf = (signal) => signals.get(signal) || raise('ERR_INVALID_THIS', 'AbortSignal');

class AbortSignal extends EventTarget {
  constructor(key) {
    if (key !== secret) raise('ERR_ILLEGAL_CONSTRUCTOR');
    super();
    signals.set(this, { aborted: false, reason: undefined, followers: new Set(), sources: [] });
  }
  get aborted() { return signalOf(this).aborted; }
  get reason() { return signalOf(this).reason; }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  static abort(reason = new DOMException('This operation was aborted', 'AbortError')) {
    const signal = new AbortSignal(secret);
    Object.assign(signals.get(signal), { aborted: true, reason });
    return signal;
  }
  static timeout(delay) {
    require('validators').validateUint32(delay, 'delay');
    const signal = new AbortSignal(secret);
    require('timers').setTimeout(() => trigger(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay).unref();
    return signal;
  }
  static any(list) {
    const all = Array.from(list);
    for (const signal of all) if (!(signal instanceof AbortSignal)) raise('ERR_INVALID_ARG_TYPE', 'signals', 'AbortSignal', signal);
    const out = new AbortSignal(secret);
    const done = all.find((signal) => signal.aborted);
    if (done) { Object.assign(signals.get(out), { aborted: true, reason: done.reason }); return out; }
    for (const signal of all) {
      // Follow a signal that depends on others through its sources.
      const { sources } = signals.get(signal);
      for (const source of sources.length ? sources : [signal]) {
        signals.get(source).followers.add(out);
        signals.get(out).sources.push(source);
      }
    }
    return out;
  }
  [inspectName](depth, options) {
    return depth < 0 ? 'AbortSignal' : `AbortSignal ${require('inspect').inspect({ aborted: this.aborted }, options)}`;
  }
}

// trigger aborts a signal and its followers, all of them before any listener is
// called.
function trigger(signal, reason) {
  const state = signals.get(signal);
  if (state.aborted) return;
  const all = [signal, ...state.followers].filter((each) => !signals.get(each).aborted);
  for (const each of all) Object.assign(signals.get(each), { aborted: true, reason });
  for (const each of all) each.dispatchEvent(new Event('abort'));
}
handler(AbortSignal, 'abort');
sys('enumerable')(AbortSignal.prototype, true, 'aborted reason throwIfAborted');
sys('enumerable')(AbortSignal, true, 'abort timeout any');
Object.defineProperty(AbortSignal.prototype, Symbol.toStringTag, { value: 'AbortSignal', configurable: true });

class AbortController {
  #signal = new AbortSignal(secret);
  get signal() { check(this); return this.#signal; }
  abort(reason = new DOMException('This operation was aborted', 'AbortError')) { check(this); trigger(this.#signal, reason); }
  static is(value) { return #signal in value; }
  [inspectName](depth, options) {
    return depth < 0 ? 'AbortController' : `AbortController ${require('inspect').inspect({ signal: this.signal }, options)}`;
  }
}
const { is } = AbortController;
delete AbortController.is;
const check = (self) => { if (self === null || typeof self !== 'object' || !is(self)) raise('ERR_INVALID_THIS', 'AbortController'); };
sys('enumerable')(AbortController.prototype, true, 'signal abort');
Object.defineProperty(AbortController.prototype, Symbol.toStringTag, { value: 'AbortController', configurable: true });

module.exports = { AbortController, AbortSignal, Event, CustomEvent, EventTarget, DOMException, listenersOf };
