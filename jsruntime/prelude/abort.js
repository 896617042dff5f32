'use strict';
// Event, EventTarget, AbortController and DOMException.

const codes = {
  IndexSizeError: 1, NotFoundError: 8, NotSupportedError: 9, InvalidStateError: 11, SyntaxError: 12,
  InvalidAccessError: 15, TimeoutError: 23, AbortError: 20, DataCloneError: 25, InvalidCharacterError: 5,
};

class DOMException extends Error {
  constructor(message = '', name = 'Error') {
    super(message);
    Object.defineProperty(this, 'name', { value: name, configurable: true });
    Object.defineProperty(this, 'code', { value: codes[name] || 0, configurable: true });
  }
}

class Event {
  constructor(type, init = {}) {
    this.type = String(type);
    this.bubbles = !!init.bubbles;
    this.cancelable = !!init.cancelable;
    this.defaultPrevented = false;
    this.target = null;
    this.currentTarget = null;
    this.timeStamp = sys('hrtime')() / 1e6;
  }
  preventDefault() { if (this.cancelable) this.defaultPrevented = true; }
  stopPropagation() {}
  stopImmediatePropagation() { this._stopped = true; }
}

class EventTarget {
  #listeners = new Map();
  addEventListener(type, listener, options = {}) {
    if (!listener) return;
    const list = this.#listeners.get(type) || [];
    if (list.some((entry) => entry.listener === listener)) return;
    list.push({ listener, once: typeof options === 'object' && !!options.once });
    this.#listeners.set(type, list);
  }
  removeEventListener(type, listener) {
    const list = this.#listeners.get(type) || [];
    this.#listeners.set(type, list.filter((entry) => entry.listener !== listener));
  }
  dispatchEvent(event) {
    event.target = this;
    event.currentTarget = this;
    const handler = this['on' + event.type];
    if (typeof handler === 'function') handler.call(this, event);
    for (const entry of (this.#listeners.get(event.type) || []).slice()) {
      if (entry.once) this.removeEventListener(event.type, entry.listener);
      if (typeof entry.listener === 'function') entry.listener.call(this, event);
      else entry.listener.handleEvent(event);
      if (event._stopped) break;
    }
    return !event.defaultPrevented;
  }
}

const secret = Symbol('secret');
const triggers = new WeakMap();

class AbortSignal extends EventTarget {
  constructor(key) {
    if (key !== secret) {
      const err = new TypeError('Illegal constructor');
      err.code = 'ERR_ILLEGAL_CONSTRUCTOR';
      throw err;
    }
    super();
    Object.defineProperty(this, 'onabort', { value: null, writable: true, enumerable: true });
    const state = { aborted: false, reason: undefined };
    triggers.set(this, (reason) => {
      if (state.aborted) return;
      state.aborted = true;
      state.reason = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
      this.dispatchEvent(new Event('abort'));
    });
    Object.defineProperty(this, 'aborted', { get: () => state.aborted, enumerable: true });
    Object.defineProperty(this, 'reason', { get: () => state.reason });
  }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  static abort(reason) {
    const signal = new AbortSignal(secret);
    triggers.get(signal)(reason);
    return signal;
  }
  static timeout(delay) {
    const signal = new AbortSignal(secret);
    require('timers').setTimeout(() => triggers.get(signal)(new DOMException('The operation was aborted due to timeout', 'TimeoutError')), delay).unref();
    return signal;
  }
}

class AbortController {
  #signal = new AbortSignal(secret);
  get signal() { return this.#signal; }
  abort(reason) { triggers.get(this.#signal)(reason); }
}

module.exports = { AbortController, AbortSignal, Event, EventTarget, DOMException };
