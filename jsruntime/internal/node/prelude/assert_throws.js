'use strict';
// throws, rejects and their opposites.
const { inspect } = require('inspect');
const { raise } = require('codes');
const nothing = Symbol('nothing was thrown');

module.exports = ({ AssertionError, fail, failWith, deepEqual }) => {
  function compareKey(actual, expected, key, message, keys, operator) {
    if (key in actual && deepEqual(actual[key], expected[key], true)) return;
    if (message !== undefined && message !== null) fail({ actual, expected, message, operator });
    // Show both with only the expected keys.
    const pick = (from) => {
      const out = {};
      for (const name of keys) if (name in from) out[name] = typeof from[name] === 'string' && expected[name] instanceof RegExp && expected[name].test(from[name]) ? expected[name] : from[name];
      return out;
    };
    const err = new AssertionError({ actual: pick(actual), expected: pick(expected), operator: 'deepStrictEqual' });
    err.actual = actual;
    err.expected = expected;
    err.operator = operator;
    throw err;
  }

  function compareObject(actual, expected, message, operator) {
    if (typeof actual !== 'object' || actual === null) {
      failWith({ actual, expected, message, operator }, new AssertionError({ actual, expected, operator: 'deepStrictEqual' }).message);
    }
    const keys = Object.keys(expected);
    if (expected instanceof Error) keys.push('name', 'message');
    else if (keys.length === 0) raise('ERR_INVALID_ARG_VALUE', 'error', expected, 'may not be an empty object');
    for (const key of keys) {
      if (typeof actual[key] === 'string' && expected[key] instanceof RegExp && expected[key].exec(actual[key]) !== null) continue;
      compareKey(actual, expected, key, message, keys, operator);
    }
  }

  // check throws if the thrown value is not the expected one.
  function check(actual, expected, message, f) {
    const operator = f.name;
    if (typeof expected !== 'function') {
      if (expected instanceof RegExp) {
        const text = String(actual);
        if (expected.exec(text) !== null) return;
        failWith({ actual, expected, message, operator }, `The input did not match the regular expression ${inspect(expected)}. Input:\n\n${inspect(text)}\n`);
      }
      compareObject(actual, expected, message, operator);
      return;
    }
    if (expected.prototype !== undefined && actual instanceof expected) return;
    if (expected === Error || Object.prototype.isPrototypeOf.call(Error, expected)) {
      const got = actual && actual.constructor && actual.constructor.name ? `"${actual.constructor.name}"` : `"${inspect(actual, { depth: -1 })}"`;
      const more = actual instanceof Error ? `\n\nError message:\n\n${actual.message}` : '';
      failWith({ actual, expected, message, operator }, `The error is expected to be an instance of "${expected.name}". Received ${got}${more}`);
    }
    const result = expected.call({}, actual);
    if (result === true) return;
    const what = expected.name ? `The "${expected.name}" validation function` : 'The validation function';
    const more = actual instanceof Error ? `\n\nCaught error:\n\n${inspect(actual)}` : '';
    failWith({ actual, expected, message, operator }, `${what} is expected to return "true". Received ${inspect(result)}${more}`);
  }

  function expects(f, actual, error, message) {
    if (typeof error === 'string') {
      if (arguments.length === 4 && message !== undefined) raise('ERR_INVALID_ARG_TYPE', 'error', ['Object', 'Error', 'Function', 'RegExp'], error);
      if (typeof actual === 'object' && actual !== null) {
        if (actual.message === error) raise('ERR_AMBIGUOUS_ARGUMENT', 'error/message', `The error message "${actual.message}" is identical to the message.`);
      } else if (actual === error) {
        raise('ERR_AMBIGUOUS_ARGUMENT', 'error/message', `The error "${actual}" is identical to the message.`);
      }
      message = error;
      error = undefined;
    } else if (error !== null && error !== undefined && typeof error !== 'object' && typeof error !== 'function') {
      raise('ERR_INVALID_ARG_TYPE', 'error', ['Object', 'Error', 'Function', 'RegExp'], error);
    }
    if (actual === nothing) {
      const name = error && error.name ? ` (${error.name})` : '';
      const kind = f.name === 'rejects' ? 'rejection' : 'exception';
      failWith({ actual: undefined, expected: error, operator: f.name }, `Missing expected ${kind}${name}${message !== undefined && message !== null && !(message instanceof Error) ? `: ${message}` : '.'}`);
    }
    if (error !== undefined && error !== null) check(actual, error, message, f);
  }

  function expectsNone(f, actual, error, message) {
    if (actual === nothing) return;
    if (typeof error === 'string') { message = error; error = undefined; }
    const fits = !error || (typeof error === 'function' && ((error.prototype !== undefined && actual instanceof error)
      || (!Object.prototype.isPrototypeOf.call(Error, error) && error.call({}, actual) === true)))
      || (error instanceof RegExp && error.exec(String(actual)) !== null);
    if (!fits) throw actual;
    const kind = f.name === 'doesNotReject' ? 'rejection' : 'exception';
    const text = `Got unwanted ${kind}${message ? `: ${message}` : '.'}\nActual message: "${actual && actual.message}"`;
    failWith({ actual, expected: error, operator: f.name }, text);
  }

  function thrownBy(f) {
    if (typeof f !== 'function') raise('ERR_INVALID_ARG_TYPE', 'fn', 'Function', f);
    try {
      f();
    } catch (err) {
      return err;
    }
    return nothing;
  }

  const isThenable = (value) => value !== null && typeof value === 'object' && typeof value.then === 'function' && typeof value.catch === 'function';
  async function rejectedBy(promise) {
    let subject = promise;
    if (typeof promise === 'function') {
      subject = promise();
      if (!isThenable(subject)) raise('ERR_INVALID_RETURN_VALUE', 'instance of Promise', 'promiseFn', subject);
    } else if (!isThenable(promise)) {
      raise('ERR_INVALID_ARG_TYPE', 'promiseFn', ['Function', 'Promise'], promise);
    }
    try {
      await subject;
    } catch (err) {
      return err;
    }
    return nothing;
  }

  function throws(f, ...args) { expects(throws, thrownBy(f), ...args); }
  function doesNotThrow(f, ...args) { expectsNone(doesNotThrow, thrownBy(f), ...args); }
  async function rejects(promise, ...args) { expects(rejects, await rejectedBy(promise), ...args); }
  async function doesNotReject(promise, ...args) { expectsNone(doesNotReject, await rejectedBy(promise), ...args); }
  return { throws, doesNotThrow, rejects, doesNotReject };
};
