'use strict';
// Replacements of the compiler's own helpers for lowered code: asynchronous
// generators that follow the order of the standard, and import().
require('patch_symbol');
const resolved = Promise.resolve.bind(Promise);
const { then } = Promise.prototype;
const { apply } = Reflect;
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

// after waits for a value, as await does.
function after(value, good, bad) {
  let promise;
  try { promise = resolved(value); } catch (err) { promise = Promise.reject(err); }
  apply(then, promise, [good, bad]);
}

// Markers that a generator yields to its driver.
function Await(value) { this[0] = value; }
class Yield { constructor(value) { this.value = value; } } // as it is, without waiting for it
class Return { constructor(value) { this.value = value; } }

const states = new WeakMap();

// generator runs the body of an asynchronous generator.
function generator(self, args, body) {
  const out = Object.create(AsyncGenerator);
  states.set(out, { steps: apply(body, self, args || []), queue: [], running: false, phase: 'start' });
  return out;
}

const AsyncIterator = { [Symbol.asyncIterator]() { return this; } };
Object.defineProperty(AsyncIterator, Symbol.asyncIterator, { enumerable: false });
const AsyncGenerator = Object.create(AsyncIterator, { [Symbol.toStringTag]: { value: 'AsyncGenerator', configurable: true } });
const methods = {
  next(value) { return enqueue(this, 'next', value); },
  return(value) { return enqueue(this, 'return', value); },
  throw(value) { return enqueue(this, 'throw', value); },
};
for (const name of Object.keys(methods)) Object.defineProperty(AsyncGenerator, name, { value: methods[name], writable: true, configurable: true });

function enqueue(object, kind, value) {
  return new Promise((resolve, reject) => {
    const state = states.get(object);
    if (!state) throw new TypeError(`${kind} method called on incompatible receiver ${String(object)}`);
    state.queue.push({ kind, value, resolve, reject });
    if (!state.running) drain(state);
  });
}

function settle(state, how, value) {
  state.running = false;
  state.queue.shift()[how](value);
  drain(state);
}

// drain handles requests as long as none of them has to wait.
function drain(state) {
  if (state.running || state.queue.length === 0) return;
  const { kind, value } = state.queue[0];
  state.running = true;
  if (state.phase === 'start' && kind !== 'next') state.phase = 'done';
  if (state.phase === 'done') {
    if (kind === 'next') settle(state, 'resolve', { value: undefined, done: true });
    else if (kind === 'throw') settle(state, 'reject', value);
    else after(value, (v) => settle(state, 'resolve', { value: v, done: true }), (err) => settle(state, 'reject', err));
    return;
  }
  state.phase = 'begun';
  if (kind === 'return') after(value, (v) => run(state, 'return', v), (err) => run(state, 'throw', err));
  else run(state, kind, value);
}

// run resumes a generator and continues until it has a result for its caller.
function run(state, kind, given) {
  let step;
  try {
    step = state.steps[kind](given);
  } catch (err) {
    state.phase = 'done';
    settle(state, 'reject', err);
    return;
  }
  const { value, done } = step;
  const fail = (err) => run(state, 'throw', err);
  if (done) {
    state.phase = 'done';
    if (kind === 'return' && value === given) settle(state, 'resolve', { value, done });
    else after(value, (v) => settle(state, 'resolve', { value: v, done }), (err) => settle(state, 'reject', err));
  } else if (value instanceof Await) after(value[0], (v) => run(state, 'next', v), fail);
  else if (value instanceof Return) run(state, 'return', value.value);
  else if (value instanceof Yield) settle(state, 'resolve', { value: value.value, done });
  else after(value, (v) => settle(state, 'resolve', { value: v, done }), fail);
}

// fromSync makes an asynchronous iterator from a synchronous one.
function fromSync(iterator) {
  const { next } = iterator;
  const answer = (result, closes) => {
    if (!isObject(result)) throw new TypeError(`Iterator result ${String(result)} is not an object`);
    const { done, value } = result;
    return new Promise((resolve, reject) => after(value, (v) => resolve({ value: v, done: Boolean(done) }), (err) => {
      if (closes && !done) try { const close = iterator.return; if (close) apply(close, iterator, []); } catch { /* the first error counts */ }
      reject(err);
    }));
  };
  const promised = (f) => { try { return f(); } catch (err) { return Promise.reject(err); } };
  return {
    next: (...args) => promised(() => answer(apply(next, iterator, args), false)),
    return: (...args) => promised(() => {
      const method = iterator.return;
      return method === undefined || method === null ? Promise.resolve({ value: args[0], done: true }) : answer(apply(method, iterator, args), false);
    }),
    throw: (...args) => promised(() => {
      const method = iterator.throw;
      if (method === undefined || method === null) throw args[0];
      return answer(apply(method, iterator, args), false);
    }),
  };
}

function iteratorOf(value) {
  const method = value[Symbol.asyncIterator];
  const iterator = method === undefined || method === null ? fromSync(value[Symbol.iterator]()) : apply(method, value, []);
  if (!isObject(iterator)) throw new TypeError('Result of the Symbol.asyncIterator method is not an object');
  return iterator;
}

// delegate takes part in the yield* of a synchronous generator, on behalf of an
// asynchronous one. Each message tells how the generator was resumed.
function* delegate(value) {
  const iterator = iteratorOf(value);
  const { next } = iterator;
  let message = yield;
  for (;;) {
    const name = message.kind;
    const method = name === 'next' ? next : iterator[name];
    let result;
    if (name !== 'next' && (method === undefined || method === null)) {
      if (name === 'return') { yield new Return(message.value); return message.value; }
      yield* close(iterator);
      throw new TypeError('The iterator does not provide a \'throw\' method');
    }
    message = yield new Await(apply(method, iterator, [message.value]));
    if (message.kind === 'throw') throw message.value;
    result = message.value;
    if (!isObject(result)) throw new TypeError(`Iterator result ${String(result)} is not an object`);
    if (result.done) {
      const last = result.value;
      if (name === 'return') yield new Return(last);
      return last;
    }
    message = yield new Yield(result.value);
  }
}

function* close(iterator) {
  const method = iterator.return;
  if (method === undefined || method === null) return;
  const message = yield new Await(apply(method, iterator, []));
  if (message.kind === 'throw') throw message.value;
  if (!isObject(message.value)) throw new TypeError(`${String(message.value)} is not an object`);
}

function yieldStar(value) {
  const machine = delegate(value);
  machine.next();
  let leaving = false;
  const step = (kind) => (given) => {
    if (leaving) return { value: given, done: true };
    const out = machine.next({ kind, value: given });
    leaving = out.value instanceof Return;
    return out;
  };
  const it = { next: step('next'), throw: step('throw'), return: step('return') };
  it[Symbol.iterator] = () => it;
  return it;
}

// toESM presents a module as import does: with all of it as default, unless it
// already was an ES module.
function toESM(exported) {
  const out = exported === undefined || exported === null ? {} : Object.create(Object.getPrototypeOf(exported));
  if (!exported || !exported.__esModule) Object.defineProperty(out, 'default', { value: exported, enumerable: true });
  if (isObject(exported)) {
    for (const key of Object.getOwnPropertyNames(exported)) {
      if (!Object.prototype.hasOwnProperty.call(out, key)) {
        Object.defineProperty(out, key, { get: () => exported[key], enumerable: Object.getOwnPropertyDescriptor(exported, key).enumerable });
      }
    }
  }
  return out;
}

// importer returns the function that import() calls. Errors become rejections.
const importer = (require) => async (name, options) => {
  const text = `${name}`;
  if (options !== undefined) {
    if (!isObject(options)) throw new TypeError('The second argument of import() must be an object');
    const attributes = options.with;
    if (attributes !== undefined && !isObject(attributes)) throw new TypeError("The 'options' argument of import() must be an object");
    for (const key of Object.keys(attributes || {})) if (typeof attributes[key] !== 'string') throw new TypeError('Import attribute value must be a string');
  }
  await null; // a module never loads synchronously
  return toESM(require(text));
};

function define(exports, name, get) { Object.defineProperty(exports, name, { get, enumerable: true, configurable: true }); }
function exportAll(exports, from) {
  for (const key of Object.keys(from)) if (key !== 'default' && !(key in exports)) define(exports, key, () => from[key]);
}

module.exports = { Await, generator, yieldStar, importer, toESM, export: define, exportAll };
