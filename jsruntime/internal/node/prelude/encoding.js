'use strict';
// TextEncoder and TextDecoder of the WHATWG Encoding standard.
const { raise } = require('codes');
const { validateObject } = require('validators');
const encode = sys('buffer.encode');
const decodeChunk = sys('text.decode');
const labelOf = sys('text.label');
const inspectName = Symbol.for('nodejs.util.inspect.custom');

class TextEncoder {
  #own = true;
  static is(value) { return value !== null && typeof value === 'object' && #own in value; }
  get encoding() { checkEncoder(this); return 'utf-8'; }
  encode(text = '') { checkEncoder(this); return new Uint8Array(encode(`${text}`, 'utf8')); }
  encodeInto(text, target) {
    checkEncoder(this);
    if (typeof text !== 'string') text = `${text}`;
    if (!(target instanceof Uint8Array)) raise('ERR_INVALID_ARG_TYPE', 'dest', 'Uint8Array', target);
    const [bytes, read] = sys('text.encodeInto')(text, target.length);
    target.set(new Uint8Array(bytes));
    return { read, written: bytes.byteLength };
  }
  [inspectName](depth, options) { return inspectAs(this, 'TextEncoder', {}, depth, options); }
}
const isEncoder = TextEncoder.is;
delete TextEncoder.is;
const checkEncoder = (self) => { if (!isEncoder(self)) raise('ERR_INVALID_THIS', 'TextEncoder'); };

function bytesOf(input) {
  if (input === undefined) return new Uint8Array(0);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (input instanceof ArrayBuffer || Object.prototype.toString.call(input) === '[object SharedArrayBuffer]') return new Uint8Array(input);
  return raise('ERR_INVALID_ARG_TYPE', 'input', ['ArrayBuffer', 'ArrayBufferView'], input);
}

class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #rest = new Uint8Array(0);
  #begun = false;
  #state = 0; // of an encoding with escape sequences
  #streaming = false;
  constructor(label = 'utf-8', options = undefined) {
    const text = `${label}`;
    const trimmed = text.replace(/^[\t\n\f\r ]+|[\t\n\f\r ]+$/g, '');
    const name = /[^\0-\x7f]/.test(trimmed) ? undefined : labelOf(trimmed.toLowerCase());
    if (!name) raise('ERR_ENCODING_NOT_SUPPORTED', text);
    if (options !== undefined) validateObject(options, 'options', { nullable: true, allowArray: true, allowFunction: true });
    this.#encoding = name;
    this.#fatal = !!(options && options.fatal);
    this.#ignoreBOM = !!(options && options.ignoreBOM);
  }
  static is(value) { return value !== null && typeof value === 'object' && #encoding in value; }
  get encoding() { checkDecoder(this); return this.#encoding; }
  get fatal() { checkDecoder(this); return this.#fatal; }
  get ignoreBOM() { checkDecoder(this); return this.#ignoreBOM; }
  decode(input = undefined, options = undefined) {
    checkDecoder(this);
    let bytes = bytesOf(input);
    if (options !== undefined) validateObject(options, 'options', { nullable: true, allowArray: true, allowFunction: true });
    const stream = !!(options && options.stream);
    if (!this.#streaming) { this.#begun = false; this.#state = 0; this.#rest = new Uint8Array(0); }
    this.#streaming = stream;
    if (this.#rest.length) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      joined.set(this.#rest);
      joined.set(bytes, this.#rest.length);
      bytes = joined;
    }
    const [text, used, state] = decodeChunk(bytes, this.#encoding, stream, this.#fatal, this.#state) || [];
    if (text === undefined) {
      this.#streaming = false;
      raise('ERR_ENCODING_INVALID_ENCODED_DATA', this.#encoding);
    }
    this.#rest = bytes.slice(used);
    this.#state = state;
    const unicode = this.#encoding === 'utf-8' || this.#encoding.startsWith('utf-16');
    const strip = unicode && !this.#begun && !this.#ignoreBOM && text.charCodeAt(0) === 0xfeff;
    if (text.length) this.#begun = true;
    return strip ? text.slice(1) : text;
  }
  [inspectName](depth, options) {
    checkDecoder(this);
    return inspectAs(this, 'TextDecoder', { encoding: this.encoding, fatal: this.fatal, ignoreBOM: this.ignoreBOM }, depth, options);
  }
}
const isDecoder = TextDecoder.is;
delete TextDecoder.is;
const checkDecoder = (self) => { if (!isDecoder(self)) raise('ERR_INVALID_THIS', 'TextDecoder'); };

function inspectAs(self, name, shown, depth, options) {
  if (typeof depth === 'number' && depth < 0) return self;
  const { inspect } = require('inspect');
  return name === 'TextEncoder' ? inspect({ encoding: 'utf-8' }, options) : `${name} ${inspect(shown, options)}`;
}
for (const [Class, names] of [[TextEncoder, ['encode', 'encodeInto', 'encoding']], [TextDecoder, ['decode', 'encoding', 'fatal', 'ignoreBOM']]]) {
  for (const name of names) Object.defineProperty(Class.prototype, name, { enumerable: true });
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

module.exports = { TextEncoder, TextDecoder };
