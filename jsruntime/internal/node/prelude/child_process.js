'use strict';
// child_process without processes.
module.exports = require('denied').each('child_process.', 'ChildProcess exec execFile execFileSync execSync fork spawn spawnSync');
