'use strict';
// Punycode (RFC 3492).
const base = 36;
const tMin = 1;
const tMax = 26;
const most = 0x7fffffff;

function fail(text) { throw new RangeError(text); }

// adapt returns the bias after a delta, as in section 6.1 of the RFC.
function adapt(delta, points, first) {
  let k = 0;
  delta = first ? Math.floor(delta / 700) : delta >> 1;
  for (delta += Math.floor(delta / points); delta > 455; k += base) delta = Math.floor(delta / 35);
  return Math.floor(k + 36 * delta / (delta + 38));
}
const threshold = (k, bias) => (k <= bias ? tMin : k >= bias + tMax ? tMax : k - bias);
const digitOf = (code) => (code >= 48 && code < 58 ? code - 22 : code >= 65 && code < 91 ? code - 65 : code >= 97 && code < 123 ? code - 97 : base);
const letterOf = (digit) => String.fromCharCode(digit < 26 ? digit + 97 : digit + 22);

const ucs2 = {
  decode: (text) => Array.from(text, (c) => c.codePointAt(0)),
  encode: (points) => String.fromCodePoint(...points),
};

function decode(input) {
  const end = Math.max(input.lastIndexOf('-'), 0);
  const out = [];
  for (let i = 0; i < end; i++) {
    if (input.charCodeAt(i) >= 128) fail('Illegal input >= 0x80 (not a basic code point)');
    out.push(input.charCodeAt(i));
  }
  let n = 128;
  let i = 0;
  let bias = 72;
  for (let at = end > 0 ? end + 1 : 0; at < input.length;) {
    const before = i;
    for (let weight = 1, k = base; ; k += base) {
      if (at >= input.length) fail('Invalid input');
      const digit = digitOf(input.charCodeAt(at++));
      if (digit >= base) fail('Invalid input');
      if (digit > Math.floor((most - i) / weight)) fail('Overflow: input needs wider integers to process');
      i += digit * weight;
      const t = threshold(k, bias);
      if (digit < t) break;
      if (weight > Math.floor(most / (base - t))) fail('Overflow: input needs wider integers to process');
      weight *= base - t;
    }
    bias = adapt(i - before, out.length + 1, before === 0);
    n += Math.floor(i / (out.length + 1));
    i %= out.length + 1;
    out.splice(i++, 0, n);
  }
  return String.fromCodePoint(...out);
}

function encode(input) {
  const points = ucs2.decode(input);
  const out = points.filter((c) => c < 128).map((c) => String.fromCharCode(c));
  const basic = out.length;
  if (basic) out.push('-');
  let n = 128;
  let delta = 0;
  let bias = 72;
  for (let handled = basic; handled < points.length; delta++, n++) {
    const next = Math.min(...points.filter((c) => c >= n));
    if (next - n > Math.floor((most - delta) / (handled + 1))) fail('Overflow: input needs wider integers to process');
    delta += (next - n) * (handled + 1);
    n = next;
    for (const c of points) {
      if (c < n) delta++;
      if (c !== n) continue;
      let q = delta;
      for (let k = base; ; k += base) {
        const t = threshold(k, bias);
        if (q < t) break;
        out.push(letterOf(t + (q - t) % (base - t)));
        q = Math.floor((q - t) / (base - t));
      }
      out.push(letterOf(q));
      bias = adapt(delta, handled + 1, handled === basic);
      delta = 0;
      handled++;
    }
  }
  return out.join('');
}

// labels changes each part of a domain, but not the user of an address.
function labels(text, change) {
  const at = text.lastIndexOf('@');
  const parts = text.slice(at + 1).replace(/[\u3002\uFF0E\uFF61]/g, '.').split('.');
  return text.slice(0, at + 1) + parts.map(change).join('.');
}

module.exports = {
  version: '2.1.0',
  ucs2,
  decode,
  encode,
  toASCII: (text) => labels(text, (part) => (/[^\0-\x7E]/.test(part) ? 'xn--' + encode(part) : part)),
  toUnicode: (text) => labels(text, (part) => (/^xn--/.test(part) ? decode(part.slice(4).toLowerCase()) : part)),
};
