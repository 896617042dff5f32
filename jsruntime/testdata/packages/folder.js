// The files of a folder of packages, for tests of what code may require.

//// node_modules/.bin/hidden/index.js
module.exports = 1;
//// node_modules/@scope/pkg/index.js
module.exports = class Scoped {};
//// node_modules/@scope/pkg/package.json
{"name":"@scope/pkg"}
//// node_modules/@vault/errors/index.js
module.exports = 'not this';
//// node_modules/axios/index.js
module.exports = 'the operator\'s';
//// node_modules/broken/index.js
this is not javascript
//// node_modules/dep/index.js
module.exports = 'top';
//// node_modules/esm/cjs.cjs
exports.__esModule = true; exports.default = 'inner';
//// node_modules/esm/index.js
import cjs from './cjs.cjs'; import { live, set } from './live.js'; export default function () { set(5); return [cjs.default, live]; } export const url = import.meta.url;
//// node_modules/esm/live.js
export let live = 1; export function set(n) { live = n; }
//// node_modules/esm/package.json
{"name":"esm","type":"module","exports":"./index.js"}
//// node_modules/fs/index.js
module.exports = 'not this';
//// node_modules/greedy/index.js
module.exports = () => { const all = []; for (;;) all.push(Buffer.alloc(1 << 24)); };
//// node_modules/inner/de.js
module.exports = 'de';
//// node_modules/inner/index.js
try { require('nowhere'); } catch (err) { exports.code = err.code; } exports.locale = (n) => require('./' + n);
//// node_modules/late/index.js
const { createRequire } = require('module'); const from = createRequire(__filename); exports.sub = from('./sub'); exports.dep = createRequire('file://' + __filename)('dep'); exports.miss = () => from('nowhere'); exports.names = require('module').builtinModules.includes('crypto');
//// node_modules/late/sub.js
module.exports = 'sub';
//// node_modules/maps/lib/list.js
module.exports = 'list';
//// node_modules/maps/lib/own.js
module.exports = 'own';
//// node_modules/maps/lib/secret.js
module.exports = 'secret';
//// node_modules/maps/lib/x.js
module.exports = 'x';
//// node_modules/maps/m.mjs
export const kind = 'import';
//// node_modules/maps/package.json
{"name":"maps","exports":{".":{"node":{"import":"./m.mjs","require":"./r.cjs"},"default":"./none.js"},
			"./deep/*":"./lib/*.js","./deep/secret":null,"./list":[{"browser":"./none.js"},"./lib/list.js"]},"imports":{"#own":"./lib/own.js"}}
//// node_modules/maps/r.cjs
exports.kind = 'require'; exports.own = require('#own'); exports.self = require('maps/deep/x');
//// node_modules/names/index.js
export default function () {} export let Baz = class Baz { static self = Baz }; export const arrow = () => 1; export class Foo { static Foo = 1; get() { return class Inner {} } } export function plain() {} export const names = (() => { function inner() {} { function inner() {} return [inner.name, (() => {}).name, (function named() {}).name, ({ key() {}, value: () => {} }).value.name] } })();
//// node_modules/names/package.json
{"name":"names","type":"module"}
//// node_modules/native/package.json
{"name":"native","main":"addon.node"}
//// node_modules/plain/data.json
{"a": [1, {"b": 2}]}
//// node_modules/plain/lib/index.js
exports.n = 0; exports.add = () => ++exports.n; exports.dep = require('dep'); exports.late = (name) => require(name);
//// node_modules/plain/lib/sub.js
module.exports = require('./index');
//// node_modules/plain/package.json
{"name":"plain","main":"./lib"}
//// node_modules/plain/proto.json
{"__proto__": 1}
//// node_modules/polluter/index.js
Object.prototype.polluted = true; Array.prototype.map = () => 'hijacked'; globalThis.left = 1;
//// node_modules/thief/index.js
exports.read = () => require('fs').readFileSync('/etc/passwd', 'utf8'); exports.up = (name) => require(name);
