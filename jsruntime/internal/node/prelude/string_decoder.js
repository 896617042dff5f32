'use strict';
// StringDecoder keeps the bytes of incomplete characters.
const { Buffer } = require('buffer');
const { raise } = require('codes');
const names = { 'utf-8': 'utf8', ucs2: 'utf16le', 'ucs-2': 'utf16le', 'utf-16le': 'utf16le', binary: 'latin1' };

const decode = sys('buffer.decode');
const kRest = Symbol('kRest');
const empty = Buffer.alloc(0);

function StringDecoder(encoding) {
  const name = encoding === undefined || encoding === null || encoding === '' ? 'utf8' : typeof encoding === 'string' ? encoding.toLowerCase() : encoding;
  if (!Buffer.isEncoding(name)) raise('ERR_UNKNOWN_ENCODING', encoding);
  this.encoding = names[name] || name;
  this[kRest] = empty;
}

// cut returns how many bytes at the end are the start of a character, of which
// held bytes were kept from before.
function cut(bytes, length, encoding, held) {
  if (encoding === 'base64' || encoding === 'base64url') return length % 3;
  if (encoding === 'utf16le') {
    if (length % 2) return held >= 2 && length < 4 ? length : 1;
    const last = bytes[length - 1];
    return length >= 2 && last >= 0xd8 && last <= 0xdb ? 2 : 0;
  }
  if (encoding !== 'utf8') return 0;
  for (let back = 1; back <= Math.min(3, length); back++) {
    const b = bytes[length - back];
    if ((b & 0xc0) === 0x80) continue;
    const need = b >= 0xf5 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc2 ? 2 : 1;
    return need > back && validStart(bytes.subarray(length - back), b) ? back : 0;
  }
  return 0;
}

// validStart reports whether bytes can start a character, because some second
// bytes are never valid.
function validStart(part, first) {
  if (part.length < 2) return true;
  const second = part[1];
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second <= 0x9f;
  if (first === 0xf0) return second >= 0x90;
  if (first === 0xf4) return second <= 0x8f;
  return true;
}

StringDecoder.prototype.write = function write(chunk) {
  if (typeof chunk === 'string') return chunk;
  if (!ArrayBuffer.isView(chunk)) raise('ERR_INVALID_ARG_TYPE', 'buf', ['Buffer', 'TypedArray', 'DataView'], chunk);
  let bytes = chunk instanceof Uint8Array ? chunk : new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  if (this[kRest] !== empty) bytes = Buffer.concat([this[kRest], bytes]);
  const { length } = bytes;
  const keep = cut(bytes, length, this.encoding, this[kRest].length);
  this[kRest] = keep ? Buffer.from(bytes.subarray(length - keep)) : empty;
  return decode(keep ? bytes.subarray(0, length - keep) : bytes, this.encoding);
};

StringDecoder.prototype.end = function end(chunk) {
  const text = chunk === undefined ? '' : this.write(chunk);
  const rest = this[kRest];
  if (rest === empty) return text;
  this[kRest] = empty;
  return text + decode(rest, this.encoding);
};
StringDecoder.prototype.text = function text(chunk, offset) {
  this[kRest] = empty;
  return this.write(chunk.slice(offset));
};
Object.defineProperties(StringDecoder.prototype, {
  lastChar: { get() { const out = Buffer.alloc(4); this[kRest].copy(out); return out; }, configurable: true, enumerable: true },
  lastNeed: { get() { return needOf(this[kRest], this.encoding) - this[kRest].length; }, configurable: true, enumerable: true },
  lastTotal: { get() { return needOf(this[kRest], this.encoding); }, configurable: true, enumerable: true },
});

function needOf(rest, encoding) {
  if (rest.length === 0) return 0;
  if (encoding === 'utf8') return rest[0] >= 0xf0 ? 4 : rest[0] >= 0xe0 ? 3 : 2;
  if (encoding === 'utf16le') return rest.length >= 2 ? 4 : 2;
  return 3;
}

module.exports = { StringDecoder };
