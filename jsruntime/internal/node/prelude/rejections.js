'use strict';
// What becomes of rejections that nothing handles: those who asked for them get
// them, else the log does. A run goes on.
module.exports = function report(pairs) {
  const process = require('process');
  for (const [reason, promise] of pairs) {
    if (process.emit('unhandledRejection', reason, promise)) continue;
    require('console').error('Unhandled rejection:', reason);
  }
};
