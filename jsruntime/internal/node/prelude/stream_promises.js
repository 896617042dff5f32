'use strict';
const { run } = require('stream_pipeline');
const { finished } = require('stream_finished');

module.exports = {
  pipeline: (...streams) => new Promise((resolve, reject) => {
    let options;
    const last = streams[streams.length - 1];
    if (last && typeof last === 'object' && !last.on && !last.pipe && !last.write && !last[Symbol.asyncIterator] && !last[Symbol.iterator] && !last.readable && !last.writable) {
      options = streams.pop();
    }
    run(streams, (err, value) => (err ? reject(err) : resolve(value)), options);
  }),
  finished: (stream, options) => new Promise((resolve, reject) => {
    const cleanup = finished(stream, options || {}, (err) => {
      if (options && options.cleanup) cleanup();
      return err ? reject(err) : resolve();
    });
  }),
};
