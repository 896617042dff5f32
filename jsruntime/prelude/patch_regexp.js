'use strict';
// RegExp as the language has it now: the flags d and v, \p{...} in patterns that
// are made at run time, and no groups that JavaScript does not have.
const Native = RegExp;
const { prototype } = Native;
const check = sys('regexp.check');
const classOf = sys('classOf');
const getter = (name) => Object.getOwnPropertyDescriptor(prototype, name).get;
const sourceOf = getter('source');
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

// What a regular expression has that the engine's own has not: its text, the flags
// d and v, and one of the engine that matches the same.
const extras = new WeakMap();

function isRegExp(value) {
  if (!isObject(value)) return false;
  const matcher = value[Symbol.match];
  return matcher === undefined ? classOf(value) === 'RegExp' : Boolean(matcher);
}

function checkFlags(flags) {
  const given = new Set(flags);
  if (given.size === flags.length && /^[dgimsuvy]*$/.test(flags) && !(given.has('u') && given.has('v'))) return;
  throw new SyntaxError(`Invalid flags supplied to RegExp constructor '${flags}'`);
}

function Wrapped(pattern, flags) {
  const like = isRegExp(pattern);
  if (!new.target && like && flags === undefined && pattern.constructor === Wrapped) return pattern;
  if (isObject(pattern) && classOf(pattern) === 'RegExp') {
    if (flags === undefined) flags = pattern.flags;
    pattern = extras.has(pattern) ? extras.get(pattern).source : sourceOf.call(pattern);
  } else if (like) {
    const { source } = pattern;
    if (flags === undefined) flags = pattern.flags;
    pattern = source;
  }
  return make(pattern === undefined ? '' : `${pattern}`, flags === undefined ? '' : `${flags}`, new.target || Wrapped);
}

function make(source, flags, target) {
  checkFlags(flags);
  const text = check(source, flags);
  const own = flags.replace('d', '').replace('v', 'u');
  const out = Reflect.construct(Native, [text, own], target);
  if (text === source && own === flags) return out;
  const d = flags.includes('d');
  const v = flags.includes('v');
  extras.set(out, { source, d, v, engine: d || v ? new Native(text, own) : undefined });
  if (v) Object.defineProperty(out, 'unicode', { value: false, configurable: true });
  return d ? require('regexp_indices')(out, Native, text) : out;
}

// escaped writes a text so that it could stand between slashes.
function escaped(source) {
  let inClass = false;
  return source.replace(/\\[\s\S]|[[\]/\n\r\u2028\u2029]/g, (c) => {
    if (c === '[' || c === ']') inClass = c === '[';
    if (c === '/' && !inClass) return '\\/';
    return { '\n': '\\n', '\r': '\\r', '\u2028': '\\u2028', '\u2029': '\\u2029' }[c] || c;
  }) || '(?:)';
}

function flag(name) {
  const { get } = Object.getOwnPropertyDescriptor({
    get [name]() {
      const extra = extras.get(this);
      if (extra) return name === 'hasIndices' ? extra.d : extra.v;
      if (this === prototype) return undefined;
      if (isObject(this) && classOf(this) === 'RegExp') return false;
      throw new TypeError(`RegExp.prototype.${name} getter called on non-RegExp object`);
    },
  }, name);
  Object.defineProperty(prototype, name, { get, set: undefined, configurable: true });
}
flag('hasIndices');
flag('unicodeSets');

const letters = { hasIndices: 'd', global: 'g', ignoreCase: 'i', multiline: 'm', dotAll: 's', unicode: 'u', unicodeSets: 'v', sticky: 'y' };
const methods = {
  get flags() {
    if (!isObject(this)) throw new TypeError('RegExp.prototype.flags getter called on non-object ' + String(this));
    let out = '';
    for (const name of Object.keys(letters)) if (this[name]) out += letters[name];
    return out;
  },
  get source() {
    const extra = extras.get(this);
    return extra ? escaped(extra.source) : sourceOf.call(this).replaceAll('\\u002f', '\\/'); // as V8 writes it
  },
  toString() {
    if (!isObject(this)) throw new TypeError('RegExp.prototype.toString requires that \'this\' be an Object');
    return `/${this.source}/${this.flags}`;
  },
};
// The engine splits fast where it knows the class, and does not know the flags d
// and v.
const split = prototype[Symbol.split];
methods[Symbol.split] = { [Symbol.split](text, limit) { return split.call(extras.get(this)?.engine || this, text, limit); } }[Symbol.split];
const matchAll = prototype[Symbol.matchAll];
methods[Symbol.matchAll] = {
  [Symbol.matchAll](text) { return extras.get(this)?.engine ? matches(this, `${text}`) : matchAll.call(this, text); },
}[Symbol.matchAll];
for (const key of Reflect.ownKeys(methods)) Object.defineProperty(prototype, key, { ...Object.getOwnPropertyDescriptor(methods, key), enumerable: false });

function* matches(regexp, text) {
  const matcher = new Wrapped(regexp, regexp.flags);
  matcher.lastIndex = regexp.lastIndex;
  for (let match = matcher.exec(text); match; match = matcher.global ? matcher.exec(text) : null) {
    yield match;
    if (match[0] === '') matcher.lastIndex += text.codePointAt(matcher.lastIndex) > 0xffff && (matcher.unicode || matcher.unicodeSets) ? 2 : 1;
  }
}

Object.defineProperties(Wrapped, {
  prototype: { value: prototype, writable: false },
  name: { value: 'RegExp' },
  length: { value: 2 },
  [Symbol.species]: {
    get: Object.getOwnPropertyDescriptor({ get [Symbol.species]() { return this === Wrapped ? Native : this; } }, Symbol.species).get,
    configurable: true,
  },
});
Object.defineProperty(prototype, 'constructor', { value: Wrapped, writable: true, configurable: true });
Object.defineProperty(globalThis, 'RegExp', { value: Wrapped, writable: true, configurable: true });
