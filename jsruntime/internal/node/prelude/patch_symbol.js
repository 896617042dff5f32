'use strict';
if (!Symbol.asyncIterator) {
  Object.defineProperty(Symbol, 'asyncIterator', { value: Symbol('Symbol.asyncIterator') });
}
