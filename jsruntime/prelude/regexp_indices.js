'use strict';
// The flag d of regular expressions. The engine does not tell where a group
// matched, so that a twin of the pattern asks for it: at the start of each
// group a lookahead captures the rest of the text, whose length gives the place.
const rest = '(?=([\\s\\S]*))';

// twin rewrites a pattern. Group k becomes group 2k-1, and 2k tells its place.
function twin(source) {
  let out = '';
  let inClass = false;
  const closers = [];
  for (let i = 0; i < source.length; i++) {
    const c = source[i];
    const reference = !inClass && c === '\\' && /^[1-9]\d*/.exec(source.slice(i + 1));
    if (reference) {
      out += '\\' + (2 * Number(reference[0]) - 1);
      i += reference[0].length;
    } else if (c === '\\') {
      out += c + source[++i];
    } else if (inClass || c === '[') {
      inClass = c !== ']';
      out += c;
    } else if (c === '(') {
      const head = /^\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?/.exec(source.slice(i))[0];
      const captures = head === '(' || (head.startsWith('(?<') && head.length > 4);
      out += head + (captures ? rest + '(?:' : '');
      closers.push(captures ? '))' : ')');
      i += head.length - 1;
    } else if (c === ')') {
      out += closers.pop() || ')';
    } else {
      out += c;
    }
  }
  return out;
}

// names lists the groups that have one, by number.
function namesOf(source) {
  const names = [];
  let count = 0;
  for (const m of source.replace(/\\./g, '..').replace(/\[[^\]]*\]/g, (t) => '.'.repeat(t.length)).matchAll(/\((?!\?)|\(\?<([A-Za-z_$][\w$]*)>/g)) names[++count] = m[1];
  return names;
}

// addIndices gives a regular expression of the engine the flag d.
module.exports = function addIndices(regexp, Native, source) {
  const { flags } = new Native(source, [...regexp.flags].filter((c) => c !== 'd').join('').replace('v', 'u'));
  const finder = new Native(twin(source), flags.includes('g') || flags.includes('y') ? flags : flags + 'g');
  const names = namesOf(source);
  const sticky = flags.includes('g') || flags.includes('y');
  const hidden = (name, value) => Object.defineProperty(regexp, name, { value, writable: true, configurable: true });
  hidden('exec', function exec(text) {
    text = `${text}`;
    finder.lastIndex = sticky ? this.lastIndex : 0;
    const found = Native.prototype.exec.call(finder, text);
    if (sticky) this.lastIndex = found ? finder.lastIndex : 0;
    if (!found) return null;
    const match = [found[0]];
    const indices = [[found.index, found.index + found[0].length]];
    for (let k = 1; 2 * k < found.length; k++) {
      const value = found[2 * k - 1];
      match[k] = value;
      indices[k] = value === undefined ? undefined : [text.length - found[2 * k].length, text.length - found[2 * k].length + value.length];
    }
    const named = names.some(Boolean);
    const pick = (list) => (named ? names.reduce((all, name, k) => { if (name) all[name] = list[k]; return all; }, Object.create(null)) : undefined);
    Object.assign(match, { index: found.index, input: text, groups: pick(match) });
    indices.groups = pick(indices);
    match.indices = indices;
    return match;
  });
  return regexp;
};
