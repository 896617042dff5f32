'use strict';
module.exports = require('http_client')('http:');
