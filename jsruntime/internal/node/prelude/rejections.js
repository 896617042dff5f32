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

// uncaught passes an error that a callback threw to the listeners of the
// process. It returns false if there are none.
module.exports.uncaught = (err) => require('process').emit('uncaughtException', err, 'uncaughtException');
