'use strict';
// net without a network: addresses can be parsed, and nothing connects.
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

module.exports = { isIP, isIPv4, isIPv6, ...require('denied').each('net.', 'BlockList connect createConnection createServer Server Socket Stream') };
