'use strict';
// Parts of Buffer that are seldom needed: formatting, and text in other
// encodings.
const { Buffer } = require('buffer');
const { encodings } = require('buffer_encodings');
const encode = sys('buffer.encode');
const decode = sys('buffer.decode');
const asPlain = (view) => new Uint8Array(view.buffer, view.byteOffset, view.length);

function inspect(buffer, options, max) {
  let shown = asPlain(buffer).subarray(0, max);
  shown = decode(shown, 'hex').replace(/(..)(?=.)/g, '$1 ');
  const more = buffer.length - max;
  if (more > 0) shown += ` ... ${more} more byte${more > 1 ? 's' : ''}`;
  const extras = Object.keys(buffer).filter((key) => !/^\d+$/.test(key));
  if (extras.length && options) {
    const { inspect } = require('inspect');
    const text = extras.map((key) => `${key}: ${inspect(buffer[key], { ...options, breakLength: Infinity })}`).join(', ');
    shown += (shown ? ', ' : '') + text;
  }
  return `<${buffer.constructor.name} ${shown}>`;
}

function invalidCharacter() {
  const { DOMException } = require('abort');
  throw new DOMException('Invalid character', 'InvalidCharacterError');
}

module.exports = {
  inspect,
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
  transcode(source, from, to) {
    if (!(source instanceof Uint8Array)) require('codes').raise('ERR_INVALID_ARG_TYPE', 'source', ['Buffer', 'Uint8Array'], source);
    const known = (name) => (typeof name === 'string' && ['utf8', 'utf16le', 'latin1', 'ascii'].includes(encodings[name.toLowerCase()]) ? encodings[name.toLowerCase()] : undefined);
    if (!known(from) || !known(to)) {
      const err = new Error('Unable to transcode Buffer [U_ILLEGAL_ARGUMENT_ERROR]');
      throw Object.assign(err, { code: 'U_ILLEGAL_ARGUMENT_ERROR', errno: 1 });
    }
    let text = decode(source, known(from));
    if (known(to) === 'ascii' || known(to) === 'latin1') {
      const most = known(to) === 'ascii' ? 127 : 255;
      text = Array.from(text, (char) => (char.codePointAt(0) > most ? '?' : char)).join('');
    }
    return Buffer.from(text, to);
  },
};
