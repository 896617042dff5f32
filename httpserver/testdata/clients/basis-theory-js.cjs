// Every resource of @basis-theory/basis-theory-js that the server offers. It
// runs unmodified, against a server with the prefix BT-.
const assert = require('node:assert/strict');
const { BasisTheory } = require('@basis-theory/basis-theory-js');

const client = (key) => new BasisTheory().init(key, { apiBaseUrl: process.env.VAULT });

const checks = {
  async tokens({ app }) {
    const made = await app.tokens.create({
      type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
      metadata: { userId: 'jane' }, containers: ['/pci/high/'], deduplicateToken: false,
    }, { idempotencyKey: 'js-create', correlationId: 'js-trace' });
    assert.equal(made.data.number, 'XXXXXXXXXXXX4242');
    assert.deepEqual(made.metadata, { userId: 'jane' });
    const again = await app.tokens.create({ type: 'card', data: { number: '4242424242424242' } }, { idempotencyKey: 'js-create' });
    assert.equal(again.id, made.id);
    assert.equal((await app.tokens.retrieve(made.id)).id, made.id);
    const patched = await app.tokens.update(made.id, { metadata: { userId: 'joe' } });
    assert.equal(patched.metadata.userId, 'joe');
    const list = await app.tokens.list({ type: ['card'], metadata: { userId: 'JOE' }, page: 1, size: 5 });
    assert.deepEqual([list.data.length, list.pagination.totalItems], [1, 1]);
    const found = await app.tokens.search({ query: 'type:card AND metadata.userId:joe', page: 1, size: 5 });
    assert.equal(found.data[0].id, made.id);
    await app.tokens.delete(made.id);
    await assert.rejects(app.tokens.retrieve(made.id), (e) => e.status === 404);
    await assert.rejects(app.tokens.create({ type: 'card', data: { number: '1' } }),
      (e) => e.status === 400 && Object.keys(e.data.errors).length === 1);
  },

  async tokenize({ app }) {
    const out = await app.tokenize({ firstName: 'Jane', cards: [{ type: 'card', data: { number: '5555555555554444' } }] });
    assert.match(out.firstName, /^[0-9a-f-]{36}$/);
    assert.equal(out.cards[0].data.number, 'XXXXXXXXXXXX4444');
  },

  async applications({ admin }) {
    const made = await admin.applications.create({ name: 'js', type: 'private', permissions: ['token:read'] });
    assert.match(made.key, /^key_prv_/);
    const changed = await admin.applications.update(made.id, { name: 'js 2', permissions: ['token:use'] });
    assert.deepEqual([changed.name, changed.type, changed.permissions], ['js 2', 'private', ['token:use']]);
    assert.equal((await admin.applications.retrieve(made.id)).name, 'js 2');
    assert.equal((await admin.applications.list({ id: made.id, page: 1, size: 5 })).pagination.totalItems, 1);
    assert.notEqual((await admin.applications.regenerateKey(made.id)).key, made.key);
    assert.equal((await admin.applications.retrieveByKey()).type, 'management');
    await admin.applications.delete(made.id);
  },

  async reactors({ admin, app }) {
    const made = await admin.reactors.create({
      name: 'js', code: 'module.exports = async (req) => ({raw: {sum: req.args.a + req.args.b}})', configuration: { SERVICE_KEY: 'sk' },
    });
    assert.deepEqual(made.configuration, { SERVICE_KEY: 'sk' });
    assert.deepEqual((await app.reactors.react(made.id, { args: { a: 1, b: 2 } })).raw, { sum: 3 });
    await app.reactors.react(made.id, { args: { a: 1, b: 2 }, callbackUrl: process.env.CALLBACK, timeoutMs: 20000 });
    const changed = await admin.reactors.update(made.id, { name: 'js 2', code: made.code, configuration: {} });
    assert.equal(changed.name, 'js 2');
    await admin.reactors.patch(made.id, { name: 'js 3' });
    assert.equal((await admin.reactors.retrieve(made.id)).name, 'js 3');
    assert.equal((await admin.reactors.list({ name: 'JS*' })).pagination.totalItems, 1);
    await admin.reactors.delete(made.id);
  },

  async proxies({ admin, app }) {
    const made = await admin.proxies.create({ name: 'js', destinationUrl: process.env.DESTINATION, requireAuth: true });
    const token = await app.tokens.create({ type: 'token', data: 'secret' });
    const echoed = await app.proxy.post({ body: { value: `{{ ${token.id} }}` }, headers: { 'BT-PROXY-KEY': made.key } });
    assert.deepEqual(typeof echoed === 'string' ? JSON.parse(echoed) : echoed, { value: 'secret' });
    const changed = await admin.proxies.update(made.id, { name: 'js 2', destinationUrl: process.env.DESTINATION });
    assert.deepEqual([changed.name, changed.key], ['js 2', made.key]);
    await admin.proxies.patch(made.id, { name: 'js 3' });
    assert.equal((await admin.proxies.retrieve(made.id)).name, 'js 3');
    assert.equal((await admin.proxies.list({ name: 'js 3' })).data[0].id, made.id);
    await admin.proxies.delete(made.id);
  },

  async sessions({ page, app }) {
    const session = await page.sessions.create();
    await app.sessions.authorize({ nonce: session.nonce, permissions: ['token:create'] });
    const visitor = await client(session.sessionKey);
    assert.equal((await visitor.tokens.create({ type: 'token', data: 'from a page' })).type, 'token');
  },

  async logs({ admin }) {
    const list = await admin.logs.list({ entityType: 'card', startDate: '2020-01-01', page: 1, size: 5 });
    assert.equal(list.data[0].entityType, 'card');
  },

  async tenants({ admin }) {
    const own = await admin.tenants.retrieve();
    const changed = await admin.tenants.update({ name: own.name, settings: { deduplicate_tokens: 'true' } });
    assert.equal(changed.settings.deduplicateTokens, true);
    await admin.tenants.update({ name: own.name, settings: { deduplicate_tokens: 'false' } });
  },

  async permissions({ admin }) {
    assert.ok((await admin.permissions.list()).some((p) => p.type === 'token:create'));
  },
};

(async () => {
  const clients = { page: await client(process.env.PUBLIC_KEY), app: await client(process.env.PRIVATE_KEY), admin: await client(process.env.MANAGEMENT_KEY) };
  for (const [name, check] of Object.entries(checks)) {
    await check(clients).catch((e) => { throw new Error(name, { cause: e.data ? JSON.stringify(e.data) : e }); });
    console.log('ok', name);
  }
})().catch((e) => { console.error(e); process.exit(1); });
