'use strict';
// Buffer: a Uint8Array with Node's methods. Text is converted in Go.
const encode = sys('buffer.encode');
const decode = sys('buffer.decode');
const compareBytes = sys('buffer.compare');
const indexOfBytes = sys('buffer.indexOf');
const lastIndexOfBytes = sys('buffer.lastIndexOf');
const kMaxLength = 2 ** 31 - 1;
const encodings = {
  utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', latin1: 'latin1',
  binary: 'latin1', ascii: 'ascii', utf16le: 'utf16le', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le',
};

function fail(Type, code, message) {
  const err = new Type(message);
  err.code = code;
  throw err;
}

function encodingOf(name) {
  if (name === undefined || name === null || name === '') return 'utf8';
  const found = encodings[name] || encodings[String(name).toLowerCase()];
  if (!found) fail(TypeError, 'ERR_UNKNOWN_ENCODING', 'Unknown encoding: ' + name);
  return found;
}

function checkSize(size) {
  if (typeof size !== 'number') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "size" argument must be of type number. Received ' + describe(size));
  if (!(size >= 0 && size <= kMaxLength)) fail(RangeError, 'ERR_INVALID_ARG_VALUE', `The argument 'size' is invalid. Received ${size}`);
}

function describe(value) {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'function') return 'function ' + value.name;
  if (typeof value === 'object') return 'an instance of ' + (value.constructor && value.constructor.name || 'Object');
  return `type ${typeof value} (${typeof value === 'string' ? "'" + value + "'" : String(value)})`;
}

const wrap = (view) => Object.setPrototypeOf(view, Buffer.prototype);
const fromBytes = (buffer) => wrap(new Uint8Array(buffer));
const asBytes = (view) => (view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength));

function Buffer(value, encodingOrOffset, length) {
  if (typeof value === 'number') return Buffer.alloc(value);
  return Buffer.from(value, encodingOrOffset, length);
}
Object.setPrototypeOf(Buffer, Uint8Array);
Buffer.prototype = Object.create(Uint8Array.prototype, {
  constructor: { value: Buffer, writable: true, configurable: true },
});
const proto = Buffer.prototype;
Buffer.poolSize = 8192;

const hidden = (target, methods) => {
  for (const key of Object.keys(methods)) {
    Object.defineProperty(target, key, { value: methods[key], writable: true, configurable: true });
  }
};

hidden(Buffer, {
  from(value, encodingOrOffset, length) {
    if (typeof value === 'string') return fromBytes(encode(value, encodingOf(encodingOrOffset)));
    if (value === null || value === undefined || typeof value !== 'object') return badSource(value);
    if (value instanceof ArrayBuffer) return fromArrayBuffer(value, encodingOrOffset, length);
    const primitive = value.valueOf && value.valueOf();
    if (primitive !== null && primitive !== undefined && primitive !== value) return Buffer.from(primitive, encodingOrOffset, length);
    if (value.type === 'Buffer' && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
    if (ArrayBuffer.isView(value) && value instanceof Uint8Array) return wrap(Uint8Array.prototype.slice.call(asPlain(value)));
    if (typeof value.length === 'number') return wrap(new Uint8Array(Array.prototype.slice.call(value)));
    if (typeof value[Symbol.toPrimitive] === 'function') return Buffer.from(value[Symbol.toPrimitive]('string'), encodingOrOffset);
    return badSource(value);
  },
  of(...items) { return wrap(new Uint8Array(items)); },
  alloc(size, fill, encoding) {
    checkSize(size);
    const out = wrap(new Uint8Array(size));
    return fill !== undefined && fill !== 0 && size > 0 ? out.fill(fill, encoding) : out;
  },
  allocUnsafe(size) { checkSize(size); return wrap(new Uint8Array(size)); },
  allocUnsafeSlow(size) { checkSize(size); return wrap(new Uint8Array(size)); },
  isBuffer(value) { return value instanceof Buffer; },
  isEncoding(name) { return typeof name === 'string' && (encodings[name.toLowerCase()] !== undefined); },
  byteLength(value, encoding) {
    if (typeof value === 'string') return encode(value, encodingOf(encoding)).byteLength;
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
    return fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "string" argument must be of type string or an instance of Buffer or ArrayBuffer. Received ' + describe(value));
  },
  compare(a, b) { return compareBytes(checkBytes(a, 'buf1'), checkBytes(b, 'buf2')); },
  concat(list, total) {
    if (!Array.isArray(list)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "list" argument must be an instance of Array. Received ' + describe(list));
    if (total === undefined) total = list.reduce((sum, item) => sum + item.length, 0);
    const out = Buffer.alloc(total);
    let at = 0;
    for (const item of list) {
      checkBytes(item, 'list');
      const part = at + item.length > total ? item.subarray(0, total - at) : item;
      Uint8Array.prototype.set.call(out, part, at);
      at += part.length;
    }
    return out;
  },
});
Object.defineProperty(Buffer, Symbol.species, { get() { return Buffer; } });

const asPlain = (view) => new Uint8Array(view.buffer, view.byteOffset, view.length);

function badSource(value) {
  fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object. Received ' + describe(value));
}

function fromArrayBuffer(buffer, offset, length) {
  offset = offset === undefined ? 0 : +offset || 0;
  if (offset > buffer.byteLength) fail(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', '"offset" is outside of buffer bounds');
  const room = buffer.byteLength - offset;
  if (length === undefined) return wrap(new Uint8Array(buffer, offset));
  length = Math.max(0, +length || 0);
  if (length > room) fail(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', '"length" is outside of buffer bounds');
  return wrap(new Uint8Array(buffer, offset, length));
}

function checkBytes(value, name) {
  if (!(value instanceof Uint8Array)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', `The "${name}" argument must be an instance of Buffer or Uint8Array. Received ` + describe(value));
  return value;
}

// clamp resolves an index of slice and its like.
function clamp(value, length, fallback) {
  if (value === undefined) return fallback;
  value = Math.trunc(+value) || 0;
  if (value < 0) return Math.max(0, length + value);
  return Math.min(value, length);
}

const toNeedle = (value, encoding) => {
  if (typeof value === 'string') return fromBytes(encode(value, encodingOf(encoding)));
  if (typeof value === 'number') return new Uint8Array([value]);
  return checkBytes(value, 'value');
};

function search(buffer, value, from, encoding, last) {
  if (typeof from === 'string') { encoding = from; from = undefined; }
  const needle = toNeedle(value, encoding);
  if (!last) {
    const start = clamp(from, buffer.length, 0);
    const at = indexOfBytes(asPlain(buffer.subarray(start)), needle);
    return at < 0 ? -1 : at + start;
  }
  let end = from === undefined || Number.isNaN(+from) ? buffer.length : +from < 0 ? buffer.length + +from : +from;
  if (end < 0) return -1;
  return lastIndexOfBytes(asPlain(buffer.subarray(0, Math.min(buffer.length, end + needle.length))), needle);
}

hidden(proto, {
  toString(encoding, start, end) {
    if (arguments.length === 0) return decode(this, 'utf8');
    const from = start === undefined ? 0 : Math.min(this.length, Math.max(0, Math.trunc(+start) || 0));
    const to = end === undefined ? this.length : Math.min(this.length, Math.max(0, Math.trunc(+end) || 0));
    if (to <= from) return '';
    const view = from === 0 && to === this.length ? this : this.subarray(from, to);
    return decode(view, encodingOf(encoding));
  },
  toLocaleString(encoding) { return this.toString(encoding); },
  toJSON() { return { type: 'Buffer', data: Array.from(this) }; },
  equals(other) {
    if (!(other instanceof Uint8Array)) fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "otherBuffer" argument must be an instance of Buffer or Uint8Array. Received ' + describe(other));
    return compareBytes(this, other) === 0;
  },
  compare(other, tStart, tEnd, sStart, sEnd) {
    checkBytes(other, 'target');
    return compareBytes(this.subarray(sStart || 0, sEnd === undefined ? this.length : sEnd),
      other.subarray(tStart || 0, tEnd === undefined ? other.length : tEnd));
  },
  subarray(start, end) {
    const from = clamp(start, this.length, 0);
    const to = clamp(end, this.length, this.length);
    return wrap(new Uint8Array(this.buffer, this.byteOffset + from, Math.max(0, to - from)));
  },
  slice(start, end) { return this.subarray(start, end); },
  copy(target, tStart = 0, sStart = 0, sEnd = this.length) {
    const part = this.subarray(sStart, Math.min(sEnd, sStart + Math.max(0, target.length - tStart)));
    if (tStart >= target.length) return 0;
    Uint8Array.prototype.set.call(target, part, tStart);
    return part.length;
  },
  fill(value, start, end, encoding) {
    if (typeof start === 'string') { encoding = start; start = undefined; end = undefined; }
    else if (typeof end === 'string') { encoding = end; end = undefined; }
    const from = start === undefined ? 0 : +start;
    const to = end === undefined ? this.length : +end;
    if (typeof value === 'number' || typeof value === 'boolean') return Uint8Array.prototype.fill.call(this, +value & 255, from, to);
    const bytes = typeof value === 'string' ? new Uint8Array(encode(value, encodingOf(encoding))) : checkBytes(value, 'value');
    if (bytes.length === 0) {
      if (typeof value === 'string' && value === '') return Uint8Array.prototype.fill.call(this, 0, from, to);
      fail(TypeError, 'ERR_INVALID_ARG_VALUE', "The argument 'value' is invalid.");
    }
    if (bytes.length === 1) return Uint8Array.prototype.fill.call(this, bytes[0], from, to);
    for (let i = from; i < to; i++) this[i] = bytes[(i - from) % bytes.length];
    return this;
  },
  write(text, offset, length, encoding) {
    if (typeof offset === 'string') { encoding = offset; offset = undefined; length = undefined; }
    else if (typeof length === 'string') { encoding = length; length = undefined; }
    const at = offset === undefined ? 0 : +offset;
    if (at < 0 || at > this.length) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "offset" is out of range. It must be >= 0 && <= ${this.length}. Received ${at}`);
    const room = Math.min(this.length - at, length === undefined ? Infinity : +length);
    let bytes = new Uint8Array(encode(text, encodingOf(encoding)));
    if (bytes.length > room) {
      let end = room;
      if (encodingOf(encoding) === 'utf8') while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
      bytes = bytes.subarray(0, end);
    }
    Uint8Array.prototype.set.call(this, bytes, at);
    return bytes.length;
  },
  indexOf(value, from, encoding) { return search(this, value, from, encoding, false); },
  lastIndexOf(value, from, encoding) { return search(this, value, from, encoding, true); },
  includes(value, from, encoding) { return search(this, value, from, encoding, false) !== -1; },
  swap16() { return swap(this, 2); },
  swap32() { return swap(this, 4); },
  swap64() { return swap(this, 8); },
});
Object.defineProperty(proto, 'parent', { get() { return this.buffer; } });
Object.defineProperty(proto, 'offset', { get() { return this.byteOffset; } });

function swap(buffer, size) {
  if (buffer.length % size) fail(RangeError, 'ERR_INVALID_BUFFER_SIZE', `Buffer size must be a multiple of ${size * 8}-bits`);
  for (let i = 0; i < buffer.length; i += size) Uint8Array.prototype.reverse.call(asPlain(buffer.subarray(i, i + size)));
  return buffer;
}

function checkOffset(buffer, offset, size) {
  if (typeof offset !== 'number') fail(TypeError, 'ERR_INVALID_ARG_TYPE', 'The "offset" argument must be of type number. Received ' + describe(offset));
  if (!Number.isInteger(offset)) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "offset" is out of range. It must be an integer. Received ${offset}`);
  if (buffer.length < size) fail(RangeError, 'ERR_BUFFER_OUT_OF_BOUNDS', 'Attempt to access memory outside buffer bounds');
  if (offset < 0 || offset + size > buffer.length) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "offset" is out of range. It must be >= 0 and <= ${buffer.length - size}. Received ${offset}`);
}

function checkValue(value, min, max) {
  if (value < min || value > max) fail(RangeError, 'ERR_OUT_OF_RANGE', `The value of "value" is out of range. It must be >= ${min}${typeof min === 'bigint' ? 'n' : ''} and <= ${max}${typeof max === 'bigint' ? 'n' : ''}. Received ${value}${typeof value === 'bigint' ? 'n' : ''}`);
}

const view = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);

// accessors defines read and write for one kind of number.
function accessors(name, size, kind, little, min, max, alias) {
  const read = function (offset = 0) {
    checkOffset(this, offset, size);
    return view(this)['get' + kind](offset, little);
  };
  const write = function (value, offset = 0) {
    if (min !== undefined) checkValue(value, min, max);
    checkOffset(this, offset, size);
    view(this)['set' + kind](offset, value, little);
    return offset + size;
  };
  const pair = { ['read' + name]: read, ['write' + name]: write };
  if (alias) Object.assign(pair, { ['read' + alias]: read, ['write' + alias]: write });
  hidden(proto, pair);
}

accessors('UInt8', 1, 'Uint8', false, 0, 255, 'Uint8');
accessors('Int8', 1, 'Int8', false, -128, 127);
for (const [suffix, little] of [['LE', true], ['BE', false]]) {
  accessors('UInt16' + suffix, 2, 'Uint16', little, 0, 65535, 'Uint16' + suffix);
  accessors('Int16' + suffix, 2, 'Int16', little, -32768, 32767);
  accessors('UInt32' + suffix, 4, 'Uint32', little, 0, 4294967295, 'Uint32' + suffix);
  accessors('Int32' + suffix, 4, 'Int32', little, -2147483648, 2147483647);
  accessors('BigUInt64' + suffix, 8, 'BigUint64', little, 0n, 2n ** 64n - 1n, 'BigUint64' + suffix);
  accessors('BigInt64' + suffix, 8, 'BigInt64', little, -(2n ** 63n), 2n ** 63n - 1n);
  accessors('Float' + suffix, 4, 'Float32', little);
  accessors('Double' + suffix, 8, 'Float64', little);
}

// Numbers of 1 to 6 bytes.
function readInt(buffer, offset, size, little, signed) {
  checkOffset(buffer, offset, size);
  let value = 0;
  for (let i = 0; i < size; i++) value = value * 256 + buffer[offset + (little ? size - 1 - i : i)];
  return signed && value >= 2 ** (8 * size - 1) ? value - 2 ** (8 * size) : value;
}

function writeInt(buffer, value, offset, size, little, signed) {
  value = +value;
  checkValue(value, signed ? -(2 ** (8 * size - 1)) : 0, signed ? 2 ** (8 * size - 1) - 1 : 2 ** (8 * size) - 1);
  checkOffset(buffer, offset, size);
  if (value < 0) value += 2 ** (8 * size);
  for (let i = 0; i < size; i++) {
    buffer[offset + (little ? i : size - 1 - i)] = value % 256;
    value = Math.floor(value / 256);
  }
  return offset + size;
}

for (const [suffix, little] of [['LE', true], ['BE', false]]) {
  for (const [kind, signed] of [['UInt', false], ['Uint', false], ['Int', true]]) {
    hidden(proto, {
      ['read' + kind + suffix](offset, size) { return readInt(this, offset, size, little, signed); },
      ['write' + kind + suffix](value, offset, size) { return writeInt(this, value, offset, size, little, signed); },
    });
  }
}

for (const name of ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'ascii', 'ucs2', 'utf16le']) {
  hidden(proto, {
    [name + 'Slice'](start, end) { return this.toString(name, start, end); },
    [name + 'Write'](text, offset, length) { return this.write(text, offset, length, name); },
  });
}

const inspectName = Symbol.for('nodejs.util.inspect.custom');
Object.defineProperty(proto, inspectName, {
  value() {
    const shown = this.subarray(0, 50).toString('hex').replace(/(..)(?=.)/g, '$1 ');
    const more = this.length - 50;
    return `<Buffer${shown ? ' ' + shown : ''}${more > 0 ? ` ... ${more} more byte${more > 1 ? 's' : ''}` : ''}>`;
  },
});

function invalidCharacter() {
  const { DOMException } = require('abort');
  throw new DOMException('Invalid character', 'InvalidCharacterError');
}

class Blob {
  constructor(parts = [], options = {}) {
    this._bytes = Buffer.concat(parts.map((part) => (part instanceof Blob ? part._bytes
      : ArrayBuffer.isView(part) || part instanceof ArrayBuffer ? Buffer.from(part.buffer || part, part.byteOffset, part.byteLength) : Buffer.from(String(part)))));
    Object.defineProperty(this, '_bytes', { enumerable: false });
    this.size = this._bytes.length;
    this.type = options.type ? String(options.type).toLowerCase() : '';
  }
  async text() { return this._bytes.toString(); }
  async arrayBuffer() { return Uint8Array.prototype.slice.call(asPlain(this._bytes)).buffer; }
  slice(start, end, type = '') { return new Blob([this._bytes.subarray(start, end)], { type }); }
}

module.exports = {
  Buffer,
  Blob,
  SlowBuffer: Buffer,
  kMaxLength,
  constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 2 ** 29 - 24 },
  INSPECT_MAX_BYTES: 50,
  atob(text) {
    const clean = String(text).replace(/[\t\n\f\r ]/g, '');
    const bare = clean.length % 4 === 0 ? clean.replace(/={1,2}$/, '') : clean;
    if (bare.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(bare)) invalidCharacter();
    return decode(new Uint8Array(encode(bare, 'base64')), 'latin1');
  },
  btoa(text) {
    text = String(text);
    for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) invalidCharacter();
    return decode(new Uint8Array(encode(text, 'latin1')), 'base64');
  },
  transcode: (source, from, to) => Buffer.from(Buffer.from(source).toString(from), to),
};
