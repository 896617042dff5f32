'use strict';
// worker_threads with only one thread. Channels work within it.
const { refuse } = require('denied');
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

class Worker extends EventEmitter { constructor() { super(); refuse('worker_threads.Worker')(); } }
class BroadcastChannel extends EventEmitter { constructor() { super(); refuse('worker_threads.BroadcastChannel')(); } }

const shared = new Map();
module.exports = {
  isMainThread: true, threadId: 0, parentPort: null, workerData: null, resourceLimits: {},
  SHARE_ENV: Symbol.for('nodejs.worker_threads.SHARE_ENV'),
  MessagePort, MessageChannel, Worker, BroadcastChannel,
  receiveMessageOnPort: (port) => MessagePort.take(port),
  markAsUntransferable() {},
  moveMessagePortToContext: refuse('worker_threads.moveMessagePortToContext'),
  setEnvironmentData(key, value) { if (value === undefined) shared.delete(key); else shared.set(key, structuredClone(value)); },
  getEnvironmentData: (key) => structuredClone(shared.get(key)),
};
