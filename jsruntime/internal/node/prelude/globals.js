'use strict';
// Globals of the language and of Node that goja lacks.

exports.queueMicrotask = function queueMicrotask(callback) {
  if (typeof callback !== 'function') {
    const err = new TypeError('The "callback" argument must be of type function. Received ' + String(callback));
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
  const fail = (err) => require('timers').setImmediate(() => { throw err; });
  Promise.resolve().then(() => callback()).catch(fail);
};

// WebAssembly exists for feature detection, and cannot run anything.
const unsupported = () => { throw new Error('WebAssembly is not supported'); };
exports.WebAssembly = Object.freeze({
  validate: () => false,
  compile: async () => unsupported(),
  instantiate: async () => unsupported(),
  Module: class Module { constructor() { unsupported(); } },
  Instance: class Instance { constructor() { unsupported(); } },
});

exports.escape = (text) => String(text).replace(/[^A-Za-z0-9@*_+\-./]/g, (c) => {
  const code = c.charCodeAt(0).toString(16).toUpperCase();
  return code.length <= 2 ? '%' + code.padStart(2, '0') : '%u' + code.padStart(4, '0');
});
exports.unescape = (text) => String(text).replace(/%u([0-9a-fA-F]{4})|%([0-9a-fA-F]{2})/g,
  (_, long, short) => String.fromCharCode(parseInt(long || short, 16)));
