'use strict';
// child_process without processes.
const { each, refuse } = require('denied');
const EventEmitter = require('events');

class ChildProcess extends EventEmitter {}
ChildProcess.prototype.spawn = refuse('child_process.ChildProcess.spawn');

module.exports = { ChildProcess, ...each('child_process.', 'exec execFile execFileSync execSync fork spawn spawnSync') };
