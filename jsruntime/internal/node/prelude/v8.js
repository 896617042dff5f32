'use strict';
// v8: its serialization of values. Functions of its engine, which is not used
// here, are not available.
const { refuse, each } = require('denied');
const { Buffer } = require('buffer');
const { DOMException } = require('abort');

const version = 13;
const arrays = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, DataView, Buffer, BigInt64Array, BigUint64Array];
const flagBits = { g: 1, i: 2, m: 4, y: 8, u: 16, s: 32 };
const isIndex = (key) => String(key >>> 0) === key && key >>> 0 < 0x7fffffff;

function unwritable(value) { return new DOMException(`${typeof value === 'symbol' ? String(value) : '#<Object>'} could not be cloned.`, 'DataCloneError'); }

class Serializer {
  #bytes = [];
  #seen = new Map();
  writeHeader() { this.#bytes.push(0xff, version); }
  releaseBuffer() { const out = Buffer.from(this.#bytes); this.#bytes = []; return out; }
  writeUint32(n) {
    for (; n > 127; n = Math.floor(n / 128)) this.#bytes.push((n % 128) | 128);
    this.#bytes.push(n);
  }
  writeDouble(n) { this.writeRawBytes(new Uint8Array(new Float64Array([n]).buffer)); }
  writeRawBytes(source) {
    for (const b of new Uint8Array(source.buffer, source.byteOffset, source.byteLength)) this.#bytes.push(b);
  }
  writeValue(value) {
    switch (typeof value) {
      case 'undefined': this.#tag('_'); return true;
      case 'boolean': this.#tag(value ? 'T' : 'F'); return true;
      case 'number': this.#number(value); return true;
      case 'bigint': this.#tag('Z'); this.#bigint(value); return true;
      case 'string': this.#string(value); return true;
      case 'object': if (value === null) this.#tag('0'); else this.#object(value); return true;
      default: throw unwritable(value);
    }
  }
  #tag(letter) { this.#bytes.push(letter.charCodeAt(0)); }
  #number(n) {
    if ((n | 0) === n && !Object.is(n, -0)) {
      this.#tag('I');
      this.writeUint32(((n << 1) ^ (n >> 31)) >>> 0);
    } else {
      this.#tag('N');
      this.writeDouble(n);
    }
  }
  #bigint(n) {
    const digits = [];
    for (let rest = n < 0n ? -n : n; rest > 0n || digits.length % 8; rest >>= 8n) digits.push(Number(rest & 255n));
    this.writeUint32(digits.length * 2 + (n < 0n ? 1 : 0));
    this.#bytes.push(...digits);
  }
  #string(text) {
    if (!/[^\x00-\xff]/.test(text)) {
      this.#tag('"');
      this.writeUint32(text.length);
      for (let i = 0; i < text.length; i++) this.#bytes.push(text.charCodeAt(i));
      return;
    }
    const bytes = Buffer.from(text, 'utf16le');
    let width = 1;
    for (let n = bytes.length; n > 127; n = Math.floor(n / 128)) width++;
    if ((this.#bytes.length + 1 + width) % 2) this.#bytes.push(0); // so that the characters are aligned
    this.#tag('c');
    this.writeUint32(bytes.length);
    this.writeRawBytes(bytes);
  }
  #object(value) {
    if (this.#seen.has(value)) { this.#tag('^'); this.writeUint32(this.#seen.get(value)); return; }
    this.#seen.set(value, this.#seen.size);
    if (ArrayBuffer.isView(value)) this.#view(value);
    else if (Array.isArray(value)) this.#array(value);
    else if (value instanceof Date) { this.#tag('D'); this.writeDouble(value.getTime()); }
    else if (value instanceof RegExp) { this.#tag('R'); this.#string(value.source); this.writeUint32([...value.flags].reduce((n, f) => n | flagBits[f], 0)); }
    else if (value instanceof Map) this.#entries(';', ':', [...value].flat(1));
    else if (value instanceof Set) this.#entries("'", ',', [...value]);
    else if (value instanceof ArrayBuffer) { this.#tag('B'); this.writeUint32(value.byteLength); this.writeRawBytes(new Uint8Array(value)); }
    else if (value instanceof Boolean) this.#tag(value.valueOf() ? 'y' : 'x');
    else if (value instanceof Number) { this.#tag('n'); this.writeDouble(value.valueOf()); }
    else if (value instanceof String) { this.#tag('s'); this.#string(value.valueOf()); }
    else { this.#tag('o'); this.#tagAfter(value, '{'); }
  }
  #entries(open, close, items) {
    this.#tag(open);
    for (const item of items) this.writeValue(item);
    this.#tag(close);
    this.writeUint32(items.length);
  }
  #array(value) {
    this.#tag('A');
    this.writeUint32(value.length);
    for (let i = 0; i < value.length; i++) if (i in value) this.writeValue(value[i]); else this.#tag('-');
    this.#tagAfter(value, '$', (key) => !isIndex(key));
    this.writeUint32(value.length);
  }
  #tagAfter(value, close, wanted = () => true) {
    const keys = Object.keys(value).filter(wanted);
    for (const key of keys) {
      if (isIndex(key)) this.#number(+key); else this.#string(key);
      this.writeValue(value[key]);
    }
    this.#tag(close);
    this.writeUint32(keys.length);
  }
  #view(value) {
    const kind = Buffer.isBuffer(value) ? 10 : arrays.findIndex((Type) => value instanceof Type);
    this.#tag('\\');
    this.writeUint32(kind);
    this.writeUint32(value.byteLength);
    this.writeRawBytes(value);
  }
}

class Deserializer {
  #bytes;
  #at = 0;
  #seen = [];
  constructor(bytes) { this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength); }
  readHeader() {
    if (this.#byte() !== 0xff || this.#byte() > version) throw new Error('Unable to deserialize cloned data due to invalid or unsupported version.');
    return true;
  }
  readUint32() {
    let out = 0;
    for (let weight = 1; ; weight *= 128) {
      const b = this.#byte();
      out += (b & 127) * weight;
      if (b < 128) return out;
    }
  }
  readDouble() { return new DataView(new Uint8Array(this.readRawBytes(8)).buffer).getFloat64(0, true); }
  readRawBytes(length) {
    if (this.#at + length > this.#bytes.length) throw new Error('Unable to deserialize cloned data.');
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
  readValue() {
    let tag = String.fromCharCode(this.#byte());
    while (tag === '\0') tag = String.fromCharCode(this.#byte());
    switch (tag) {
      case '_': return undefined;
      case '0': return null;
      case 'T': return true;
      case 'F': return false;
      case 'I': { const n = this.readUint32(); return (n >>> 1) ^ -(n & 1); }
      case 'N': return this.readDouble();
      case 'Z': return this.#bigint();
      case '"': return this.readRawBytes(this.readUint32()).toString('latin1');
      case 'c': return this.readRawBytes(this.readUint32()).toString('utf16le');
      case '^': return this.#seen[this.readUint32()];
      case 'o': return this.#properties(this.#keep({}), '{');
      case 'A': return this.#array();
      case 'D': return this.#keep(new Date(this.readDouble()));
      case 'R': { const id = this.#seen.push(undefined) - 1; const source = this.readValue(); return (this.#seen[id] = new RegExp(source, this.#flags())); }
      case ';': { const out = this.#keep(new Map()); const items = this.#items(':'); for (let i = 0; i < items.length; i += 2) out.set(items[i], items[i + 1]); return out; }
      case "'": { const out = this.#keep(new Set()); for (const item of this.#items(',')) out.add(item); return out; }
      case 'B': return this.#keep(new Uint8Array(this.readRawBytes(this.readUint32())).buffer);
      case 'y': return this.#keep(Object(true));
      case 'x': return this.#keep(Object(false));
      case 'n': return this.#keep(Object(this.readDouble()));
      case 's': return this.#keep(Object(this.readValue()));
      case '\\': return this.#view();
      default: throw new Error('Unable to deserialize cloned data.');
    }
  }
  #byte() { return this.readRawBytes(1)[0]; }
  #keep(value) { this.#seen.push(value); return value; }
  #flags() { const bits = this.readUint32(); return Object.keys(flagBits).filter((f) => bits & flagBits[f]).join(''); }
  #ends(close) {
    if (String.fromCharCode(this.#bytes[this.#at]) !== close) return false;
    this.#at++;
    this.readUint32();
    return true;
  }
  #items(close) {
    const out = [];
    while (!this.#ends(close)) out.push(this.readValue());
    return out;
  }
  #properties(target, close) {
    while (!this.#ends(close)) {
      const key = this.readValue();
      Object.defineProperty(target, key, { value: this.readValue(), writable: true, enumerable: true, configurable: true });
    }
    return target;
  }
  #array() {
    const length = this.readUint32();
    if (length > this.#bytes.length) throw new Error('Unable to deserialize cloned data.');
    const out = this.#keep(new Array(length));
    for (let i = 0; i < length; i++) {
      if (this.#bytes[this.#at] === 0x2d) this.#at++; else out[i] = this.readValue();
    }
    this.#properties(out, '$');
    this.readUint32();
    return out;
  }
  #bigint() {
    const head = this.readUint32();
    let out = 0n;
    for (const b of Buffer.from(this.readRawBytes(head >> 1)).reverse()) out = (out << 8n) | BigInt(b);
    return head & 1 ? -out : out;
  }
  #view() {
    const id = this.#seen.push(undefined) - 1;
    const Type = arrays[this.readUint32()];
    if (!Type) throw new Error('Unable to deserialize cloned data.');
    const bytes = new Uint8Array(this.readRawBytes(this.readUint32()));
    return (this.#seen[id] = Type === Buffer ? Buffer.from(bytes.buffer) : new Type(bytes.buffer));
  }
}

module.exports = {
  serialize(value) {
    const out = new Serializer();
    out.writeHeader();
    out.writeValue(value);
    return out.releaseBuffer();
  },
  deserialize(bytes) {
    const from = new Deserializer(bytes);
    from.readHeader();
    return from.readValue();
  },
  Serializer, Deserializer, DefaultSerializer: Serializer, DefaultDeserializer: Deserializer,
  cachedDataVersionTag: () => 0,
  ...each('v8.', 'getHeapCodeStatistics getHeapSnapshot getHeapSpaceStatistics getHeapStatistics setFlagsFromString setHeapSnapshotNearHeapLimit stopCoverage takeCoverage writeHeapSnapshot'),
  promiseHooks: each('v8.promiseHooks.', 'createHook onAfter onBefore onInit onSettled', refuse),
};
