'use strict';
// Names that with leaves alone, and that goja does not know of.
Array.prototype[Symbol.unscopables].at = true;
