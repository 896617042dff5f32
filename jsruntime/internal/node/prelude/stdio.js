'use strict';
// The functions that code put in place of process.stdout.write and
// process.stderr.write.
module.exports = { stdout: undefined, stderr: undefined };
