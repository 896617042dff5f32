'use strict';
// StringDecoder keeps the bytes of characters that are not complete yet.
const { Buffer } = require('buffer');

class StringDecoder {
  constructor(encoding = 'utf8') {
    if (!Buffer.isEncoding(encoding)) {
      const err = new TypeError('Unknown encoding: ' + encoding);
      err.code = 'ERR_UNKNOWN_ENCODING';
      throw err;
    }
    this.encoding = String(encoding).toLowerCase().replace('utf-8', 'utf8').replace(/^(ucs-?2|utf-16le)$/, 'utf16le').replace('binary', 'latin1');
    this._rest = Buffer.alloc(0);
  }
  write(chunk) {
    if (typeof chunk === 'string') return chunk;
    const bytes = Buffer.concat([this._rest, Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)]);
    const keep = this._incomplete(bytes);
    this._rest = Buffer.from(bytes.subarray(bytes.length - keep));
    return bytes.toString(this.encoding, 0, bytes.length - keep);
  }
  end(chunk) {
    const text = chunk === undefined ? '' : this.write(chunk);
    const rest = this._rest;
    this._rest = Buffer.alloc(0);
    return text + (rest.length ? rest.toString(this.encoding) : '');
  }
  _incomplete(bytes) {
    if (this.encoding === 'base64') return bytes.length % 3;
    if (this.encoding === 'utf16le') {
      if (bytes.length % 2) return bytes.length >= 3 && (bytes[bytes.length - 2] & 0xfc) === 0xd8 ? 3 : 1;
      return bytes.length >= 2 && (bytes[bytes.length - 1] & 0xfc) === 0xd8 ? 2 : 0;
    }
    if (this.encoding !== 'utf8') return 0;
    for (let back = 1; back <= Math.min(3, bytes.length); back++) {
      const b = bytes[bytes.length - back];
      if ((b & 0xc0) === 0x80) continue;
      const need = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;
      return need > back ? back : 0;
    }
    return 0;
  }
}
module.exports = { StringDecoder };
