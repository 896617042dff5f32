'use strict';
// The operators of Readable: map, filter and similar ones.
require('patch_symbol');
const { make, raise, AbortError } = require('codes');
const { validateAbortSignal, validateInteger, validateObject } = require('validators');

function checkFunction(f, name = 'fn') {
  if (typeof f !== 'function') raise('ERR_INVALID_ARG_TYPE', name, ['Function', 'AsyncFunction'], f);
}

function checkOptions(options) {
  if (options === undefined || options === null) return {};
  validateObject(options, 'options');
  if (options.signal !== undefined && options.signal !== null) validateAbortSignal(options.signal, 'options.signal');
  return options;
}

// generate makes a Readable from a function that returns the next value. It
// returns undefined at the end, or a list of values.
function generate(stream, options, step) {
  const { Readable } = require('stream_readable');
  const iterator = stream[Symbol.asyncIterator]();
  const queue = [];
  let over = false;
  return Readable.from({
    async next() {
      while (!queue.length && !over) {
        if (options.signal && options.signal.aborted) throw new AbortError();
        const got = await step(iterator);
        if (got === undefined) { over = true; break; }
        queue.push(...got);
      }
      if (queue.length) return { value: queue.shift(), done: false };
      if (iterator.return) await iterator.return();
      return { value: undefined, done: true };
    },
    async return() { over = true; if (iterator.return) await iterator.return(); return { value: undefined, done: true }; },
    [Symbol.asyncIterator]() { return this; },
  });
}

function map(f, options) {
  checkFunction(f);
  options = checkOptions(options);
  let concurrency = 1;
  if (options.concurrency !== undefined && options.concurrency !== null) concurrency = Math.floor(options.concurrency);
  validateInteger(concurrency, 'concurrency', 1);
  const controller = new (require('abort').AbortController)();
  const abort = () => controller.abort();
  if (options.signal) { if (options.signal.aborted) abort(); else options.signal.addEventListener('abort', abort); }
  const running = [];
  let ended = false;
  const start = async (iterator) => {
    while (!ended && running.length < concurrency) {
      const step = await iterator.next();
      if (step.done) { ended = true; break; }
      const value = (async () => f(step.value, { signal: controller.signal }))();
      value.catch(() => {});
      running.push(value);
    }
  };
  const stopped = () => new Promise((resolve, reject) => {
    const fail = () => reject(new AbortError());
    if (controller.signal.aborted) fail(); else controller.signal.addEventListener('abort', fail, { once: true });
  });
  const aborted = options.signal ? stopped() : null;
  if (aborted) aborted.catch(() => {});
  return generate(this, options, async (iterator) => {
    await (aborted ? Promise.race([start(iterator), aborted]) : start(iterator));
    if (!running.length) return undefined;
    const head = running.shift();
    return [await (aborted ? Promise.race([head, aborted]) : head)];
  });
}

const none = Symbol('none');

function filter(f, options) {
  checkFunction(f);
  const picked = map.call(this, async (value, context) => ((await f(value, context)) ? value : none), options);
  return generate(picked, {}, async (iterator) => {
    const step = await iterator.next();
    return step.done ? undefined : step.value === none ? [] : [step.value];
  });
}

function flatMap(f, options) {
  const mapped = map.call(this, f, options);
  return generate(mapped, {}, async (iterator) => {
    const step = await iterator.next();
    if (step.done) return undefined;
    const out = [];
    const inner = step.value[Symbol.asyncIterator] ? step.value[Symbol.asyncIterator]() : step.value[Symbol.iterator]();
    for (let s = await inner.next(); !s.done; s = await inner.next()) out.push(await s.value);
    return out;
  });
}

// each calls f with every value until it returns true.
async function each(stream, options, f) {
  const { signal } = options;
  const fail = () => new AbortError(undefined, { cause: signal.reason });
  if (signal && signal.aborted) throw fail();
  const iterator = stream[Symbol.asyncIterator]();
  for (;;) {
    const step = await (signal ? Promise.race([iterator.next(), new Promise((_, reject) => signal.addEventListener('abort', () => reject(fail()), { once: true }))]) : iterator.next());
    if (signal && signal.aborted) throw fail();
    if (step.done) return;
    if (await f(step.value)) break;
  }
  await iterator.return();
}

async function forEach(f, options) {
  checkFunction(f);
  const done = map.call(this, async (value, context) => { await f(value, context); return none; }, options);
  await each(done, {}, () => false);
}

async function some(f, options) {
  checkFunction(f);
  let found = false;
  await each(filter.call(this, f, options), {}, () => { found = true; return true; });
  return found;
}

async function every(f, options) {
  checkFunction(f);
  return !(await some.call(this, async (...args) => !(await f(...args)), options));
}

async function find(f, options) {
  checkFunction(f);
  let found;
  await each(filter.call(this, f, options), {}, (value) => { found = value; return true; });
  return found;
}

async function toArray(options) {
  options = checkOptions(options);
  const out = [];
  await each(this, options, (value) => { out.push(value); });
  return out;
}

async function reduce(f, initial, options) {
  checkFunction(f, 'reducer');
  options = checkOptions(options);
  let has = arguments.length > 1;
  if (options.signal && options.signal.aborted) {
    const err = new AbortError(undefined, { cause: options.signal.reason });
    this.once('error', () => {});
    this.destroy(err);
    throw err;
  }
  let value = initial;
  const controller = new (require('abort').AbortController)();
  let got = false;
  await each(this, options, async (item) => {
    got = true;
    if (!has) { has = true; value = item; return; }
    value = await f(value, item, { signal: controller.signal });
  });
  if (!got && !has) throw make('ERR_MISSING_ARGS', 'reduce');
  return value;
}

function countOf(number) {
  number = Number(number);
  if (Number.isNaN(number)) return 0;
  if (number < 0) raise('ERR_OUT_OF_RANGE', 'number', '>= 0', number);
  return number;
}

function drop(number, options) {
  options = checkOptions(options);
  let left = countOf(number);
  return generate(this, options, async (iterator) => {
    const step = await iterator.next();
    if (step.done) return undefined;
    return left-- > 0 ? [] : [step.value];
  });
}

function take(number, options) {
  options = checkOptions(options);
  let left = countOf(number);
  return generate(this, options, async (iterator) => {
    if (left-- <= 0) return undefined;
    const step = await iterator.next();
    return step.done ? undefined : [step.value];
  });
}

function asIndexedPairs(options) {
  options = checkOptions(options);
  let index = 0;
  return generate(this, options, async (iterator) => {
    const step = await iterator.next();
    return step.done ? undefined : [[index++, step.value]];
  });
}

module.exports = { map, filter, flatMap, forEach, some, every, find, toArray, reduce, drop, take, asIndexedPairs };
