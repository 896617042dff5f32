'use strict';
// TextEncoder and TextDecoder of the WHATWG Encoding standard.
const encode = sys('buffer.encode');
const decode = sys('buffer.decode');
const labelOf = sys('text.label');

class TextEncoder {
  get encoding() { return 'utf-8'; }
  encode(text = '') { return new Uint8Array(encode(String(text), 'utf8')); }
  encodeInto(text, target) {
    let read = 0;
    let written = 0;
    for (const char of String(text)) {
      const bytes = new Uint8Array(encode(char, 'utf8'));
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }
}

function asBytes(input) {
  if (input === undefined) return new Uint8Array(0);
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  const err = new TypeError('The "input" argument must be an instance of ArrayBuffer or ArrayBufferView.');
  err.code = 'ERR_INVALID_ARG_TYPE';
  throw err;
}

// tail returns how many bytes at the end begin a character of UTF-8.
function tail(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const b = bytes[bytes.length - back];
    if ((b & 0xc0) === 0x80) continue;
    const need = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;
    return need > back ? back : 0;
  }
  return 0;
}

class TextDecoder {
  constructor(label = 'utf-8', options = {}) {
    const name = labelOf(String(label).trim().toLowerCase());
    if (!name) {
      const err = new RangeError(`The "${label}" encoding is not supported`);
      err.code = 'ERR_ENCODING_NOT_SUPPORTED';
      throw err;
    }
    const hidden = { encoding: name, fatal: !!options.fatal, ignoreBOM: !!options.ignoreBOM, rest: new Uint8Array(0), begun: false };
    for (const key of Object.keys(hidden)) {
      Object.defineProperty(this, key, { value: hidden[key], writable: key === 'rest' || key === 'begun', enumerable: false });
    }
  }
  decode(input, options = {}) {
    let bytes = asBytes(input);
    if (this.rest.length) {
      const joined = new Uint8Array(this.rest.length + bytes.length);
      joined.set(this.rest);
      joined.set(bytes, this.rest.length);
      bytes = joined;
    }
    let keep = 0;
    if (options.stream) keep = this.encoding === 'utf-8' ? tail(bytes) : this.encoding.startsWith('utf-16') ? bytes.length % 2 : 0;
    this.rest = bytes.slice(bytes.length - keep);
    bytes = bytes.subarray(0, bytes.length - keep);
    let text;
    if (this.encoding === 'utf-8') {
      if (this.fatal && !sys('text.valid')(bytes)) {
        const err = new TypeError('The encoded data was not valid for encoding utf-8');
        err.code = 'ERR_ENCODING_INVALID_ENCODED_DATA';
        throw err;
      }
      text = decode(bytes, 'utf8');
    } else if (this.encoding === 'utf-16le') {
      text = decode(bytes, 'utf16le');
    } else {
      text = sys('text.decode')(bytes, this.encoding);
    }
    if (!this.begun && !this.ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
    this.begun = !!options.stream && (this.begun || bytes.length > 0);
    return text;
  }
}

module.exports = { TextEncoder, TextDecoder };
