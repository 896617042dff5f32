'use strict';
// The class of consoles that write to streams, and tables.
const { raise } = require('codes');
const { methodsOf, streamOf } = require('stdio');
const { inspect } = require('util');

const consoles = new WeakMap();
const ignore = () => {};

// writeTo writes a line to a stream. Errors other than too much recursion may
// be ignored.
function writeTo(stream, text, ignoreErrors) {
  if (!ignoreErrors) return void stream.write(`${text}\n`);
  const emits = typeof stream.once === 'function' && typeof stream.removeListener === 'function';
  try {
    if (emits) stream.once('error', ignore);
    stream.write(`${text}\n`, (err) => {
      const handled = stream._writableState && stream._writableState.errorEmitted;
      if (err && emits && !handled && stream.listenerCount('error') === 0) stream.once('error', ignore);
    });
  } catch (err) {
    if (err instanceof RangeError && err.message === 'Maximum call stack size exceeded') throw err;
  } finally {
    if (emits) stream.removeListener('error', ignore);
  }
}

function Console(options) {
  if (!new.target) return Reflect.construct(Console, arguments);
  if (!options || typeof options.write === 'function') options = { stdout: options, stderr: arguments[1], ignoreErrors: arguments[2] };
  const { stdout, stderr = stdout, ignoreErrors = true, colorMode = 'auto', inspectOptions, groupIndentation = 2 } = options;
  if (!stdout || typeof stdout.write !== 'function') raise('ERR_CONSOLE_WRITABLE_STREAM', 'stdout');
  if (!stderr || typeof stderr.write !== 'function') raise('ERR_CONSOLE_WRITABLE_STREAM', 'stderr');
  if (typeof colorMode !== 'boolean' && colorMode !== 'auto') raise('ERR_INVALID_ARG_VALUE', 'colorMode', colorMode);
  require('validators').validateInteger(groupIndentation, 'groupIndentation', 0, 1000);
  if (inspectOptions !== undefined) {
    require('validators').validateObject(inspectOptions, 'options.inspectOptions');
    if (inspectOptions.colors !== undefined && options.colorMode !== undefined) raise('ERR_INCOMPATIBLE_OPTION_PAIR', 'options.inspectOptions.color', 'colorMode');
  }
  const streams = { stdout, stderr };
  const colors = (stream) => (colorMode === 'auto' ? !!(stream.isTTY && (typeof stream.getColorDepth === 'function' ? stream.getColorDepth() > 2 : true)) : colorMode);
  const methods = methodsOf({
    groupIndentation,
    options: (level) => inspectOptions || (colors(this[`_${streamOf(level)}`]) ? { colors: true } : {}),
    write: (level, text) => writeTo(this[`_${streamOf(level)}`], text, ignoreErrors),
    clear: () => { if (this._stdout.isTTY) this._stdout.write('\x1b[1;1H\x1b[0J'); },
  });
  consoles.set(this, methods);
  for (const name of ['stdout', 'stderr']) Object.defineProperty(this, `_${name}`, { value: streams[name], writable: true, configurable: true });
  Object.defineProperty(this, '_times', { value: methods._times, writable: true, configurable: true });
  for (const name of Object.keys(methods)) {
    const own = this[name] === Console.prototype[name] ? methods[name] : this[name].bind(this);
    Object.defineProperty(this, name, { value: own, writable: true, configurable: true, enumerable: true });
    Object.defineProperty(own, 'name', { value: name, configurable: true });
  }
}
for (const name of Object.keys(require('console'))) {
  if (name.startsWith('_') || name === 'Console') continue;
  const { [name]: method } = { [name](...args) { return consoles.get(this)[name](...args); } };
  Object.defineProperty(Console.prototype, name, { value: method, writable: true, configurable: true, enumerable: true });
}
Object.defineProperty(Console, Symbol.hasInstance, { value: (value) => value === require('console') || consoles.has(value) });

const width = (text) => [...text].length;

// render draws the rows of a table.
function render(head, rows) {
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => width(row[i]))) + 2);
  const line = (row) => '│' + row.map((cell, i) => {
    const room = widths[i] - width(cell);
    return ' '.repeat(Math.floor(room / 2)) + cell + ' '.repeat(Math.ceil(room / 2));
  }).join('│') + '│';
  const rule = (left, middle, right) => left + widths.map((n) => '─'.repeat(n)).join(middle) + right;
  return [rule('┌', '┬', '┐'), line(head), rule('├', '┼', '┤'), ...rows.map(line), rule('└', '┴', '┘')].join('\n');
}

// table returns data as a table. Columns limits the properties it shows.
function table(data, columns, options) {
  const cell = (value) => inspect(value, {
    maxArrayLength: 3, breakLength: Infinity, ...options,
    depth: value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 2 ? -1 : 0,
  });
  const types = require('util').types;
  const numbered = (head, rows) => render(['(iteration index)', ...head], rows.map((row, i) => [String(i), ...row.map(cell)]));
  if (types.isMap(data)) return numbered(['Key', 'Values'], [...data]);
  if (types.isMapIterator(data)) {
    return /^\[Map Entries\]/.test(inspect(data)) ? numbered(['Key', 'Values'], [...data]) : numbered(['Values'], [...data].map((item) => [item]));
  }
  if (types.isSet(data) || types.isSetIterator(data)) return numbered(['Values'], [...data].map((item) => [item]));

  const names = new Map();
  let plain = false;
  const indexes = Object.keys(data);
  const parts = indexes.map((index) => {
    const row = data[index];
    const primitive = row === null || (typeof row !== 'function' && typeof row !== 'object');
    if (primitive && !columns) { plain = true; return { value: cell(row) }; }
    const cells = {};
    for (const key of columns || Object.keys(row)) {
      names.set(key, true);
      if (!primitive && Object.prototype.hasOwnProperty.call(row, key)) cells[key] = cell(row[key]);
    }
    return { cells };
  });
  if (columns) for (const key of columns) names.set(key, true);
  const keys = [...names.keys()];
  const head = ['(index)', ...keys, ...(plain ? ['Values'] : [])];
  return render(head, parts.map(({ value, cells }, i) => [indexes[i], ...keys.map((key) => (cells && key in cells ? cells[key] : '')), ...(plain ? [value === undefined ? '' : value] : [])]));
}

module.exports = { Console, table, writeTo };
