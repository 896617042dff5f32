'use strict';
// Adapters between Node's streams and web streams.
const { raise, AbortError } = require('codes');
const { Readable } = require('stream_readable');
const { Writable } = require('stream_writable');
const { Duplex } = require('stream_duplex');
const { finished } = require('stream_finished');
const web = require('webstreams');

const isReadable = (value) => value instanceof web.ReadableStream;
const isWritable = (value) => value instanceof web.WritableStream;

function readSide(reader) {
  return {
    read() { reader.read().then(({ value, done }) => this.push(done ? null : value), (err) => this.destroy(err)); },
    stop: (err) => reader.cancel(err).catch(() => {}),
  };
}

function writeSide(writer) {
  return {
    write(chunk, encoding, callback) { writer.ready.then(() => writer.write(chunk)).then(() => callback(), callback); },
    final(callback) { writer.close().then(() => callback(), callback); },
    stop: (err) => (err ? writer.abort(err) : writer.close()).catch(() => {}),
  };
}

function readableFromWeb(stream, options = {}) {
  if (!isReadable(stream)) raise('ERR_INVALID_ARG_TYPE', 'readableStream', 'ReadableStream', stream);
  const side = readSide(stream.getReader());
  return new Readable({ ...options, read: side.read, destroy(err, callback) { side.stop(err).then(() => callback(err)); } });
}

function writableFromWeb(stream, options = {}) {
  if (!isWritable(stream)) raise('ERR_INVALID_ARG_TYPE', 'writableStream', 'WritableStream', stream);
  const side = writeSide(stream.getWriter());
  return new Writable({ ...options, write: side.write, final: side.final, destroy(err, callback) { side.stop(err).then(() => callback(err)); } });
}

function duplexFromWeb(pair, options = {}) {
  if (pair === null || typeof pair !== 'object') raise('ERR_INVALID_ARG_TYPE', 'pair', 'Object', pair);
  if (!isReadable(pair.readable)) raise('ERR_INVALID_ARG_TYPE', 'pair.readable', 'ReadableStream', pair.readable);
  if (!isWritable(pair.writable)) raise('ERR_INVALID_ARG_TYPE', 'pair.writable', 'WritableStream', pair.writable);
  const r = readSide(pair.readable.getReader());
  const w = writeSide(pair.writable.getWriter());
  return new Duplex({
    ...options, read: r.read, write: w.write, final: w.final, destroy(err, callback) { Promise.all([r.stop(err), w.stop(err)]).then(() => callback(err)); },
  });
}

function readableToWeb(stream) {
  if (!stream || !stream._readableState) raise('ERR_INVALID_ARG_TYPE', 'streamReadable', 'stream.Readable', stream);
  const objects = stream.readableObjectMode;
  const strategy = objects ? new web.CountQueuingStrategy({ highWaterMark: stream.readableHighWaterMark }) : { highWaterMark: stream.readableHighWaterMark, size: (chunk) => chunk.length };
  let over = false;
  return new web.ReadableStream({
    start(controller) {
      if (stream.destroyed || stream.readableEnded) { over = true; controller.close(); return; }
      stream.pause();
      finished(stream, { writable: false }, (err) => {
        if (over) return;
        over = true;
        if (err && err.code === 'ERR_STREAM_PREMATURE_CLOSE') err = new AbortError(undefined, { cause: err });
        if (err) controller.error(err); else controller.close();
      });
      stream.on('data', (chunk) => {
        if (over) return;
        controller.enqueue(!objects && chunk instanceof Uint8Array ? new Uint8Array(chunk) : chunk);
        if (controller.desiredSize <= 0) stream.pause();
      });
    },
    pull() { stream.resume(); },
    cancel(reason) { over = true; stream.on('error', () => {}); stream.destroy(reason); },
  }, strategy);
}

function writableToWeb(stream) {
  if (!stream || !stream._writableState) raise('ERR_INVALID_ARG_TYPE', 'streamWritable', 'stream.Writable', stream);
  const strategy = stream.writableObjectMode ? new web.CountQueuingStrategy({ highWaterMark: stream.writableHighWaterMark }) : { highWaterMark: stream.writableHighWaterMark, size: (chunk) => chunk.byteLength || chunk.length };
  let control;
  return new web.WritableStream({
    start(controller) {
      control = controller;
      finished(stream, { readable: false }, (err) => { if (err) control.error(err.code === 'ERR_STREAM_PREMATURE_CLOSE' ? new AbortError(undefined, { cause: err }) : err); });
    },
    write(chunk) { return new Promise((resolve, reject) => stream.write(chunk, (err) => (err ? reject(err) : resolve()))); },
    abort(reason) { stream.on('error', () => {}); stream.destroy(reason); },
    close() { return new Promise((resolve, reject) => stream.end((err) => (err ? reject(err) : resolve()))); },
  }, strategy);
}

module.exports = {
  readableFromWeb, writableFromWeb, duplexFromWeb, readableToWeb, writableToWeb,
  duplexToWeb: (stream) => ({ writable: writableToWeb(stream), readable: readableToWeb(stream) }),
};
