'use strict';
// console writes to the log of the embedding program, one line per call.
const log = sys('log');
const counts = {};
const times = {};
let indent = '';

function write(level, args) {
  if (args.length === 1 && typeof args[0] === 'string') return log(level, indent + args[0]);
  log(level, indent + require('util').format(...args));
}

const labelOf = (label) => (label === undefined ? 'default' : String(label));
const elapsed = (label) => labelOf(label) + ': ' + (sys('hrtime')() - times[labelOf(label)]) / 1e6 + 'ms';

const out = {
  log: (...args) => write('log', args),
  info: (...args) => write('info', args),
  debug: (...args) => write('debug', args),
  warn: (...args) => write('warn', args),
  error: (...args) => write('error', args),
  trace: (...args) => write('error', ['Trace: ' + require('util').format(...args)]),
  dir: (value, options) => write('info', [require('util').inspect(value, options)]),
  table: (value) => write('info', [value]),
  assert: (ok, ...args) => { if (!ok) write('error', args.length ? ['Assertion failed:', ...args] : ['Assertion failed']); },
  count: (label) => {
    const key = labelOf(label);
    counts[key] = (counts[key] || 0) + 1;
    write('info', [key + ': ' + counts[key]]);
  },
  countReset: (label) => { delete counts[labelOf(label)]; },
  time: (label) => { times[labelOf(label)] = sys('hrtime')(); },
  timeLog: (label) => { if (labelOf(label) in times) write('info', [elapsed(label)]); },
  timeEnd: (label) => {
    if (labelOf(label) in times) write('info', [elapsed(label)]);
    delete times[labelOf(label)];
  },
  group: (...args) => { if (args.length) write('info', args); indent += '  '; },
  groupEnd: () => { indent = indent.slice(2); },
};
out.groupCollapsed = out.group;
out.dirxml = out.log;
module.exports = out;
