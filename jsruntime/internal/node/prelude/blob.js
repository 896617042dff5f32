'use strict';
// Blob and File: immutable bytes.
require('patch_symbol');
const { Buffer } = require('buffer');
const { raise } = require('codes');
const contents = new WeakMap();

function partBytes(part, native) {
  if (contents.has(part)) return contents.get(part);
  if (part instanceof ArrayBuffer) return Buffer.from(part);
  if (ArrayBuffer.isView(part)) return Buffer.from(part.buffer, part.byteOffset, part.byteLength);
  const text = require('util').toUSVString(String(part));
  return Buffer.from(native ? text.replace(/\r\n|\r|\n/g, '\n') : text);
}

class Blob {
  #type = '';
  constructor(parts = [], options = {}) {
    if (parts === null || typeof parts !== 'object' || typeof parts[Symbol.iterator] !== 'function') raise('ERR_INVALID_ARG_TYPE', 'sources', 'a sequence', parts);
    if (options !== null && typeof options !== 'object' && typeof options !== 'function') raise('ERR_INVALID_ARG_TYPE', 'options', 'Object', options);
    const { type = '', endings = 'transparent' } = options || {};
    if (!['transparent', 'native'].includes(String(endings))) raise('ERR_INVALID_ARG_VALUE', 'options.endings', endings);
    contents.set(this, Buffer.concat(Array.from(parts, (part) => partBytes(part, String(endings) === 'native'))));
    const text = String(type);
    this.#type = /[^\u0020-\u007e]/.test(text) ? '' : text.toLowerCase();
  }
  get size() { return bytesOf(this).length; }
  get type() { bytesOf(this); return this.#type; }
  slice(start = 0, end = this.size, type = '') {
    const bytes = bytesOf(this);
    const part = Uint8Array.prototype.slice.call(bytes, Number(start) || 0, end === undefined ? bytes.length : Number(end) || 0);
    return new Blob([part], { type });
  }
  async text() { return new (require('encoding').TextDecoder)('utf-8', { ignoreBOM: false }).decode(bytesOf(this)); }
  async arrayBuffer() { return copyOf(bytesOf(this)).buffer; }
  async bytes() { return copyOf(bytesOf(this)); }
  stream() {
    const bytes = bytesOf(this);
    const { ReadableStream } = require('webstreams');
    let at = 0;
    return new ReadableStream({
      type: 'bytes',
      pull(controller) {
        if (at >= bytes.length) { controller.close(); if (controller.byobRequest) controller.byobRequest.respond(0); return; }
        const chunk = copyOf(bytes.subarray(at, at + 65536));
        at += chunk.length;
        controller.enqueue(chunk);
      },
    }, { highWaterMark: 0 });
  }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options, inspect) {
    if (depth !== null && depth < 0) return `[${this.constructor.name}]`;
    return `${this.constructor.name} ${inspect({ size: this.size, type: this.type }, options)}`;
  }
}

function bytesOf(blob) {
  const bytes = contents.get(blob);
  if (!bytes) raise('ERR_INVALID_THIS', 'Blob');
  return bytes;
}
const copyOf = (bytes) => new Uint8Array(Uint8Array.prototype.slice.call(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)));

class File extends Blob {
  #name;
  #modified;
  constructor(parts, name, options = {}) {
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'fileBits', 'fileName');
    super(parts, options);
    this.#name = require('util').toUSVString(String(name));
    const when = options && options.lastModified;
    this.#modified = when === undefined ? Date.now() : Math.trunc(Number(when)) || 0;
  }
  get name() { return this.#name; }
  get lastModified() { return this.#modified; }
  get webkitRelativePath() { return ''; }
}
for (const [Class, names] of [[Blob, ['size', 'type', 'slice', 'text', 'arrayBuffer', 'stream', 'bytes']], [File, ['name', 'lastModified']]]) {
  for (const name of names) Object.defineProperty(Class.prototype, name, { enumerable: true });
  Object.defineProperty(Class.prototype, Symbol.toStringTag, { value: Class.name, configurable: true });
}

// copy returns another Blob or File with the same bytes, or undefined for
// anything else.
function copy(blob) {
  if (!contents.has(blob)) return undefined;
  const { type } = blob;
  return blob instanceof File ? new File([blob], blob.name, { type, lastModified: blob.lastModified }) : new Blob([blob], { type });
}

module.exports = { Blob, File, bytesOf, copy, resolveObjectURL: () => undefined };
