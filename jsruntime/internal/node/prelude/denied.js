'use strict';
// Shared by modules that can be loaded but not used. Code has no access to the
// machine, so functions that need it throw.
function denied(name) {
  const err = new Error(`${name} is not available: code has no access to the machine`);
  err.code = 'ERR_ACCESS_DENIED';
  err.syscall = name;
  return err;
}

const named = (f, name) => Object.defineProperty(f, 'name', { value: name.slice(name.lastIndexOf('.') + 1) });

// refuse returns a function that throws. rejects returns a function whose
// promise rejects.
const refuse = (name) => named(function () { throw denied(name); }, name);
const rejects = (name) => named(async function () { throw denied(name); }, name);

// each makes an object of functions, one for each word. Classes are words too:
// a package may extend one, and creating one throws.
const each = (prefix, words, make = refuse) => Object.fromEntries(words.split(' ').map((word) => [word, make(prefix + word)]));

// numbers reads NAME=1 NAME=2.
const numbers = (words) => Object.fromEntries(words.split(' ').map((word) => word.split('=')).map(([name, n]) => [name, +n]));

module.exports = { refuse, rejects, each, numbers };
