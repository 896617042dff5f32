'use strict';
// The parts of Node's module system that make sense without files: require from
// another place, and the names of the modules.
const from = sys('require.from');

function createRequire(place) {
  let path = place;
  if (typeof place === 'object' && place !== null && typeof place.href === 'string') path = place.href;
  if (typeof path !== 'string' || !/^(file:\/\/)?\//.test(path)) {
    throw Object.assign(new TypeError(`The argument 'filename' must be a file URL object, file URL string, or absolute path string. Received ${String(place)}`), { code: 'ERR_INVALID_ARG_VALUE' });
  }
  if (path.startsWith('file://')) path = decodeURIComponent(path.slice(7));
  const require = from(path);
  return Object.assign((name) => require(name), { cache: Object.create(null), main: undefined });
}

const builtinModules = sys('module.names')();
const isBuiltin = (name) => builtinModules.includes(String(name).replace(/^node:/, ''));

function Module(id = '') {
  this.id = id;
  this.exports = {};
  this.loaded = false;
}
Object.assign(Module, { createRequire, builtinModules, isBuiltin, Module, _extensions: Object.create(null), _cache: Object.create(null) });

module.exports = Module;
