'use strict';
// A process object for inspection only. It reveals nothing of the host.
const tick = sys('tick');
const nanoseconds = sys('hrtime');
const EventEmitter = require('events');

const out = Object.create(Object.create(EventEmitter.prototype));
const hrtime = (before) => {
  if (before !== undefined) {
    const { validateArray } = require('validators');
    validateArray(before, 'time');
    if (before.length !== 2) require('codes').raise('ERR_OUT_OF_RANGE', 'time', '2', before.length);
  }
  const now = nanoseconds();
  let seconds = Math.floor(now / 1e9);
  let rest = now % 1e9;
  if (before) {
    seconds -= before[0];
    rest -= before[1];
    if (rest < 0) { seconds--; rest += 1e9; }
  }
  return [seconds, rest];
};
hrtime.bigint = () => BigInt(nanoseconds());
const memory = () => ({ rss: 50000000, heapTotal: 20000000, heapUsed: 10000000, external: 1000000, arrayBuffers: 10000 });
memory.rss = () => 50000000;
const stop = (name) => () => {
  const err = new Error(`process.${name}() is not supported`);
  err.code = 'ERR_FEATURE_UNAVAILABLE_ON_PLATFORM';
  throw err;
};
// writer returns a stream that writes to the log. It remembers in stdio which
// function code puts in place of its write.
const stdio = require('stdio');
const writer = (name, fd, level) => {
  const stream = Object.assign(Object.create(EventEmitter.prototype), { fd, isTTY: false, writable: true, end() {} });
  const write = (text, encoding, done) => {
    sys('log')(level, String(text).replace(/\n$/, ''));
    const callback = typeof encoding === 'function' ? encoding : done;
    if (typeof callback === 'function') tick(() => callback(null));
    return true;
  };
  return Object.defineProperty(stream, 'write', {
    enumerable: true,
    configurable: true,
    get: () => stdio[name] || write,
    set: (value) => { stdio[name] = value === write ? undefined : value; },
  });
};

module.exports = Object.assign(out, {
  title: 'node',
  version: 'v16.20.2',
  versions: { node: '16.20.2', v8: '9.4.146.26-node.26', modules: '93' },
  arch: 'x64',
  platform: 'linux',
  release: { name: 'node', lts: 'Gallium' },
  argv: ['/usr/bin/node', '/app/index.js'],
  argv0: 'node',
  execArgv: [],
  execPath: '/usr/bin/node',
  env: {},
  pid: 1,
  ppid: 0,
  exitCode: undefined,
  features: {},
  config: { target_defaults: {}, variables: {} },
  cwd: () => '/app',
  umask: () => 18,
  uptime: () => nanoseconds() / 1e9,
  hrtime,
  memoryUsage: memory,
  cpuUsage: () => ({ user: 1000, system: 1000 }),
  resourceUsage: () => ({}),
  nextTick(callback, ...args) {
    if (typeof callback !== 'function') require('codes').raise('ERR_INVALID_CALLBACK', callback);
    tick(() => callback(...args));
  },
  emitWarning(warning, type, code) {
    if (type !== null && typeof type === 'object') ({ type, code } = type);
    if (typeof warning === 'string') {
      warning = new Error(warning);
      Object.defineProperty(warning, 'name', { value: String(type || 'Warning'), writable: true, configurable: true, enumerable: false });
      if (code !== undefined) warning.code = code;
    } else if (!(warning instanceof Error)) {
      require('codes').raise('ERR_INVALID_ARG_TYPE', 'warning', ['Error', 'string'], warning);
    }
    if (warning.name === 'DeprecationWarning' && out.noDeprecation) return;
    sys('log')('warn', `${warning.code ? `[${warning.code}] ` : ''}${warning.name}: ${warning.message}`);
    tick(() => out.emit('warning', warning));
  },
  exit: stop('exit'),
  abort: stop('abort'),
  kill: stop('kill'),
  chdir: stop('chdir'),
  stdout: writer('stdout', 1, 'info'),
  stderr: writer('stderr', 2, 'error'),
});
Object.defineProperty(out, Symbol.toStringTag, { value: 'process' });
