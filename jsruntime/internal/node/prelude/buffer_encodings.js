'use strict';
// The names of encodings, for Buffer and crypto.
const encodings = {
  __proto__: null,
  utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', latin1: 'latin1',
  binary: 'latin1', ascii: 'ascii', utf16le: 'utf16le', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le',
};

function encodingOf(name) {
  if (name === undefined || name === null || name === '') return 'utf8';
  return encodings[name] || encodings[String(name).toLowerCase()] || require('codes').raise('ERR_UNKNOWN_ENCODING', name);
}

module.exports = { encodings, encodingOf };
