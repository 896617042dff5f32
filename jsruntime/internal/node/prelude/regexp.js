'use strict';
// The class RegExp. Its methods are implemented by the runtime.
const Native = sys('regexp.native')();
const { prototype } = Native;
const make = sys('regexp.make');
const source = sys('regexp.source');
const classOf = sys('classOf');
const last = sys('regexp.last');
const forget = sys('regexp.forget');
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

function isRegExp(value) {
  if (!isObject(value)) return false;
  const matcher = value[Symbol.match];
  return matcher === undefined ? classOf(value) === 'RegExp' : Boolean(matcher);
}

function Wrapped(pattern, flags) {
  // In the engine, functions that a constructor calls see its new.target.
  const target = this instanceof Wrapped ? new.target : undefined;
  const like = isRegExp(pattern);
  if (!target && like && flags === undefined && pattern.constructor === Wrapped) return pattern;
  if (isObject(pattern) && classOf(pattern) === 'RegExp') {
    const known = source(pattern);
    if (flags === undefined) [, flags] = known;
    [pattern] = known;
  } else if (like) {
    const text = pattern.source;
    if (flags === undefined) flags = pattern.flags;
    pattern = text;
  }
  return create(pattern === undefined ? '' : `${pattern}`, flags === undefined ? '' : `${flags}`, target || Wrapped);
}

// engine returns the flags that the engine knows.
const engine = (flags) => flags.replace('d', '').replace('v', '');

function create(text, flags, target) {
  return Reflect.construct(Native, [make(text, flags), engine(flags)], target);
}

const compile = prototype.compile;
const { matchAll } = Symbol;
const methods = {
  compile(pattern, flags) {
    if (classOf(this) !== 'RegExp') throw new TypeError(`Method RegExp.prototype.compile called on incompatible receiver ${String(this)}`);
    if (isObject(pattern) && classOf(pattern) === 'RegExp') {
      if (flags !== undefined) throw new TypeError('Invalid flags supplied to RegExp constructor');
      [pattern, flags] = source(pattern);
    }
    pattern = pattern === undefined ? '' : `${pattern}`;
    flags = flags === undefined ? '' : `${flags}`;
    const mark = make(pattern, flags);
    forget();
    return compile.call(this, mark, engine(flags));
  },
  [matchAll](text) {
    if (!isObject(this)) throw new TypeError(`RegExp.prototype.@@matchAll called on incompatible receiver ${String(this)}`);
    text = `${text}`;
    const { constructor } = this;
    let Class = constructor === undefined ? undefined : constructor;
    if (Class !== undefined) {
      if (!isObject(Class)) throw new TypeError('The .constructor property is not an object');
      Class = Class[Symbol.species];
    }
    const flags = `${this.flags}`;
    const matcher = new (Class === undefined || Class === null ? Wrapped : Class)(this, flags);
    const { lastIndex } = this;
    matcher.lastIndex = Math.min(Math.max(Math.trunc(Number(lastIndex)) || 0, 0), Number.MAX_SAFE_INTEGER);
    return iterate(matcher, text, flags.includes('g'), flags.includes('u') || flags.includes('v'));
  },
};
for (const key of ['compile', matchAll]) Object.defineProperty(prototype, key, { ...Object.getOwnPropertyDescriptor(methods, key), enumerable: false });

// Iterators share the prototype of the engine's own, except for next.
const iteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));
const states = new WeakMap();
const Iterator = Object.create(iteratorPrototype, {
  next: {
    value: {
      next() {
        const state = states.get(this);
        if (!state) throw new TypeError(`Method RegExp String Iterator.prototype.next called on incompatible receiver ${String(this)}`);
        return step(state);
      },
    }.next,
    writable: true, configurable: true,
  },
  [Symbol.toStringTag]: { value: 'RegExp String Iterator', configurable: true },
});

function iterate(matcher, text, global, full) {
  const out = Object.create(Iterator);
  states.set(out, { matcher, text, global, full, done: false });
  return out;
}

function step(state) {
  if (state.done) return { value: undefined, done: true };
  const { matcher, text, full } = state;
  const { exec } = matcher;
  const match = typeof exec === 'function' ? exec.call(matcher, text) : prototype.exec.call(matcher, text);
  if (match !== null && !isObject(match)) throw new TypeError('object null is not a function');
  if (match === null) { state.done = true; return { value: undefined, done: true }; }
  if (!state.global) { state.done = true; return { value: match, done: false }; }
  if (`${match[0]}` === '') {
    const at = Math.min(Math.max(Math.trunc(Number(matcher.lastIndex)) || 0, 0), Number.MAX_SAFE_INTEGER);
    matcher.lastIndex = at + (full && text.codePointAt(at) > 0xffff ? 2 : 1);
  }
  return { value: match, done: false };
}

// The parts of the last match, for old code.
const parts = { input: '$_', lastMatch: '$&', lastParen: '$+', leftContext: '$`', rightContext: "$'" };
for (let i = 1; i <= 9; i++) Object.defineProperty(Wrapped, '$' + i, { get: () => last(String(i)), set() {}, configurable: true });
for (const name of Object.keys(parts)) {
  for (const key of [name, parts[name]]) Object.defineProperty(Wrapped, key, { get: () => last(name), set() {}, configurable: true });
}

Object.defineProperties(Wrapped, {
  prototype: { value: prototype, writable: false },
  name: { value: 'RegExp' },
  length: { value: 2 },
  [Symbol.species]: {
    get: Object.getOwnPropertyDescriptor({ get [Symbol.species]() { return this; } }, Symbol.species).get,
    configurable: true,
  },
});
Object.defineProperty(prototype, 'constructor', { value: Wrapped, writable: true, configurable: true, enumerable: false });
exports.RegExp = Wrapped;
