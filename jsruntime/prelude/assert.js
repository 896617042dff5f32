'use strict';
const deepEqual = require('equal');
const { inspect } = require('inspect');

class AssertionError extends Error {
  constructor(options) {
    const { message, actual, expected, operator } = options;
    super(message === undefined ? `${inspect(actual)} ${operator} ${inspect(expected)}` : String(message));
    this.name = 'AssertionError';
    this.code = 'ERR_ASSERTION';
    this.generatedMessage = message === undefined;
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
  }
}

function fail(actual, expected, message, operator, standard) {
  if (message instanceof Error) throw message;
  const err = new AssertionError({ actual, expected, message: message === undefined ? standard : message, operator });
  err.generatedMessage = message === undefined;
  throw err;
}

function assert(value, message) {
  if (!value) fail(value, true, message, '==', arguments.length ? 'The expression evaluated to a falsy value' : 'No value argument passed to `assert.ok()`');
}

const compare = (text, operator, test) => (actual, expected, message) => {
  if (!test(actual, expected)) fail(actual, expected, message, operator, text(actual, expected));
};
const differ = (a, b) => `Expected values to be strictly equal:\n\n${inspect(a)} !== ${inspect(b)}\n`;

// matches tells whether an error is the expected one.
function matches(err, expected) {
  if (expected === undefined) return true;
  if (expected instanceof RegExp) return expected.test(String(err));
  if (typeof expected === 'function') {
    if (expected.prototype !== undefined && err instanceof expected) return true;
    if (Error.isPrototypeOf(expected) || expected === Error) return false;
    return expected.call({}, err) === true;
  }
  return Object.keys(expected).every((key) => (expected[key] instanceof RegExp && typeof err[key] === 'string'
    ? expected[key].test(err[key]) : deepEqual(err[key], expected[key], true)));
}

function checkThrown(err, expected, message) {
  if (typeof expected === 'string') return;
  if (!matches(err, expected)) {
    if (typeof expected === 'function' || expected instanceof RegExp && message === undefined) throw err;
    fail(err, expected, message, 'throws', 'The error does not match the expected one');
  }
}

Object.assign(assert, {
  AssertionError,
  ok: assert,
  fail(message = 'Failed') { fail(undefined, undefined, message, 'fail'); },
  equal: compare((a, b) => `${inspect(a)} == ${inspect(b)}`, '==', (a, b) => a == b || (a !== a && b !== b)),
  notEqual: compare((a, b) => `${inspect(a)} != ${inspect(b)}`, '!=', (a, b) => a != b),
  strictEqual: compare(differ, 'strictEqual', Object.is),
  notStrictEqual: compare((a) => `Expected "actual" to be strictly unequal to: ${inspect(a)}`, 'notStrictEqual', (a, b) => !Object.is(a, b)),
  deepEqual: compare((a, b) => `Expected values to be loosely deep-equal:\n\n${inspect(a)}\n\nshould loosely deep-equal\n\n${inspect(b)}`, 'deepEqual', (a, b) => deepEqual(a, b, false)),
  deepStrictEqual: compare((a, b) => `Expected values to be strictly deep-equal:\n${inspect(a)}\n\nshould equal\n\n${inspect(b)}`, 'deepStrictEqual', (a, b) => deepEqual(a, b, true)),
  notDeepEqual: compare((a) => `Expected "actual" not to be loosely deep-equal to: ${inspect(a)}`, 'notDeepEqual', (a, b) => !deepEqual(a, b, false)),
  notDeepStrictEqual: compare((a) => `Expected "actual" not to be strictly deep-equal to: ${inspect(a)}`, 'notDeepStrictEqual', (a, b) => !deepEqual(a, b, true)),
  match(text, pattern, message) { if (!pattern.test(text)) fail(text, pattern, message, 'match', `The input did not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`); },
  doesNotMatch(text, pattern, message) { if (pattern.test(text)) fail(text, pattern, message, 'doesNotMatch', `The input was expected to not match the regular expression ${pattern}. Input:\n\n${inspect(text)}\n`); },
  ifError(value) { if (value !== null && value !== undefined) throw value instanceof Error ? value : new AssertionError({ actual: value, expected: null, message: 'ifError got unwanted exception: ' + inspect(value), operator: 'ifError' }); },
  throws(f, expected, message) {
    try {
      f();
    } catch (err) {
      checkThrown(err, expected, message);
      return;
    }
    fail(undefined, expected, typeof expected === 'string' ? expected : message, 'throws', 'Missing expected exception.');
  },
  doesNotThrow(f, expected, message) {
    try {
      f();
    } catch (err) {
      fail(err, expected, typeof expected === 'string' ? expected : message, 'doesNotThrow', `Got unwanted exception.\nActual message: "${err && err.message}"`);
    }
  },
  async rejects(promise, expected, message) {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (err) {
      checkThrown(err, expected, message);
      return;
    }
    fail(undefined, expected, typeof expected === 'string' ? expected : message, 'rejects', 'Missing expected rejection.');
  },
  async doesNotReject(promise, expected, message) {
    try {
      await (typeof promise === 'function' ? promise() : promise);
    } catch (err) {
      fail(err, expected, message, 'doesNotReject', `Got unwanted rejection.\nActual message: "${err && err.message}"`);
    }
  },
});
assert.strict = Object.assign((value, message) => assert(value, message), assert, {
  equal: assert.strictEqual, notEqual: assert.notStrictEqual, deepEqual: assert.deepStrictEqual, notDeepEqual: assert.notDeepStrictEqual,
});
assert.strict.strict = assert.strict;
module.exports = assert;
