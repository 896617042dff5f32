'use strict';
// Errors with Node's codes. The table of codes and texts is loaded for the
// first error.
const table = () => require('codes_table');
const make = (code, ...args) => table().make(code, ...args);
const raise = (code, ...args) => { throw table().make(code, ...args); };
const decorate = (err, code) => table().decorate(err, code);
const received = (value) => table().received(value);

module.exports = { make, raise, decorate, received, get AbortError() { return require('abort_error').AbortError; } };
