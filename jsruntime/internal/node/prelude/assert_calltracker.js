'use strict';
// CallTracker counts the calls of functions.
const { raise } = require('codes');
const { validateUint32 } = require('validators');
const noop = () => {};
let Class;

module.exports = (AssertionError) => {
  if (Class) return Class;
  Class = class CallTracker {
    #checks = new Set();
    #tracked = new Map();
    #found(f) {
      const check = this.#tracked.get(f);
      if (!check) raise('ERR_INVALID_ARG_VALUE', 'tracked', f, 'is not a tracked function');
      return check;
    }
    calls(f, expected = 1) {
      if (require('process')._exiting) raise('ERR_UNAVAILABLE_DURING_EXIT');
      if (typeof f === 'number') { expected = f; f = noop; } else if (f === undefined) f = noop;
      validateUint32(expected, 'expected', true);
      const check = { expected, calls: [], name: f.name || 'calls', stack: new Error() };
      this.#checks.add(check);
      const tracked = new Proxy(f, {
        apply(target, self, args) {
          check.calls.push(Object.freeze({ thisArg: self, arguments: Object.freeze([...args]) }));
          return Reflect.apply(target, self, args);
        },
      });
      this.#tracked.set(tracked, check);
      return tracked;
    }
    report() {
      const out = [];
      for (const { expected, calls, name, stack } of this.#checks) {
        if (calls.length === expected) continue;
        out.push({
          message: `Expected the ${name} function to be executed ${expected} time(s) but was executed ${calls.length} time(s).`,
          actual: calls.length, expected, operator: name, stack,
        });
      }
      return out;
    }
    getCalls(f) { return this.#found(f).calls.slice(); }
    reset(f) {
      if (f !== undefined) { this.#found(f).calls = []; return; }
      for (const check of this.#checks) check.calls = [];
    }
    verify() {
      const errors = this.report();
      if (errors.length === 0) return;
      const message = errors.length === 1 ? errors[0].message : 'Functions were not called the expected number of times';
      throw new AssertionError({ message, details: errors });
    }
  };
  return Class;
};
