'use strict';
// tty without a terminal.
const { refuse } = require('denied');
const { ReadStream: Reads, WriteStream: Writes } = { ReadStream: require('stream').Readable, WriteStream: require('stream').Writable };

module.exports = {
  isatty: () => false,
  ReadStream: class ReadStream extends Reads { constructor() { super(); refuse('tty.ReadStream')(); } },
  WriteStream: class WriteStream extends Writes { constructor() { super(); refuse('tty.WriteStream')(); } },
};
