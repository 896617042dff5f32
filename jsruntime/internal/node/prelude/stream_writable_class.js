'use strict';
module.exports = require('stream').Writable;
