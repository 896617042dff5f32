'use strict';
// console writes to the log of the embedding program, one line per call. If
// code replaces process.stdout.write or console._stdout, console writes there.
const log = sys('log');
const stdio = require('stdio');
const replaced = { stdout: undefined, stderr: undefined };

const labelOf = (label) => (label === undefined ? 'default' : `${label}`);
const warning = (text) => require('process').emitWarning(text);

function duration(ms) {
  if (ms < 1000) return `${Number(ms.toFixed(3))}ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(3)}s`;
  const minutes = Math.floor(ms / 60000);
  const seconds = ((ms % 60000) / 1000).toFixed(3).padStart(6, '0');
  if (minutes < 60) return `${minutes}:${seconds} (m:ss.mmm)`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}:${seconds} (h:mm:ss.mmm)`;
}

// methodsOf returns the methods of a console. Its sink has write, which takes
// a level and a text, the options of inspect, and the indentation of groups.
function methodsOf(sink) {
  const counts = new Map();
  const times = new Map();
  let indent = '';
  const put = (level, text) => sink.write(level, indent ? indent + text.replace(/\n/g, '\n' + indent) : text);
  const format = (level, args) => (args.length === 1 && typeof args[0] === 'string' ? args[0] : require('util').formatWithOptions(sink.options(level), ...args));
  const write = (level, args) => put(level, format(level, args));
  const elapsed = (name, label, rest) => {
    label = labelOf(label);
    if (!times.has(label)) return warning(`No such label '${label}' for console.${name}()`);
    return write('info', ['%s: %s', label, duration((sys('hrtime')() - times.get(label)) / 1e6), ...rest]);
  };
  const methods = {
    log: (...args) => write('log', args),
    warn: (...args) => write('warn', args),
    error: (...args) => write('error', args),
    dir: (value, options) => put('info', require('util').inspect(value, { customInspect: false, ...sink.options('info'), ...options })),
    time: (label) => {
      label = labelOf(label);
      if (times.has(label)) warning(`Label '${label}' already exists for console.time()`);
      else times.set(label, sys('hrtime')());
    },
    timeEnd: (label) => { elapsed('timeEnd', label, []); times.delete(labelOf(label)); },
    timeLog: (label, ...rest) => elapsed('timeLog', label, rest),
    trace: (...args) => put('error', args.length ? `Trace: ${format('error', args)}` : 'Trace'),
    assert: (ok, ...args) => {
      if (ok) return;
      if (typeof args[0] === 'string') args[0] = `Assertion failed: ${args[0]}`;
      else args.unshift(args.length ? 'Assertion failed:' : 'Assertion failed');
      write('error', args);
    },
    clear: () => sink.clear(),
    count: (label) => {
      label = labelOf(label);
      counts.set(label, (counts.get(label) || 0) + 1);
      put('info', `${label}: ${counts.get(label)}`);
    },
    countReset: (label) => { if (!counts.delete(labelOf(label))) warning(`Count for '${labelOf(label)}' does not exist`); },
    group: (...args) => { if (args.length) methods.log(...args); indent += ' '.repeat(sink.groupIndentation); },
    groupEnd: () => { indent = indent.slice(sink.groupIndentation); },
    table: (data, columns) => {
      if (columns !== undefined) require('validators').validateArray(columns, 'properties');
      if (data === null || typeof data !== 'object') methods.log(data);
      else put('info', require('console_class').table(data, columns, sink.options('info')));
    },
    debug: (...args) => write('debug', args),
    info: (...args) => write('info', args),
    dirxml: (...args) => write('log', args),
    groupCollapsed: (...args) => methods.group(...args),
  };
  return Object.defineProperty(methods, '_times', { value: times, writable: true, configurable: true });
}

const streamOf = (level) => (level === 'warn' || level === 'error' ? 'stderr' : 'stdout');
const none = {};
const out = methodsOf({
  groupIndentation: 2,
  options: () => none,
  write(level, text) {
    const name = streamOf(level);
    if (replaced[name]) return void require('console_class').writeTo(replaced[name], text, true);
    const { [name]: hook } = stdio;
    if (hook) require('console_class').writeTo(require('process')[name], text, true);
    else log(level, text);
  },
  clear() {
    const { stdout } = require('process');
    if (stdout.isTTY) stdout.write('\x1b[1;1H\x1b[0J');
  },
});
for (const name of ['stdout', 'stderr']) {
  Object.defineProperty(out, '_' + name, {
    configurable: true,
    get: () => replaced[name] || require('process')[name],
    set: (stream) => { replaced[name] = stream; },
  });
}
Object.defineProperty(out, 'Console', {
  configurable: true,
  get: () => require('console_class').Console,
  set: (value) => Object.defineProperty(out, 'Console', { value, writable: true }),
});
Object.defineProperty(out, Symbol.toStringTag, { value: 'console', configurable: true });
module.exports = out;
stdio.methodsOf = methodsOf;
stdio.streamOf = streamOf;
