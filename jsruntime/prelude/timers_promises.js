'use strict';
const timers = require('timers');

function wait(start, stop, value, options) {
  const signal = options && options.signal;
  return new Promise((resolve, reject) => {
    const fail = () => {
      const err = new Error('The operation was aborted');
      err.name = 'AbortError';
      err.code = 'ABORT_ERR';
      reject(err);
    };
    if (signal && signal.aborted) return fail();
    const timer = start(() => resolve(value));
    if (options && options.ref === false) timer.unref();
    if (signal) signal.addEventListener('abort', () => { stop(timer); fail(); });
  });
}

module.exports = {
  setTimeout: (delay, value, options) => wait((done) => timers.setTimeout(done, delay), timers.clearTimeout, value, options),
  setImmediate: (value, options) => wait((done) => timers.setImmediate(done), timers.clearImmediate, value, options),
  setInterval(delay, value) {
    require('patch_symbol');
    let due = 0;
    let wake;
    const timer = timers.setInterval(() => { due++; if (wake) { wake(); wake = undefined; } }, delay);
    return {
      async next() {
        while (due === 0) await new Promise((resolve) => { wake = resolve; });
        due--;
        return { value, done: false };
      },
      async return() { timers.clearInterval(timer); return { value: undefined, done: true }; },
      [Symbol.asyncIterator]() { return this; },
    };
  },
};
module.exports.scheduler = { wait: (delay, options) => module.exports.setTimeout(delay, undefined, options), yield: () => module.exports.setImmediate() };
