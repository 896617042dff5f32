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
      const { prepareStackTrace } = globalThis.Error; // of the class that code sees
      if (typeof prepareStackTrace === 'function') return prepareStackTrace.call(globalThis.Error, target, frames(text));
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

exports.define = define;
