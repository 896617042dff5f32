// Typical work of tenants' code. Each part is the body of a function that runs here
// and in Node.

//// XML of 8000 elements
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const build = (e) => '<' + e.name + Object.keys(e.attributes).map((k) => ' ' + k + '="' + escape(e.attributes[k]) + '"').join('') + '>' + (Array.isArray(e.children) ? e.children.map(build).join('') : escape(e.children)) + '</' + e.name + '>';
const rows = [];
for (let i = 0; i < 2000; i++) rows.push({ name: 'row', attributes: { id: i, state: 'a&b' }, children: ['name', 'amount', 'text'].map((name) => ({ name, attributes: {}, children: name + ' <' + i + '>' })) });
return build({ name: 'rows', attributes: {}, children: rows }).length;

//// CSV of 1 MB
const line = 'customer 17,"Doe, ""Jane""",4242424242424242,1999.95,2024-05-01\n';
const text = line.repeat(Math.ceil(1e6 / line.length));
const rows = [];
let row = [], field = '', quoted = false;
for (let i = 0; i < text.length; i++) {
  const c = text[i];
  if (quoted) { if (c !== '"') field += c; else if (text[i + 1] === '"') { field += c; i++; } else quoted = false; }
  else if (c === '"') quoted = true;
  else if (c === ',') { row.push(field); field = ''; }
  else if (c === '\n') { row.push(field); rows.push(row); row = []; field = ''; }
  else field += c;
}
return rows.length;

//// JSON of 1 MB
const items = [];
for (let i = 0; i < 8000; i++) items.push({ id: i, name: 'customer ' + i, number: '4242424242424242', amount: i * 1.25, tags: ['a', 'b'], ok: i % 2 === 0, none: null });
let n = 0;
for (let i = 0; i < 3; i++) n += JSON.parse(JSON.stringify(items)).length;
return n;

//// AES, HMAC and SHA-256
const c = require('crypto');
const key = Buffer.alloc(32, 7);
const data = Buffer.alloc(1024, 'x');
let n = 0;
for (let i = 0; i < 500; i++) {
  const iv = Buffer.alloc(12, i);
  const seal = c.createCipheriv('aes-256-gcm', key, iv);
  const sealed = Buffer.concat([seal.update(data), seal.final()]);
  const open = c.createDecipheriv('aes-256-gcm', key, iv);
  open.setAuthTag(seal.getAuthTag());
  n += Buffer.concat([open.update(sealed), open.final()]).length;
  n += c.createHmac('sha256', key).update(data).digest('hex').length + c.createHash('sha256').update(data).digest().length;
}
return n;

//// 500 JWTs
const c = require('crypto');
const mac = (text) => c.createHmac('sha256', 'secret').update(text).digest('base64url');
let n = 0;
for (let i = 0; i < 500; i++) {
  const head = Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'JWT' })).toString('base64url');
  const text = head + '.' + Buffer.from(JSON.stringify({ sub: 'user ' + i, iat: i, scope: ['a', 'b'] })).toString('base64url');
  const token = text + '.' + mac(text);
  const [h, p, s] = token.split('.');
  if (!c.timingSafeEqual(Buffer.from(mac(h + '.' + p)), Buffer.from(s))) throw new Error('bad');
  n += JSON.parse(Buffer.from(p, 'base64url').toString()).iat;
}
return n;

//// 100000 appends
let text = '';
for (let i = 0; i < 100000; i++) text += 'x';
return text.length;
