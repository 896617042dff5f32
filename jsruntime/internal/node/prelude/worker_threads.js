'use strict';
// worker_threads with only one thread. Channels work within it.
const { structuredClone } = require('clone');
const { setImmediate } = require('timers');
const EventEmitter = require('events');

class MessagePort extends EventEmitter {
  #queue = [];
  #other;
  #started = false;
  #waiting = false;
  static join(a, b) { a.#other = b; b.#other = a; }
  static take(port) { return port.#queue.length ? { message: port.#queue.shift() } : undefined; }
  on(name, listener) { super.on(name, listener); if (name === 'message') this.start(); return this; }
  addListener(name, listener) { return this.on(name, listener); }
  addEventListener(name, listener) { return this.on(name, name === 'message' ? (data) => listener({ type: name, data, target: this }) : listener); }
  set onmessage(listener) { this.addEventListener('message', listener); }
  postMessage(message) {
    const copy = structuredClone(message);
    const other = this.#other;
    if (!other) return;
    other.#queue.push(copy);
    other.#deliver();
  }
  start() { this.#started = true; this.#deliver(); }
  close() {
    for (const port of [this, this.#other]) if (port) { port.#other = undefined; setImmediate(() => port.emit('close')); }
  }
  ref() { return this; }
  unref() { return this; }
  #deliver() {
    if (!this.#started || this.#waiting || !this.#queue.length) return;
    this.#waiting = true;
    setImmediate(() => {
      this.#waiting = false;
      if (!this.#queue.length) return;
      this.emit('message', this.#queue.shift());
      this.#deliver();
    });
  }
}

class MessageChannel {
  constructor() {
    this.port1 = new MessagePort();
    this.port2 = new MessagePort();
    MessagePort.join(this.port1, this.port2);
  }
}

module.exports = {
  isMainThread: true, threadId: 0, parentPort: null, workerData: null, resourceLimits: {},
  MessagePort, MessageChannel,
  receiveMessageOnPort: (port) => MessagePort.take(port),
  ...require('denied').each('worker_threads.', 'BroadcastChannel getEnvironmentData markAsUntransferable moveMessagePortToContext setEnvironmentData Worker'),
};
