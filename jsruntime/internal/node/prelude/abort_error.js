'use strict';
// AbortError is the error of an operation that its signal ended.
class AbortError extends Error {
  constructor(message = 'The operation was aborted', options = undefined) {
    super(message, options);
    this.code = 'ABORT_ERR';
    this.name = 'AbortError';
  }
}
exports.AbortError = AbortError;
