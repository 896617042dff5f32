// Rewrites ../internal/regex/unicode.txt with the characters that this Node
// knows:
//
//	node testdata/unicode.js
//
// Lines that begin with s contain texts and are not changed. The property names
// in the file stay as they are. To add a property, add a line with only its
// names.
'use strict';
const fs = require('fs');
const file = `${__dirname}/../internal/regex/unicode.txt`;

function encode(property) {
  const expression = new RegExp(`^\\p{${property}}$`, 'u');
  const out = [];
  let start = -1;
  let last = 0;
  for (let c = 0; c <= 0x110000; c++) {
    const has = c <= 0x10ffff && expression.test(String.fromCodePoint(c));
    if (has && start < 0) start = c;
    if (has || start < 0) continue;
    out.push((start - last).toString(36) + (c - 1 > start ? `+${(c - 1 - start).toString(36)}` : ''));
    last = c - 1;
    start = -1;
  }
  return out.join(' ');
}

const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n').map((line) => {
  if (line.startsWith('#')) return line.replace(/Unicode \d+\.\d+/, `Unicode ${process.versions.unicode}`);
  const [kind, names] = line.split(' ');
  if (kind === 's') return line;
  const [name] = names.split(',');
  return `${kind} ${names} ${encode(kind === '-' ? name : `${kind}=${name}`)}`;
});
fs.writeFileSync(file, `${lines.join('\n')}\n`);
