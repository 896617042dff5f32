'use strict';
// net without a network: addresses can be parsed, and nothing connects.
const { refuse } = require('denied');
const { Duplex } = require('stream');
const EventEmitter = require('events');

const isIPv4 = (text) => /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/.test(`${text}`);
function isIPv6(text) {
  let [address, zone] = `${text}`.split('%', 2);
  if (`${text}`.includes('%') && !/^[0-9a-zA-Z.:-]+$/.test(zone)) return false;
  const last = address.slice(address.lastIndexOf(':') + 1);
  if (last.includes('.')) {
    if (!isIPv4(last)) return false;
    address = address.slice(0, -last.length) + '0:0';
  }
  const halves = address.split('::');
  const groups = (half) => (half === '' ? [] : half.split(':'));
  const all = halves.flatMap(groups);
  return halves.length <= 2 && all.every((group) => /^[0-9a-fA-F]{1,4}$/.test(group)) &&
    (halves.length === 2 ? all.length <= 7 : all.length === 8);
}
const isIP = (text) => (isIPv4(text) ? 4 : isIPv6(text) ? 6 : 0);

class Socket extends Duplex {
  constructor(options) { super(options); this.connecting = false; this.destroyed = false; }
  setTimeout() { return this; }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  ref() { return this; }
  unref() { return this; }
  address() { return {}; }
}
Socket.prototype.connect = refuse('net.Socket.connect');

class Server extends EventEmitter {
  constructor(options, listener) {
    super();
    const connection = typeof options === 'function' ? options : listener;
    if (connection) this.on('connection', connection);
    this.listening = false;
  }
  address() { return null; }
  close(callback) { if (callback) callback(); return this; }
  ref() { return this; }
  unref() { return this; }
}
Server.prototype.listen = refuse('net.Server.listen');

// bits returns an address as a number, with its family.
function bits(address, family) {
  if (family === 'ipv4' ? !isIPv4(address) : !isIPv6(address)) {
    const err = new Error('Invalid address');
    err.code = 'ERR_INVALID_ADDRESS';
    throw err;
  }
  if (family === 'ipv4') return address.split('.').reduce((n, part) => n * 256n + BigInt(part), 0n);
  const [head, tail] = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, a, b, c, d) =>
    ((+a << 8) | +b).toString(16) + ':' + ((+c << 8) | +d).toString(16)).split('::');
  const groups = (half) => (half ? half.split(':') : []);
  const after = tail === undefined ? [] : groups(tail);
  const before = groups(head);
  const all = [...before, ...Array(8 - before.length - after.length).fill('0'), ...after];
  return all.reduce((n, part) => n * 65536n + BigInt('0x' + part), 0n);
}

class BlockList {
  #rules = [];
  addAddress(address, family = 'ipv4') { this.addRange(address, address, family); }
  addRange(start, end, family = 'ipv4') { this.#rules.push([family, bits(start, family), bits(end, family)]); }
  addSubnet(net, prefix, family = 'ipv4') {
    const size = 1n << BigInt((family === 'ipv4' ? 32 : 128) - prefix);
    const first = bits(net, family) / size * size;
    this.#rules.push([family, first, first + size - 1n]);
  }
  check(address, family = 'ipv4') {
    if (family === 'ipv4' ? !isIPv4(address) : !isIPv6(address)) return false;
    const n = bits(address, family);
    return this.#rules.some(([kind, first, last]) => kind === family && first <= n && n <= last);
  }
}

module.exports = {
  isIP, isIPv4, isIPv6,
  BlockList, Socket, Stream: Socket, Server,
  connect: refuse('net.connect'),
  createConnection: refuse('net.createConnection'),
  createServer: (options, listener) => new Server(options, listener),
};
