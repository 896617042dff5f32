'use strict';
// Buffer: a Uint8Array with Node's methods. Text is converted in Go.
const encode = sys('buffer.encode');
const decode = sys('buffer.decode');
const compareBytes = sys('buffer.compare');
const indexOfBytes = sys('buffer.indexOf');
const lastIndexOfBytes = sys('buffer.lastIndexOf');
const kMaxLength = 2 ** 31 - 1;
const { encodings, encodingOf } = require('buffer_encodings');

// Errors and checks are loaded only if an argument is wrong.
const raise = (...args) => require('codes').raise(...args);
const typeError = (name, expected, value) => raise('ERR_INVALID_ARG_TYPE', name, expected, value);

function checkSize(size) {
  if (typeof size !== 'number') typeError('size', 'number', size);
  if (!(size >= 0 && size <= kMaxLength)) raise('ERR_INVALID_ARG_VALUE_RANGE', 'size', size);
}

// checkIndex checks an integer position in a buffer.
function checkIndex(value, name, min = 0, max = Number.MAX_SAFE_INTEGER) {
  if (typeof value !== 'number') typeError(name, 'number', value);
  if (!Number.isInteger(value)) raise('ERR_OUT_OF_RANGE', name, 'an integer', value);
  if (value < min || value > max) raise('ERR_OUT_OF_RANGE', name, `>= ${min} && <= ${max}`, value);
  return value;
}

const wrap = (view) => Object.setPrototypeOf(view, Buffer.prototype);
const fromBytes = (buffer) => wrap(new Uint8Array(buffer));
const setBytes = Uint8Array.prototype.set;
const asBytes = (view) => (view instanceof Uint8Array ? view : new Uint8Array(view.buffer, view.byteOffset, view.byteLength));

function Buffer(value, encodingOrOffset, length) {
  if (typeof value === 'number') {
    if (typeof encodingOrOffset === 'string') typeError('string', 'string', value);
    return Buffer.alloc(value);
  }
  return Buffer.from(value, encodingOrOffset, length);
}
Object.setPrototypeOf(Buffer, Uint8Array);
Buffer.prototype = Object.create(Uint8Array.prototype, {
  constructor: { value: Buffer, writable: true, configurable: true },
});
const proto = Buffer.prototype;
Buffer.poolSize = 8192;

// Methods are enumerable, as in Node, because packages copy them one by one.
const add = Object.assign;

// The functions on Buffer are ordinary functions, because code writes new
// Buffer.from().
add(Buffer, {
  from: function from(value, encodingOrOffset, length) {
    if (typeof value === 'string') return fromText(value, encodingOrOffset);
    if (value === null || value === undefined || typeof value !== 'object') return badSource(value);
    if (value instanceof ArrayBuffer || isShared(value)) return fromArrayBuffer(value, encodingOrOffset, length);
    const primitive = value.valueOf && value.valueOf();
    if (primitive !== null && primitive !== undefined && primitive !== value && (typeof primitive === 'string' || typeof primitive === 'object')) {
      return Buffer.from(primitive, encodingOrOffset, length);
    }
    const made = fromObject(value);
    if (made) return made;
    if (typeof value[Symbol.toPrimitive] === 'function') {
      const text = value[Symbol.toPrimitive]('string');
      if (typeof text === 'string') return fromText(text, encodingOrOffset);
    }
    return badSource(value);
  },
  of: function of(...items) { return wrap(new Uint8Array(items)); },
  alloc: function alloc(size, fill, encoding) {
    checkSize(size);
    const out = wrap(new Uint8Array(size));
    if (fill === undefined || fill === 0 || size === 0) return out;
    if (encoding !== undefined && typeof encoding !== 'string' && typeof fill === 'string') typeError('encoding', 'string', encoding);
    return out.fill(fill, encoding);
  },
  allocUnsafe: function allocUnsafe(size) { checkSize(size); return wrap(new Uint8Array(size)); },
  allocUnsafeSlow: function allocUnsafeSlow(size) { checkSize(size); return wrap(new Uint8Array(size)); },
  isBuffer: function isBuffer(value) { return value instanceof Buffer; },
  isEncoding: function isEncoding(name) { return typeof name === 'string' && name.length !== 0 && encodings[name.toLowerCase()] !== undefined; },
  byteLength: function byteLength(value, encoding) {
    if (typeof value === 'string') {
      const known = typeof encoding === 'string' ? encodings[encoding.toLowerCase()] : undefined;
      if (!known && arguments.length > 2 && arguments[2] === true) return -1;
      if (known === 'utf16le') return value.length * 2;
      if (known === 'latin1' || known === 'ascii') return value.length;
      if (known === 'hex') return value.length >>> 1;
      return known === 'base64' || known === 'base64url' ? base64Length(value) : encode(value, 'utf8').byteLength;
    }
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || isShared(value)) return value.byteLength;
    return typeError('string', ['string', 'Buffer', 'ArrayBuffer'], value);
  },
  compare: function compare(a, b) { return compareBytes(checkBytes(a, 'buf1'), checkBytes(b, 'buf2')); },
  concat: function concat(list, total) {
    if (!Array.isArray(list)) typeError('list', 'Array', list);
    if (list.length === 0) return Buffer.alloc(0);
    if (total === undefined) total = list.reduce((sum, item) => sum + (item && item.length ? item.length : 0), 0);
    else checkIndex(total, 'length');
    const out = wrap(new Uint8Array(total));
    let at = 0;
    list.forEach((item, i) => {
      if (!(item instanceof Uint8Array)) checkBytes(item, `list[${i}]`);
      const { length } = item;
      setBytes.call(out, at + length > total ? asPlain(item).subarray(0, total - at) : item, at);
      at = Math.min(at + length, total);
    });
    return out;
  },
});
Object.defineProperty(Buffer, Symbol.species, { get() { return Buffer; } });

const asPlain = (view) => new Uint8Array(view.buffer, view.byteOffset, view.length);

const isShared = (value) => Object.prototype.toString.call(value) === '[object SharedArrayBuffer]';

function fromText(value, encoding) {
  return fromBytes(encode(value, encodingOf(typeof encoding === 'string' ? encoding : undefined)));
}

// fromObject copies arrays, array-like objects, and the JSON form of a Buffer.
function fromObject(value) {
  if (value instanceof Uint8Array) return wrap(Uint8Array.prototype.slice.call(asPlain(value)));
  if (value.length !== undefined || value.buffer instanceof ArrayBuffer) {
    if (typeof value.length !== 'number' || !(value.length > 0)) return Buffer.alloc(0);
    return wrap(new Uint8Array(Array.prototype.slice.call(value)));
  }
  if (value.type === 'Buffer' && Array.isArray(value.data)) return wrap(new Uint8Array(value.data));
  return undefined;
}

// base64Length returns the length in bytes as Node counts it, without looking
// at the digits.
function base64Length(text) {
  let length = text.length;
  if (length === 0) return 0;
  if (text[length - 1] === '=') length--;
  if (length > 1 && text[length - 1] === '=') length--;
  return Math.floor((length * 3) / 4);
}

function badSource(value) {
  typeError('first argument', ['string', 'Buffer', 'ArrayBuffer', 'Array', 'Array-like Object'], value);
}

function fromArrayBuffer(buffer, offset, length) {
  offset = offset === undefined ? 0 : +offset || 0;
  const room = buffer.byteLength - offset;
  if (room < 0) raise('ERR_BUFFER_OUT_OF_BOUNDS', 'offset');
  if (length === undefined) return wrap(new Uint8Array(buffer, offset));
  length = +length;
  if (length > room) raise('ERR_BUFFER_OUT_OF_BOUNDS', 'length');
  return wrap(new Uint8Array(buffer, offset, length > 0 ? length : 0));
}

function checkBytes(value, name) {
  if (!(value instanceof Uint8Array)) typeError(name, ['Buffer', 'Uint8Array'], value);
  return value;
}

// clamp resolves an index of slice and similar methods.
function clamp(value, length, fallback) {
  if (value === undefined) return fallback;
  value = Math.trunc(+value) || 0;
  if (value < 0) return Math.max(0, length + value);
  return Math.min(value, length);
}

const toNeedle = (value, encoding) => {
  if (typeof value === 'string') return fromBytes(encode(value, encodingOf(encoding)));
  if (typeof value === 'number') return new Uint8Array([value]);
  if (value instanceof Uint8Array) return value;
  return typeError('value', ['number', 'string', 'Buffer', 'Uint8Array'], value);
};

function search(buffer, value, from, encoding, last) {
  if (typeof from === 'string') { encoding = from; from = undefined; }
  const needle = toNeedle(value, encoding);
  const wide = typeof encoding === 'string' && encodings[encoding.toLowerCase()] === 'utf16le' && typeof value !== 'number';
  if (wide && (needle.length < 2 || buffer.length < 2)) return -1;
  if (!last) {
    const start = clamp(from, buffer.length, 0);
    for (let skip = start; ; ) {
      const at = indexOfBytes(asPlain(buffer.subarray(skip)), needle);
      if (at < 0) return -1;
      if (!wide || (at + skip) % 2 === 0) return at + skip;
      skip += at + 1; // UTF-16 is searched by units
    }
  }
  let end = from === undefined || Number.isNaN(+from) ? buffer.length : +from < 0 ? buffer.length + +from : +from;
  if (end < 0) return -1;
  return lastIndexOfBytes(asPlain(buffer.subarray(0, Math.min(buffer.length, end + needle.length))), needle);
}

add(proto, {
  toString(encoding, start, end) {
    const known = encoding === undefined ? 'utf8' : encodings[encoding];
    if (known && start === undefined && end === undefined) return decode(this, known);
    const { length } = this;
    if (start >= length) return '';
    const from = start > 0 ? start | 0 : 0;
    const to = end === undefined || end > length ? length : end | 0;
    if (to <= from) return '';
    const view = from === 0 && to === length ? this : this.subarray(from, to);
    return decode(view, known || encodingOf(encoding === null || encoding === '' ? String(encoding) : encoding));
  },
  toLocaleString(encoding) { return this.toString(encoding); },
  toJSON() { return { type: 'Buffer', data: Array.from(this) }; },
  equals(other) {
    if (!(other instanceof Uint8Array)) typeError('otherBuffer', ['Buffer', 'Uint8Array'], other);
    return this === other || compareBytes(this, other) === 0;
  },
  compare(other, tStart, tEnd, sStart, sEnd) {
    checkBytes(other, 'target');
    tStart = tStart === undefined ? 0 : checkIndex(tStart, 'targetStart');
    tEnd = tEnd === undefined ? other.length : checkIndex(tEnd, 'targetEnd', 0, other.length);
    sStart = sStart === undefined ? 0 : checkIndex(sStart, 'sourceStart');
    sEnd = sEnd === undefined ? this.length : checkIndex(sEnd, 'sourceEnd', 0, this.length);
    if (sStart >= sEnd) return tStart >= tEnd ? 0 : -1;
    if (tStart >= tEnd) return 1;
    return compareBytes(asPlain(this).subarray(sStart, sEnd), asPlain(other).subarray(tStart, tEnd));
  },
  subarray(start, end) {
    const { length } = this;
    const from = clamp(start, length, 0);
    const to = clamp(end, length, length);
    return wrap(new Uint8Array(this.buffer, this.byteOffset + from, Math.max(0, to - from)));
  },
  slice(start, end) { return this.subarray(start, end); },
  copy(target, tStart, sStart, sEnd) {
    if (!(this instanceof Uint8Array)) typeError('source', ['Buffer', 'Uint8Array'], this);
    if (!(target instanceof Uint8Array)) typeError('target', ['Buffer', 'Uint8Array'], target);
    tStart = tStart === undefined ? 0 : Math.trunc(tStart) || 0;
    sStart = sStart === undefined ? 0 : Math.trunc(sStart) || 0;
    sEnd = sEnd === undefined ? this.length : Math.trunc(sEnd) || 0;
    if (tStart < 0) raise('ERR_OUT_OF_RANGE', 'targetStart', '>= 0', tStart);
    if (sStart < 0) raise('ERR_OUT_OF_RANGE', 'sourceStart', '>= 0', sStart);
    if (sStart > this.length) raise('ERR_OUT_OF_RANGE', 'sourceStart', `>= 0 && <= ${this.length}`, sStart);
    if (sEnd < 0) raise('ERR_OUT_OF_RANGE', 'sourceEnd', '>= 0', sEnd);
    if (tStart >= target.length || sStart >= sEnd) return 0;
    const part = asPlain(this).subarray(sStart, Math.min(sEnd, sStart + target.length - tStart));
    setBytes.call(target, part, tStart);
    return part.length;
  },
  fill(value, start, end, encoding) {
    if (typeof value === 'string') {
      if (start === undefined || typeof start === 'string') { encoding = start; start = undefined; } else if (typeof end === 'string') { encoding = end; end = undefined; }
      if (encoding !== undefined && typeof encoding !== 'string') typeError('encoding', 'string', encoding);
    } else {
      encoding = undefined;
      if (typeof start === 'string') start = undefined;
    }
    let from = 0;
    let to = this.length;
    if (start !== undefined) {
      from = checkNumber(start, 'offset', Number.MAX_SAFE_INTEGER);
      if (end !== undefined) to = checkNumber(end, 'end', this.length);
      if (from >= to) return this;
    }
    return fillBytes(this, value, from, to, encoding);
  },
  write(text, offset, length, encoding) {
    if (typeof text !== 'string') typeError('argument', 'string', text);
    if (offset === undefined || (typeof offset === 'string' && length === undefined)) {
      return writeText(this, text, 0, this.length, offset === undefined ? encoding : offset);
    }
    checkIndex(offset, 'offset', 0, this.length);
    const room = this.length - offset;
    if (typeof length === 'string') { encoding = length; length = undefined; }
    if (length !== undefined) checkIndex(length, 'length', 0, this.length);
    return writeText(this, text, offset, length === undefined || length > room ? room : length, encoding);
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

function checkNumber(value, name, max) {
  if (typeof value !== 'number') typeError(name, 'number', value);
  if (!(value >= 0 && value <= max)) raise('ERR_OUT_OF_RANGE', name, `>= 0 && <= ${max}`, value);
  return value;
}

function fillBytes(buffer, value, from, to, encoding) {
  if (typeof value === 'number' || typeof value === 'boolean') return Uint8Array.prototype.fill.call(buffer, +value & 255, from, to);
  if (value === '' || value === null || value === undefined) return Uint8Array.prototype.fill.call(buffer, 0, from, to);
  const bytes = typeof value === 'string' ? new Uint8Array(encode(value, encodingOf(encoding))) : ArrayBuffer.isView(value) ? asBytes(value) : null;
  if (bytes === null) return Uint8Array.prototype.fill.call(buffer, +value & 255, from, to);
  if (bytes.length === 0) raise('ERR_INVALID_ARG_VALUE', 'value', value);
  if (bytes.length === 1) return Uint8Array.prototype.fill.call(buffer, bytes[0], from, to);
  for (let i = from; i < to; i++) buffer[i] = bytes[(i - from) % bytes.length];
  return buffer;
}

// writeText writes only whole characters.
function writeText(buffer, text, at, room, encoding) {
  const name = encodingOf(encoding);
  let bytes = new Uint8Array(encode(text, name));
  if (bytes.length > room) {
    let end = name === 'utf16le' ? room & ~1 : room;
    if (name === 'utf8') while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
    bytes = bytes.subarray(0, end);
  }
  setBytes.call(buffer, bytes, at);
  return bytes.length;
}

function swap(buffer, size) {
  if (buffer.length % size) raise('ERR_INVALID_BUFFER_SIZE', `${size * 8}-bits`);
  for (let i = 0; i < buffer.length; i += size) Uint8Array.prototype.reverse.call(asPlain(buffer.subarray(i, i + size)));
  return buffer;
}

// Methods for numbers and for single encodings are seldom needed.
const seldom = 'readUInt8 readUint8 writeUInt8 writeUint8 readInt8 writeInt8 readUIntLE readUintLE writeUIntLE writeUintLE readUIntBE readUintBE writeUIntBE '
  + 'writeUintBE readIntLE writeIntLE readIntBE writeIntBE readUInt16LE readUint16LE writeUInt16LE writeUint16LE readUInt16BE readUint16BE writeUInt16BE '
  + 'writeUint16BE readInt16LE writeInt16LE readInt16BE writeInt16BE readUInt32LE readUint32LE writeUInt32LE writeUint32LE readUInt32BE readUint32BE '
  + 'writeUInt32BE writeUint32BE readInt32LE writeInt32LE readInt32BE writeInt32BE readBigUInt64LE readBigUint64LE writeBigUInt64LE writeBigUint64LE '
  + 'readBigUInt64BE readBigUint64BE writeBigUInt64BE writeBigUint64BE readBigInt64LE writeBigInt64LE readBigInt64BE writeBigInt64BE readFloatLE '
  + 'writeFloatLE readFloatBE writeFloatBE readDoubleLE writeDoubleLE readDoubleBE writeDoubleBE utf8Slice utf8Write hexSlice hexWrite base64Slice '
  + 'base64Write base64urlSlice base64urlWrite latin1Slice latin1Write asciiSlice asciiWrite ucs2Slice ucs2Write utf16leSlice utf16leWrite';
sys('lazy')(proto, seldom, () => require('buffer_numbers')(proto, add));

const more = () => require('buffer_more');
const inspectName = Symbol.for('nodejs.util.inspect.custom');
function inspectBuffer(depth, options) { return more().inspect(this, options, module.exports.INSPECT_MAX_BYTES); }
Object.defineProperty(proto, inspectName, { value: inspectBuffer, writable: true, configurable: true });
proto.inspect = inspectBuffer;

function SlowBuffer(length) { return Buffer.allocUnsafeSlow(length); }
Object.setPrototypeOf(SlowBuffer, Uint8Array);
Object.setPrototypeOf(SlowBuffer.prototype, Uint8Array.prototype);

module.exports = {
  Buffer,
  SlowBuffer,
  kMaxLength,
  constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 2 ** 29 - 24 },
  INSPECT_MAX_BYTES: 50,
  atob(text) { return more().atob(text); },
  btoa(text) { return more().btoa(text); },
  transcode(source, from, to) { return more().transcode(source, from, to); },
};
for (const name of ['Blob', 'File', 'resolveObjectURL']) {
  Object.defineProperty(module.exports, name, { get: () => require('blob')[name], enumerable: true, configurable: true });
}
