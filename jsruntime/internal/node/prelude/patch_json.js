'use strict';
Object.defineProperty(JSON, 'parse', { value: require('json').parse, writable: true, configurable: true });
