'use strict';
// FormData, and multipart/form-data in both directions.
const { Buffer } = require('buffer');
const { Blob, File, bytesOf } = require('blob');
const toText = sys('text.wellFormed');

class FormData {
  #list = [];
  constructor(form = undefined) { if (form !== undefined) throw new TypeError('FormData takes no form here'); }
  #entry(args, name) {
    if (args.length < 2) throw new TypeError(`FormData.${name}: 2 arguments required, but only ${args.length} present`);
    let [, value] = args;
    if (ArrayBuffer.isView(value) && !(value instanceof Blob)) value = new Blob([value]);
    if (args.length > 2 && !(value instanceof Blob)) throw new TypeError('A file name goes with a Blob only');
    if (value instanceof Blob) {
      const filename = args.length > 2 && args[2] !== undefined ? toText(`${args[2]}`) : value instanceof File ? value.name : 'blob';
      value = value instanceof File && value.name === filename ? value : new File([value], filename, { type: value.type });
    } else {
      value = toText(`${value}`);
    }
    return [toText(`${args[0]}`), value];
  }
  append(...args) { this.#list.push(this.#entry(args, 'append')); }
  set(...args) {
    const entry = this.#entry(args, 'set');
    const at = this.#list.findIndex(([key]) => key === entry[0]);
    if (at < 0) { this.#list.push(entry); return; }
    this.#list[at] = entry;
    this.#list = this.#list.filter(([key], i) => i <= at || key !== entry[0]);
  }
  get(name) { const found = this.#list.find(([key]) => key === `${name}`); return found ? found[1] : null; }
  getAll(name) { return this.#list.filter(([key]) => key === `${name}`).map(([, value]) => value); }
  has(name) { return this.#list.some(([key]) => key === `${name}`); }
  delete(name) { this.#list = this.#list.filter(([key]) => key !== `${name}`); }
  forEach(callback, self = undefined) { for (const [name, value] of this.#list) callback.call(self, value, name, this); }
  *entries() { for (const [name, value] of this.#list) yield [name, value]; }
  *keys() { for (const [name] of this.#list) yield name; }
  *values() { for (const [, value] of this.#list) yield value; }
}
sys('enumerable')(FormData.prototype, true);
Object.defineProperty(FormData.prototype, Symbol.iterator, { value: FormData.prototype.entries, writable: true, configurable: true });
Object.defineProperty(FormData.prototype, Symbol.toStringTag, { value: 'FormData', configurable: true });

const quote = (text) => text.replace(/\r\n|\r|\n/g, '%0D%0A').replace(/"/g, '%22');

// encode returns the body and its boundary.
function encode(form) {
  const boundary = '----vault' + Buffer.from(sys('crypto.random')(16)).toString('hex');
  const parts = [];
  for (const [name, value] of form) {
    const file = typeof value !== 'string';
    const type = file ? `\r\nContent-Type: ${value.type || 'application/octet-stream'}` : '';
    const as = file ? `; filename="${quote(value.name)}"` : '';
    parts.push(Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${quote(name)}"${as}${type}\r\n\r\n`));
    parts.push(file ? bytesOf(value) : Buffer.from(value.replace(/\r\n|\r|\n/g, '\r\n')), Buffer.from('\r\n'));
  }
  parts.push(Buffer.from(`--${boundary}--\r\n`));
  return { body: Buffer.concat(parts), boundary };
}

const unquote = (text) => text.replace(/%0A/gi, '\n').replace(/%0D/gi, '\r').replace(/%22/g, '"');

// decode parses a body according to its content type.
function decode(bytes, type) {
  const form = new FormData();
  const [essence] = type.split(';');
  if (/^\s*application\/x-www-form-urlencoded\s*$/i.test(essence)) {
    for (const [name, value] of new (require('url').URLSearchParams)(Buffer.from(bytes).toString())) form.append(name, value);
    return form;
  }
  const found = /^\s*multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(type);
  if (!found) throw new TypeError('Content-Type was not one of "multipart/form-data" or "application/x-www-form-urlencoded".');
  const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  const mark = Buffer.from('--' + (found[1] || found[2]));
  let at = data.indexOf(mark);
  if (at < 0) throw new TypeError('The form data has no part.');
  for (;;) {
    at += mark.length;
    if (data.toString('latin1', at, at + 2) === '--') return form;
    at += 2;
    const head = data.indexOf('\r\n\r\n', at);
    const next = data.indexOf(Buffer.concat([Buffer.from('\r\n'), mark]), head < 0 ? at : head + 2);
    if (head < 0 || next < 0) throw new TypeError('The form data is broken.');
    addPart(form, data.toString('utf8', at, head), data.subarray(head + 4, next));
    at = next + 2;
  }
}

function addPart(form, head, content) {
  const disposition = /(?:^|\n)content-disposition:\s*form-data\s*;([^\r\n]*)/i.exec(head);
  const name = disposition && /(?:^|[;\s])name="([^"]*)"/i.exec(disposition[1]);
  if (!name) throw new TypeError('A part of the form data has no name.');
  const filename = /(?:^|[;\s])filename="([^"]*)"/i.exec(disposition[1]);
  if (!filename) { form.append(unquote(name[1]), content.toString()); return; }
  const type = /(?:^|\n)content-type:\s*([^\r\n]*)/i.exec(head);
  form.append(unquote(name[1]), new File([content], unquote(filename[1]), { type: type ? type[1].trim() : 'text/plain' }));
}

module.exports = { FormData, encode, decode };
