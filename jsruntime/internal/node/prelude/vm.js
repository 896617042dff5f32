'use strict';
// vm within the only context.
const { refuse, rejects } = require('denied');

const contexts = new WeakSet();
const everywhere = (0, eval);

// inside runs code with the properties of an object in scope. Other names are
// those of the language.
function inside(code, object) {
  const scope = new Proxy(object, {
    has: (target, key) => key !== 'code' && key !== 'scope' && typeof key === 'string' && (key in target || !(key in globalThis)),
    get: (target, key) => {
      if (key === Symbol.unscopables) return undefined;
      if (typeof key === 'string' && !(key in target)) throw new ReferenceError(`${key} is not defined`);
      return target[key];
    },
  });
  return Function('scope', 'code', 'with (scope) { return eval(code); }').call(object, scope, code);
}

class Script {
  #code;
  constructor(code) {
    this.#code = String(code);
    Function(`if (0) { ${this.#code}\n}`); // report a syntax error now
  }
  runInThisContext() { return everywhere(this.#code); }
  runInContext(context) { return runInContext(this.#code, context); }
  runInNewContext(object = {}) { return inside(this.#code, object); }
  createCachedData() { return require('buffer').Buffer.alloc(0); }
}

function runInContext(code, context) {
  if (!contexts.has(context)) throw Object.assign(new TypeError('The "contextifiedObject" argument must be an vm.Context'), { code: 'ERR_INVALID_ARG_TYPE' });
  return inside(String(code), context);
}

module.exports = {
  Script,
  createContext(object = {}) { contexts.add(object); return object; },
  createScript: (code) => new Script(code),
  isContext: (object) => contexts.has(object),
  runInContext,
  runInNewContext: (code, object = {}) => inside(String(code), object),
  runInThisContext: (code) => everywhere(String(code)),
  compileFunction: (code, names = []) => Function(...names, String(code)),
  measureMemory: rejects('vm.measureMemory'),
  SourceTextModule: refuse('vm.SourceTextModule'),
};
