'use strict';
// path, as on POSIX systems.
function check(path, name = 'path') {
  if (typeof path !== 'string') {
    const err = new TypeError(`The "${name}" argument must be of type string. Received ${path === null ? 'null' : typeof path}`);
    err.code = 'ERR_INVALID_ARG_TYPE';
    throw err;
  }
}

function clean(parts, absolute) {
  const out = [];
  for (const part of parts) {
    if (part === '' || part === '.') continue;
    if (part !== '..') out.push(part);
    else if (out.length && out[out.length - 1] !== '..') out.pop();
    else if (!absolute) out.push('..');
  }
  return out.join('/');
}

function normalize(path) {
  check(path);
  if (path === '') return '.';
  const absolute = path[0] === '/';
  let out = clean(path.split('/'), absolute);
  if (out === '' && !absolute) out = '.';
  if (out !== '' && path.endsWith('/')) out += '/';
  return absolute ? '/' + out : out;
}

function resolve(...paths) {
  let out = '';
  for (let i = paths.length - 1; i >= 0 && out[0] !== '/'; i--) {
    check(paths[i]);
    if (paths[i] !== '') out = paths[i] + (out ? '/' + out : '');
  }
  if (out[0] !== '/') out = '/app' + (out ? '/' + out : '');
  return '/' + clean(out.split('/'), true);
}

function basename(path, suffix) {
  check(path);
  const base = path.replace(/\/+$/, '').replace(/^.*\//, '');
  return suffix !== undefined && base.endsWith(suffix) && base !== suffix ? base.slice(0, -suffix.length) : base;
}

function extname(path) {
  const base = basename(path);
  const dot = base.lastIndexOf('.');
  return dot <= 0 || base === '..' ? '' : base.slice(dot);
}

function dirname(path) {
  check(path);
  if (path === '') return '.';
  const trimmed = path.replace(/\/+$/, '');
  if (trimmed === '') return '/';
  const slash = trimmed.lastIndexOf('/');
  if (slash < 0) return '.';
  return trimmed.slice(0, slash).replace(/\/+$/, '') || '/';
}

function relative(from, to) {
  const a = resolve(from).split('/').filter(Boolean);
  const b = resolve(to).split('/').filter(Boolean);
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => '..'), ...b.slice(same)].join('/');
}

function parse(path) {
  check(path);
  const base = basename(path);
  const ext = extname(path);
  const root = path[0] === '/' ? '/' : '';
  let dir = dirname(path);
  if (dir === '.' && !path.replace(/\/+$/, '').includes('/')) dir = '';
  return { root, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

function format(parts) {
  const dir = parts.dir || parts.root;
  const base = parts.base || (parts.name || '') + (parts.ext || '');
  if (!dir) return base;
  return dir === parts.root ? dir + base : dir + '/' + base;
}

function join(...paths) {
  for (const path of paths) check(path);
  const joined = paths.filter((path) => path !== '').join('/');
  return joined === '' ? '.' : normalize(joined);
}

module.exports = {
  sep: '/', delimiter: ':', normalize, resolve, basename, extname, dirname, relative, parse, format, join,
  isAbsolute(path) { check(path); return path[0] === '/'; },
  toNamespacedPath: (path) => path,
  win32: null,
};
module.exports.posix = module.exports;
