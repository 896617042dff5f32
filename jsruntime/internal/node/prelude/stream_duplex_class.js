'use strict';
module.exports = require('stream').Duplex;
