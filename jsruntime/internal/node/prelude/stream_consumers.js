'use strict';
// Reading a whole stream at once.
require('patch_symbol');
const { Buffer } = require('buffer');

async function buffer(stream) {
  const chunks = [];
  const iterator = stream[Symbol.asyncIterator] ? stream[Symbol.asyncIterator]() : stream[Symbol.iterator]();
  for (let step = await iterator.next(); !step.done; step = await iterator.next()) {
    const { value } = step;
    if (ArrayBuffer.isView(value)) chunks.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
    else chunks.push(Buffer.from(value instanceof ArrayBuffer ? value : `${value}`));
  }
  return Buffer.concat(chunks);
}

module.exports = {
  buffer,
  async arrayBuffer(stream) { const b = await buffer(stream); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); },
  async blob(stream) { return new (require('blob').Blob)([await buffer(stream)]); },
  async text(stream) { return (await buffer(stream)).toString(); },
  async json(stream) { return JSON.parse((await buffer(stream)).toString()); },
};
