'use strict';
const stream = require('stream');
module.exports = {
  pipeline: (...streams) => new Promise((resolve, reject) => stream.pipeline(...streams, (err) => (err ? reject(err) : resolve()))),
  finished: (target, options) => new Promise((resolve, reject) => stream.finished(target, options || {}, (err) => (err ? reject(err) : resolve()))),
};
