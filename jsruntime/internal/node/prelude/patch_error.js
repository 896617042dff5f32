'use strict';
// V8's additions to Error.
const Native = Error;
Native.stackTraceLimit = 10;

function frames(lines) {
  return lines.map((line) => /^\s*at (?:(.*) \()?(.*?):(\d+):(\d+)/.exec(line)).filter(Boolean).map((m) => ({
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

// head returns the first line of a trace. An error whose name cannot be read is
// an Error.
function head(target) {
  try {
    return target instanceof Native || target.name || target.message ? Native.prototype.toString.call(target) : 'Error';
  } catch {
    return 'Error';
  }
}

// define makes the stack of an object a getter, because the code that prepares
// the trace may be set later.
function define(target, lines) {
  let value;
  let set = false;
  Object.defineProperty(target, 'stack', {
    configurable: true,
    enumerable: false,
    get() {
      if (set) return value;
      set = true;
      const { prepareStackTrace } = globalThis.Error; // of the class that code sees
      if (typeof prepareStackTrace === 'function') value = prepareStackTrace.call(globalThis.Error, target, frames(lines));
      else value = [head(target), ...lines.map((line) => '    ' + line.trim())].join('\n').trimEnd();
      return value;
    },
    set(v) { set = true; value = v; },
  });
}

Native.captureStackTrace = function captureStackTrace(target) {
  define(target, new Native('x').stack.split('\n').slice(1).filter((line) => !line.includes('vault:')));
};

exports.define = define;
