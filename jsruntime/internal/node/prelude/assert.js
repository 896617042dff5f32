'use strict';
const deepEqual = require('equal');
const { inspect } = require('inspect');
const { raise } = require('codes');
const { validateObject } = require('validators');

const headings = {
  deepStrictEqual: 'Expected values to be strictly deep-equal:',
  strictEqual: 'Expected values to be strictly equal:',
  strictEqualObject: 'Expected "actual" to be reference-equal to "expected":',
  deepEqual: 'Expected values to be loosely deep-equal:',
  notDeepStrictEqual: 'Expected "actual" not to be strictly deep-equal to:',
  notStrictEqual: 'Expected "actual" to be strictly unequal to:',
  notStrictEqualObject: 'Expected "actual" not to be reference-equal to "expected":',
  notDeepEqual: 'Expected "actual" not to be loosely deep-equal to:',
  notIdentical: 'Values identical but not reference-equal:',
};
const show = (value) => inspect(value, {
  compact: false, customInspect: false, depth: 1000, maxArrayLength: Infinity, showHidden: false, showProxy: false, sorted: true, getters: true, breakLength: Infinity,
});
const isComplex = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

// differences compares the lines of two texts.
function differences(actual, expected, operator) {
  const a = show(actual).split('\n');
  const b = show(expected).split('\n');
  let key = operator;
  if (operator === 'strictEqual' && isComplex(actual) && isComplex(expected)) key = 'strictEqualObject';
  if (a.length === 1 && b.length === 1 && a[0] !== b[0]) {
    if (a[0].length + b[0].length <= 12 && (!isComplex(actual)) && (!isComplex(expected)) && (actual !== 0 || expected !== 0)) {
      return `${headings[key]}\n\n${a[0]} !== ${b[0]}\n`;
    }
    if (key !== 'strictEqualObject' && a[0].length + b[0].length < 80 && !(isComplex(actual) || isComplex(expected)) && !a[0].includes('\n') && operator === 'strictEqual' && a[0].length < 40) {
      return `${headings[key]}\n\n${a[0]} !== ${b[0]}\n`;
    }
  }
  if (a.join('\n') === b.join('\n')) {
    return `${headings.notIdentical}\n\n${a.join('\n')}\n`;
  }
  return `${headings[key]}\n+ actual - expected\n\n${diffLines(a, b).join('\n')}`;
}

// diffLines marks the lines that only one side has. It compares long texts line
// by line, because the best result costs quadratic time.
function diffLines(a, b) {
  const out = [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) out.push('  ' + a[start++]);
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  for (const line of a.slice(start, a.length - end)) out.push('+ ' + line);
  for (const line of b.slice(start, b.length - end)) out.push('- ' + line);
  for (const line of a.slice(a.length - end)) out.push('  ' + line);
  return out.length > 50 ? [...out.slice(0, 46), '...'] : out;
}

const short = (text) => (text.length > 512 ? `${text.slice(0, 509)}...` : text);

function notText(actual, operator) {
  let heading = headings[operator];
  const lines = show(actual).split('\n');
  if (operator === 'notStrictEqual' && isComplex(actual)) heading = headings.notStrictEqualObject;
  if (lines.length > 50) lines.splice(46, lines.length, '...');
  return lines.length === 1 ? `${heading}${lines[0].length > 5 ? '\n\n' : ' '}${lines[0]}` : `${heading}\n\n${lines.join('\n')}\n`;
}

// textOf writes the message of an operator without a specific one.
function textOf(actual, expected, operator) {
  if (operator === 'deepStrictEqual' || operator === 'strictEqual') return differences(actual, expected, operator);
  if (operator === 'notDeepStrictEqual' || operator === 'notStrictEqual') return notText(actual, operator);
  let mine = show(actual);
  let other = show(expected);
  const heading = headings[operator];
  if (operator === 'notDeepEqual' && mine === other) {
    return short(`${heading}\n\n${mine}`);
  }
  mine = short(mine);
  other = short(other);
  if (operator === 'deepEqual') return `${heading}\n\n${mine}\n\nshould loosely deep-equal\n\n${other}`;
  if (operator === 'notDeepEqual') return `${heading}\n\n${mine}\n\nshould not loosely deep-equal\n\n${other}`;
  return `${mine} ${operator} ${other}`;
}

class AssertionError extends Error {
  constructor(options) {
    validateObject(options, 'options');
    const { message, actual, expected, operator } = options;
    super(message !== undefined && message !== null ? String(message) : textOf(actual, expected, operator));
    this.generatedMessage = !message;
    Object.defineProperty(this, 'name', { value: 'AssertionError', enumerable: false, writable: true, configurable: true });
    this.code = 'ERR_ASSERTION';
    this.actual = actual;
    this.expected = expected;
    this.operator = operator;
    if (typeof this.stack === 'string') {
      Object.defineProperty(this, 'stack', { value: this.stack.replace(/^\w*Error/, 'AssertionError [ERR_ASSERTION]'), enumerable: false, writable: true, configurable: true });
    }
  }
  toString() { return `${this.name} [${this.code}]: ${this.message}`; }
  [Symbol.for('nodejs.util.inspect.custom')](depth, options) { return inspect(this, { ...options, customInspect: false, depth: 0 }); }
}

function fail(details) {
  if (details.message instanceof Error) throw details.message;
  throw new AssertionError(details);
}

// failWith throws with a standard text, which counts as generated.
function failWith(details, standard) {
  if (details.message instanceof Error) throw details.message;
  const generated = details.message === undefined || details.message === null;
  const err = new AssertionError({ ...details, message: generated ? standard : details.message });
  err.generatedMessage = generated;
  throw err;
}

function assert(...args) { checkTrue(args); }

function checkTrue(args) {
  const [value, message] = args;
  if (value) return;
  const details = { actual: value, expected: true, message, operator: '==' };
  if (args.length === 0) failWith(details, 'No value argument passed to `assert.ok()`');
  failWith(details, 'The expression evaluated to a falsy value');
}

const compare = (operator, test) => ({
  [operator](actual, expected, message) {
    if (arguments.length < 2) raise('ERR_MISSING_ARGS', 'actual', 'expected');
    if (!test(actual, expected)) fail({ actual, expected, message, operator });
  },
})[operator];
const named = (name, f) => Object.defineProperty(f, 'name', { value: name });
const looseSame = (a, b) => a == b || (a !== a && b !== b);

function checkMatch(text, pattern, message, wanted, operator) {
  if (!(pattern instanceof RegExp)) raise('ERR_INVALID_ARG_TYPE', 'regexp', 'RegExp', pattern);
  if (typeof text === 'string' && (pattern.exec(text) !== null) === wanted) return;
  const standard = typeof text !== 'string'
    ? `The "string" argument must be of type string. Received type ${typeof text} (${inspect(text)})`
    : `${wanted ? 'The input did not match the regular expression ' : 'The input was expected to not match the regular expression '}${inspect(pattern)}. Input:\n\n${inspect(text)}\n`;
  failWith({ actual: text, expected: pattern, message, operator }, standard);
}

const { throws, doesNotThrow, rejects, doesNotReject } = require('assert_throws')({ AssertionError, fail, failWith, deepEqual });

let warned = false;
Object.assign(assert, {
  AssertionError,
  ok: function ok(...args) { checkTrue(args); },
  fail(actual, expected, message, operator) {
    const count = arguments.length;
    if (count <= 1) {
      if (count === 1 && actual instanceof Error) throw actual;
      const err = new AssertionError({ message: count === 0 || actual === undefined ? 'Failed' : actual, operator: 'fail' });
      err.generatedMessage = count === 0 || actual === undefined;
      throw err;
    }
    if (!warned) {
      warned = true;
      require('process').emitWarning('assert.fail() with more than one argument is deprecated. Please use assert.strictEqual() instead or only pass a message.', 'DeprecationWarning', 'DEP0094');
    }
    if (message instanceof Error) throw message;
    if (count === 2) operator = '!=';
    fail({ actual, expected, operator: operator === undefined ? 'fail' : operator, ...(message !== undefined ? { message } : {}) });
  },
  equal: named('equal', (...args) => { check2(args); if (!looseSame(args[0], args[1])) fail({ actual: args[0], expected: args[1], message: args[2], operator: '==' }); }),
  notEqual: named('notEqual', (...args) => { check2(args); if (looseSame(args[0], args[1])) fail({ actual: args[0], expected: args[1], message: args[2], operator: '!=' }); }),
  strictEqual: compare('strictEqual', Object.is),
  notStrictEqual: compare('notStrictEqual', (a, b) => !Object.is(a, b)),
  deepEqual: compare('deepEqual', (a, b) => deepEqual(a, b, false)),
  deepStrictEqual: compare('deepStrictEqual', (a, b) => deepEqual(a, b, true)),
  notDeepEqual: compare('notDeepEqual', (a, b) => !deepEqual(a, b, false)),
  notDeepStrictEqual: compare('notDeepStrictEqual', (a, b) => !deepEqual(a, b, true)),
  match(text, pattern, message) { checkMatch(text, pattern, message, true, 'match'); },
  doesNotMatch(text, pattern, message) { checkMatch(text, pattern, message, false, 'doesNotMatch'); },
  throws, doesNotThrow, rejects, doesNotReject,
  ifError: function ifError(err) {
    if (err === null || err === undefined) return;
    let message = 'ifError got unwanted exception: ';
    if (typeof err === 'object' && typeof err.message === 'string') {
      message += err.message.length === 0 && err.constructor ? err.constructor.name : err.message;
    } else {
      message += inspect(err);
    }
    const failure = new AssertionError({ actual: err, expected: null, operator: 'ifError', message });
    failure.generatedMessage = true;
    if (typeof err.stack === 'string') {
      const lines = err.stack.split('\n').slice(1);
      Object.defineProperty(failure, 'stack', { value: `${failure.stack}\n${lines.join('\n')}`, writable: true, configurable: true });
    }
    throw failure;
  },
});
function check2(args) { if (args.length < 2) raise('ERR_MISSING_ARGS', 'actual', 'expected'); }
Object.defineProperty(assert, 'CallTracker', {
  get: () => require('assert_calltracker')(AssertionError), enumerable: true, configurable: true,
});

assert.strict = Object.assign(function strict(...args) { checkTrue(args); }, assert, {
  equal: assert.strictEqual, deepEqual: assert.deepStrictEqual, notEqual: assert.notStrictEqual, notDeepEqual: assert.notDeepStrictEqual,
});
assert.strict.strict = assert.strict;
module.exports = assert;
