'use strict';
// V8's own additions to Error.
const Native = Error;
Native.stackTraceLimit = 10;

function frames(text) {
  return String(text).split('\n').slice(1).map((line) => /^\s*at (?:(.*) \()?(.*?):(\d+):(\d+)/.exec(line)).filter(Boolean).map((m) => ({
    getFileName: () => m[2],
    getLineNumber: () => +m[3],
    getColumnNumber: () => +m[4],
    getFunctionName: () => m[1] || null,
    getMethodName: () => null,
    getTypeName: () => 'Object',
    getThis: () => undefined,
    getFunction: () => undefined,
    getEvalOrigin: () => undefined,
    isToplevel: () => true,
    isEval: () => false,
    isNative: () => false,
    isConstructor: () => false,
    isAsync: () => false,
    toString: () => `${m[1] || '<anonymous>'} (${m[2]}:${m[3]}:${m[4]})`,
  }));
}

function define(target, text) {
  let value;
  let set = false;
  Object.defineProperty(target, 'stack', {
    configurable: true,
    enumerable: false,
    get() {
      if (set) return value;
      if (typeof Native.prepareStackTrace === 'function') return Native.prepareStackTrace(target, frames(text));
      return text;
    },
    set(v) { set = true; value = v; },
  });
}

Native.captureStackTrace = function captureStackTrace(target) {
  const head = target instanceof Native || target.name || target.message
    ? Native.prototype.toString.call(target) : 'Error';
  const lines = new Native('x').stack.split('\n').slice(1).filter((line) => !line.includes('vault:'));
  define(target, [head, ...lines.map((line) => '    ' + line.trim())].join('\n').trimEnd());
};

if (sys('mentions')('prepareStackTrace')) {
  const wrap = (Class) => new Proxy(Class, {
    construct(target, args, newTarget) {
      const err = Reflect.construct(target, args, newTarget);
      const text = err.stack;
      if (typeof text === 'string') define(err, text);
      return err;
    },
    apply(target, self, args) { return Reflect.construct(this.proxy || target, args); },
  });
  for (const name of ['Error', 'TypeError', 'RangeError', 'SyntaxError', 'ReferenceError']) {
    Object.defineProperty(globalThis, name, { value: wrap(globalThis[name]), writable: true, configurable: true });
  }
}
