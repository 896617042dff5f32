'use strict';
// Handles unhandled rejections: registered listeners get them, or otherwise the
// log. The run continues.
module.exports = function report(pairs) {
  const process = require('process');
  for (const [reason, promise] of pairs) {
    if (process.emit('unhandledRejection', reason, promise)) continue;
    require('console').error('Unhandled rejection:', reason);
  }
};
