'use strict';
const { Stream } = require('stream_legacy');
const { Writable } = require('stream_writable');
const { Readable } = require('stream_readable');
const { Duplex, Transform, PassThrough } = require('stream_duplex');
const { finished, addAbortSignal, isErrored, isDisturbed, isReadable } = require('stream_finished');
const custom = Symbol.for('nodejs.util.promisify.custom');

module.exports = Stream;
Object.assign(Stream, {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, finished, addAbortSignal, isErrored, isDisturbed, isReadable,
  pipeline: (...streams) => require('stream_pipeline').pipeline(...streams),
  compose: (...streams) => require('stream_pipeline').compose(...streams),
  _isUint8Array: (value) => value instanceof Uint8Array,
  _uint8ArrayToBuffer: (chunk) => require('buffer').Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength),
});
Object.defineProperty(Stream.pipeline, custom, { get: () => require('stream_promises').pipeline, enumerable: true });
Object.defineProperty(Stream.finished, custom, { get: () => require('stream_promises').finished, enumerable: true });
Object.defineProperty(Stream, 'promises', { get: () => require('stream_promises'), configurable: true, enumerable: true });
