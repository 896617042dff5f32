'use strict';
// parts returns an object that behaves like whole, with further members of other
// modules. Reading a member loads its module. Whatever else code does with the object
// loads all of them first, and then happens to whole. whole has a placeholder for each
// member, so that the order of its keys does not depend on that.
module.exports = (whole, from) => {
  const load = (name) => {
    const file = from[name];
    if (file === undefined) return;
    const part = require(file);
    const members = part.api || part;
    for (const each of Object.keys(from)) {
      if (from[each] !== file) continue;
      delete from[each];
      whole[each] = members[each];
    }
  };
  const handler = { get(target, name) { load(name); return target[name]; } };
  for (const trap of ['set', 'getOwnPropertyDescriptor', 'defineProperty', 'deleteProperty', 'preventExtensions']) {
    handler[trap] = (target, ...args) => {
      Object.keys(from).forEach(load);
      for (const each of Object.keys(handler)) delete handler[each];
      return Reflect[trap](target, ...args);
    };
  }
  return new Proxy(whole, handler);
};
