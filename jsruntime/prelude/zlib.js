'use strict';
// zlib: whole buffers, in Go, bounded in what they unfold to.
const { Buffer } = require('buffer');
const deflate = sys('zlib.deflate');
const inflate = sys('zlib.inflate');

const toBytes = (data) => (typeof data === 'string' ? Buffer.from(data) : data instanceof ArrayBuffer ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.byteLength));
const levelOf = (options) => (options && options.level !== undefined ? options.level : -1);
const methods = {
  gzip: (data, options) => Buffer.from(deflate(toBytes(data), 'gzip', levelOf(options))),
  deflate: (data, options) => Buffer.from(deflate(toBytes(data), 'zlib', levelOf(options))),
  deflateRaw: (data, options) => Buffer.from(deflate(toBytes(data), 'raw', levelOf(options))),
  gunzip: (data, options) => Buffer.from(inflate(toBytes(data), 'gzip', options && options.maxOutputLength)),
  inflate: (data, options) => Buffer.from(inflate(toBytes(data), 'zlib', options && options.maxOutputLength)),
  inflateRaw: (data, options) => Buffer.from(inflate(toBytes(data), 'raw', options && options.maxOutputLength)),
  unzip: (data, options) => Buffer.from(inflate(toBytes(data), 'auto', options && options.maxOutputLength)),
};

for (const name of Object.keys(methods)) {
  const run = methods[name];
  exports[name + 'Sync'] = run;
  exports[name] = (data, options, callback) => {
    if (typeof options === 'function') { callback = options; options = {}; }
    let value;
    let failure = null;
    try { value = run(data, options); } catch (err) { failure = err; }
    require('timers').setImmediate(() => (failure ? callback(failure) : callback(null, value)));
  };
  const Name = name[0].toUpperCase() + name.slice(1);
  exports['create' + Name] = (options) => {
    const { Transform } = require('stream');
    const chunks = [];
    return new Transform({
      transform(chunk, encoding, done) { chunks.push(chunk); done(); },
      flush(done) {
        try { done(null, run(Buffer.concat(chunks), options)); } catch (err) { done(err); }
      },
    });
  };
}

exports.constants = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_OK: 0, Z_STREAM_END: 1,
  Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_DEFAULT_STRATEGY: 0,
};
Object.assign(exports, exports.constants);
