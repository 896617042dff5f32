'use strict';
// path, for POSIX and for Windows.
const { validateString, validateObject } = require('validators');
const cwd = () => '/app';

// clean resolves the segments . and .. of a list.
function clean(parts, absolute) {
  const out = [];
  for (const part of parts) {
    if (part === '' || part === '.') continue;
    if (part !== '..') out.push(part);
    else if (out.length && out[out.length - 1] !== '..') out.pop();
    else if (!absolute) out.push('..');
  }
  return out;
}

function format(sep, parts) {
  validateObject(parts, 'pathObject');
  const dir = parts.dir || parts.root;
  const base = parts.base || `${parts.name || ''}${parts.ext || ''}`;
  if (!dir) return base;
  return dir === parts.root ? dir + base : dir + sep + base;
}

// baseOf returns the last segment, without trailing separators.
function baseOf(rest, isSep) {
  let end = rest.length;
  while (end > 0 && isSep(rest[end - 1])) end--;
  let start = end;
  while (start > 0 && !isSep(rest[start - 1])) start--;
  return rest.slice(start, end);
}

function withoutSuffix(base, suffix) {
  return suffix !== '' && base !== suffix && base.endsWith(suffix) ? base.slice(0, -suffix.length) : base;
}

function basenameOf(path, suffix, rest, isSep) {
  if (suffix !== undefined) validateString(suffix, 'ext');
  if (suffix !== undefined && suffix === path) return '';
  const base = baseOf(rest, isSep);
  return suffix === undefined ? base : withoutSuffix(base, suffix);
}

function extensionOf(base) {
  const dot = base.lastIndexOf('.');
  return dot <= 0 || base === '..' ? '' : base.slice(dot);
}

const isSlash = (c) => c === '/';
const posix = {
  sep: '/',
  delimiter: ':',
  resolve(...paths) {
    let out = '';
    for (let i = paths.length - 1; i >= 0 && out[0] !== '/'; i--) {
      validateString(paths[i], 'path');
      if (paths[i] !== '') out = paths[i] + (out ? '/' + out : '');
    }
    if (out[0] !== '/') out = cwd() + (out ? '/' + out : '');
    return '/' + clean(out.split('/'), true).join('/');
  },
  normalize(path) {
    validateString(path, 'path');
    if (path === '') return '.';
    const absolute = path[0] === '/';
    const slash = path.endsWith('/');
    let out = clean(path.split('/'), absolute).join('/');
    if (out === '') return absolute ? '/' : slash ? './' : '.';
    if (slash) out += '/';
    return absolute ? '/' + out : out;
  },
  isAbsolute(path) { validateString(path, 'path'); return path[0] === '/'; },
  join(...paths) {
    for (const path of paths) validateString(path, 'path');
    const joined = paths.filter((path) => path !== '').join('/');
    return joined === '' ? '.' : posix.normalize(joined);
  },
  relative(from, to) {
    validateString(from, 'from');
    validateString(to, 'to');
    if (from === to) return '';
    const a = posix.resolve(from).split('/').filter(Boolean);
    const b = posix.resolve(to).split('/').filter(Boolean);
    let same = 0;
    while (same < a.length && same < b.length && a[same] === b[same]) same++;
    return [...a.slice(same).map(() => '..'), ...b.slice(same)].join('/');
  },
  toNamespacedPath: (path) => path,
  dirname(path) {
    validateString(path, 'path');
    if (path === '') return '.';
    let end = path.length;
    while (end > 1 && path[end - 1] === '/') end--;
    const slash = path.lastIndexOf('/', end - 1);
    if (slash < 0) return '.';
    if (slash === 0) return path[0] === '/' ? '/' : '.';
    return slash === 1 && path[0] === '/' ? '//' : path.slice(0, slash);
  },
  basename(path, suffix) { validateString(path, 'path'); return basenameOf(path, suffix, path, isSlash); },
  extname(path) { validateString(path, 'path'); return extensionOf(baseOf(path, isSlash)); },
  format: (parts) => format('/', parts),
  parse(path) {
    validateString(path, 'path');
    const base = baseOf(path, isSlash);
    const ext = extensionOf(base);
    const root = path[0] === '/' ? '/' : '';
    let end = path.length;
    while (end > root.length && path[end - 1] === '/') end--;
    const slash = path.slice(0, end).lastIndexOf('/');
    const dir = slash > 0 ? path.slice(0, slash) : slash === 0 ? '/' : root;
    return { root, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
  },
};

const isSep = (c) => c === '/' || c === '\\';
const isLetter = (c) => /^[A-Za-z]$/.test(c || '');

// split splits a Windows path into its device, whether it is absolute, and the
// rest. A device is a drive (C:) or a share (\\server\share).
function split(path) {
  if (isSep(path[0]) && isSep(path[1])) {
    const m = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)/.exec(path);
    if (m) return { device: `\\\\${m[1]}\\${m[2]}`, raw: m[0], absolute: true, rest: path.slice(m[0].length), share: true };
  }
  if (isLetter(path[0]) && path[1] === ':') {
    return { device: path.slice(0, 2), raw: path.slice(0, 2), absolute: isSep(path[2]), rest: path.slice(2), share: false };
  }
  return { device: '', raw: '', absolute: isSep(path[0]), rest: path, share: false };
}

// rootOf returns the part before the first segment, as written.
function rootOf(path) {
  const { raw, rest, share } = split(path);
  const slash = isSep(rest[0]) ? rest[0] : '';
  return share && slash === '' && rest === '' ? raw : raw + slash;
}

const win32 = {
  sep: '\\',
  delimiter: ';',
  resolve(...paths) {
    let device = '';
    let tail = '';
    let absolute = false;
    for (let i = paths.length - 1; i >= -1 && !(device && absolute); i--) {
      let path = i >= 0 ? paths[i] : cwd();
      if (i >= 0) validateString(path, 'path');
      if (i < 0 && device) path = `${device}\\`;
      if (path === '') continue;
      const part = split(path);
      if (part.device) {
        if (device && part.device.toLowerCase() !== device.toLowerCase()) continue;
        if (!device) device = part.device;
      }
      if (absolute) continue;
      tail = `${part.rest}\\${tail}`;
      absolute = part.absolute;
    }
    const out = clean(tail.split(/[\\/]+/), absolute).join('\\');
    return absolute ? `${device}\\${out}` : `${device}${out}` || '.';
  },
  normalize(path) {
    validateString(path, 'path');
    if (path === '') return '.';
    if (path.length === 1) return path === '/' ? '\\' : path;
    const { device, absolute, rest, share } = split(path);
    let tail = clean(rest.split(/[\\/]+/), absolute).join('\\');
    if (tail === '' && !absolute) tail = '.';
    if (tail !== '' && isSep(path[path.length - 1]) && !(share && rest === '')) tail += '\\';
    if (share && rest === '') return `${device}\\`;
    return device + (absolute ? '\\' : '') + tail;
  },
  isAbsolute(path) {
    validateString(path, 'path');
    return isSep(path[0]) || (isLetter(path[0]) && path[1] === ':' && isSep(path[2]));
  },
  join(...paths) {
    for (const path of paths) validateString(path, 'path');
    const list = paths.filter((path) => path !== '');
    if (list.length === 0) return '.';
    let joined = list.join('\\');
    // Only the first path can name a share. Slashes that become adjacent by
    // joining do not.
    const first = list[0];
    let share = isSep(first[0]) && isSep(first[1]) && first.length > 2 && !isSep(first[2]);
    if (first.length === 2 && isSep(first[0]) && isSep(first[1])) share = true;
    if (!share) joined = joined.replace(/^[\\/]{2,}/, '\\');
    return win32.normalize(joined);
  },
  relative(from, to) {
    validateString(from, 'from');
    validateString(to, 'to');
    if (from === to) return '';
    const fromFull = win32.resolve(from);
    const toFull = win32.resolve(to);
    if (fromFull.toLowerCase() === toFull.toLowerCase()) return '';
    const a = fromFull.split('\\').filter(Boolean);
    const b = toFull.split('\\').filter(Boolean);
    let same = 0;
    while (same < a.length && same < b.length && a[same].toLowerCase() === b[same].toLowerCase()) same++;
    if (same === 0) return toFull;
    return [...a.slice(same).map(() => '..'), ...b.slice(same)].join('\\');
  },
  toNamespacedPath(path) {
    if (typeof path !== 'string' || path === '') return path;
    const full = win32.resolve(path);
    if (full.length <= 2) return path;
    if (full.startsWith('\\\\') && full[2] !== '?' && full[2] !== '.') return `\\\\?\\UNC\\${full.slice(2)}`;
    if (isLetter(full[0]) && full[1] === ':' && full[2] === '\\') return `\\\\?\\${full}`;
    return path;
  },
  dirname(path) {
    validateString(path, 'path');
    if (path === '') return '.';
    const root = rootOf(path);
    let end = path.length;
    while (end > root.length && isSep(path[end - 1])) end--;
    while (end > root.length && !isSep(path[end - 1])) end--;
    if (end <= root.length) return root || '.';
    return path.slice(0, Math.max(end - 1, root.length));
  },
  basename(path, suffix) {
    validateString(path, 'path');
    const rest = isLetter(path[0]) && path[1] === ':' ? path.slice(2) : path;
    return basenameOf(path, suffix, rest, isSep);
  },
  extname(path) {
    validateString(path, 'path');
    return extensionOf(baseOf(isLetter(path[0]) && path[1] === ':' ? path.slice(2) : path, isSep));
  },
  format: (parts) => format('\\', parts),
  parse(path) {
    validateString(path, 'path');
    const root = rootOf(path);
    const rest = path.slice(root.length);
    const base = baseOf(rest, isSep);
    const ext = extensionOf(base);
    let end = rest.length;
    while (end > 0 && isSep(rest[end - 1])) end--;
    end -= base.length;
    const dir = end > 0 ? path.slice(0, root.length + end - 1) : root;
    return { root, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
  },
};

for (const module of [posix, win32]) {
  module._makeLong = module.toNamespacedPath;
  module.posix = posix;
  module.win32 = win32;
}
module.exports = posix;
