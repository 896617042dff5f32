'use strict';
// querystring.
function escape(text) {
  if (typeof text !== 'string') text = typeof text === 'object' ? String(text) : text + '';
  try {
    return encodeURIComponent(text);
  } catch {
    return encodeURIComponent(paired(text));
  }
}

// paired replaces a lone surrogate and the character after it with the
// character that Node encodes for them.
function paired(text) {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0xd800 || unit >= 0xe000) { out += text[i]; continue; }
    if (++i >= text.length) require('codes').raise('ERR_INVALID_URI');
    out += String.fromCodePoint(0x10000 + (((unit & 0x3ff) << 10) | (text.charCodeAt(i) & 0x3ff)));
  }
  return out;
}

function unescapeBuffer(text, decodeSpaces) {
  const { Buffer } = require('buffer');
  text = `${text}`;
  const out = Buffer.allocUnsafe(text.length);
  let size = 0;
  for (let i = 0; i < text.length; i++) {
    const hex = text[i] === '%' ? /^[0-9a-f]{2}$/i.exec(text.slice(i + 1, i + 3)) : null;
    out[size++] = hex ? parseInt(hex[0], 16) : decodeSpaces && text[i] === '+' ? 32 : text.charCodeAt(i);
    if (hex) i += 2;
  }
  return out.slice(0, size);
}

function unescape(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return module.exports.unescapeBuffer(text).toString();
  }
}

function primitive(value) {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  return '';
}

function stringify(object, sep = '&', eq = '=', options) {
  const encode = (options && options.encodeURIComponent) || module.exports.escape;
  if (object === null || typeof object !== 'object') return '';
  const out = [];
  for (const key of Object.keys(object)) {
    const name = encode(key) + (eq || '=');
    const value = object[key];
    if (Array.isArray(value)) for (const item of value) out.push(name + encode(primitive(item)));
    else out.push(name + encode(primitive(value)));
  }
  return out.join(sep || '&');
}

function parse(text, sep = '&', eq = '=', options = {}) {
  const out = Object.create(null);
  if (typeof text !== 'string' || text === '') return out;
  const unescaped = options.decodeURIComponent || module.exports.unescape;
  const decode = (part) => {
    if (unescaped === unescape && !/%[0-9a-f]{2}/i.test(part)) return part;
    try { return unescaped(part); } catch { return module.exports.unescape(part); }
  };
  const limit = typeof options.maxKeys === 'number' ? options.maxKeys : 1000;
  let parts = text.split(sep || '&');
  if (limit > 0) parts = parts.slice(0, limit);
  for (const part of parts) {
    if (part === '') continue;
    const at = part.indexOf(eq || '=');
    const key = decode((at < 0 ? part : part.slice(0, at)).replace(/\+/g, ' '));
    const value = at < 0 ? '' : decode(part.slice(at + (eq || '=').length).replace(/\+/g, ' '));
    if (!(key in out)) out[key] = value;
    else if (Array.isArray(out[key])) out[key].push(value);
    else out[key] = [out[key], value];
  }
  return out;
}

module.exports = { escape, unescape, unescapeBuffer, stringify, parse, encode: stringify, decode: parse };
