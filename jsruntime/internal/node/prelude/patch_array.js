'use strict';
// Unscopable names that goja lacks.
Array.prototype[Symbol.unscopables].at = true;
