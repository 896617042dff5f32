// Every resource of @basis-theory/node-sdk that the server offers. It runs
// unmodified, against a server with the prefix BT-.
const assert = require('node:assert/strict');
const { BasisTheoryClient } = require('@basis-theory/node-sdk');

const client = (apiKey) => new BasisTheoryClient({ apiKey, environment: process.env.VAULT, maxRetries: 0 });

// all reads a list to its end.
async function all(pages) {
  const items = [];
  for await (const item of await pages) {
    items.push(item);
  }
  return items;
}

const checks = {
  async tokens({ app }) {
    const made = await app.tokens.create({
      type: 'card', data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' }, metadata: { user: 'sdk' },
    }, { idempotencyKey: 'sdk-create' });
    assert.equal(made.data.number, 'XXXXXXXXXXXX4242');
    assert.equal((await app.tokens.get(made.id)).id, made.id);
    assert.equal((await app.tokens.update(made.id, { metadata: { user: 'sdk 2' } })).metadata.user, 'sdk 2');
    for (let i = 0; i < 5; i++) {
      await app.tokens.create({ type: 'token', data: `value ${i}`, metadata: { list: 'sdk' } });
    }
    assert.equal((await all(app.tokens.listV2({ type: 'token', metadata: { list: 'sdk' }, size: 2 }))).length, 5);
    assert.equal((await all(app.tokens.searchV2({ query: 'metadata.list:sdk', size: 2 }))).length, 5);
    await app.tokens.delete(made.id);
    await assert.rejects(app.tokens.get(made.id), (e) => e.statusCode === 404);
  },

  async tokenize({ app }) {
    const out = await app.tokens.tokenize({ first: 'Jane', last: 'Doe' });
    const back = await app.tokens.detokenize({ first: `{{ ${out.first} }}`, both: `{{ ${out.first} }} {{ ${out.last} }}` });
    assert.deepEqual(back, { first: 'Jane', both: 'Jane Doe' });
  },

  async applications({ admin }) {
    const made = await admin.applications.create({ name: 'sdk', type: 'public', permissions: ['token:create'] });
    assert.match(made.key, /^key_pub_/);
    const changed = await admin.applications.update(made.id, { name: 'sdk 2', permissions: ['token:update'] });
    assert.deepEqual([changed.name, changed.type], ['sdk 2', 'public']);
    assert.equal((await admin.applications.get(made.id)).name, 'sdk 2');
    assert.ok((await all(admin.applications.list({ type: ['public'] }))).some((a) => a.id === made.id));
    assert.equal((await admin.applications.getByKey()).type, 'management');
    await admin.applications.delete(made.id);
  },

  async keys({ admin }) {
    const made = await admin.applications.create({ name: 'sdk keys', type: 'private', permissions: ['token:create'] });
    const second = await admin.applicationKeys.create(made.id);
    assert.match(second.key, /^key_prv_/);
    assert.equal((await client(second.key).tokens.create({ type: 'token', data: 'by a second key' })).type, 'token');
    assert.equal((await admin.applicationKeys.list(made.id)).length, 2);
    const shown = await admin.applicationKeys.get(made.id, second.id);
    assert.deepEqual([shown.id, shown.key], [second.id, undefined]);
    await admin.applicationKeys.delete(made.id, second.id);
    assert.equal((await admin.applicationKeys.list(made.id)).length, 1);
    await assert.rejects(client(second.key).tokens.create({ type: 'token', data: 'x' }), (e) => e.statusCode === 401);
    await admin.applications.delete(made.id);
  },

  async reactors({ admin, app }) {
    const made = await admin.reactors.create({ name: 'sdk', code: 'module.exports = async (req) => ({raw: req.args})', configuration: { KEY: 'sk' } });
    assert.deepEqual((await app.reactors.react(made.id, { args: { a: 1 } })).raw, { a: 1 });
    assert.equal((await admin.reactors.update(made.id, { name: 'sdk 2', code: made.code, configuration: {} })).name, 'sdk 2');
    await admin.reactors.patch(made.id, { name: 'sdk 3' });
    assert.equal((await admin.reactors.get(made.id)).name, 'sdk 3');
    assert.equal((await all(admin.reactors.list({ name: 'SDK*' }))).length, 1);
    await admin.reactors.delete(made.id);
  },

  async proxies({ admin }) {
    const made = await admin.proxies.create({ name: 'sdk', destinationUrl: process.env.DESTINATION });
    assert.equal((await admin.proxies.update(made.id, { name: 'sdk 2', destinationUrl: process.env.DESTINATION })).key, made.key);
    await admin.proxies.patch(made.id, { name: 'sdk 3' });
    assert.equal((await admin.proxies.get(made.id)).name, 'sdk 3');
    assert.equal((await all(admin.proxies.list({ name: 'sdk 3' }))).length, 1);
    await admin.proxies.delete(made.id);
  },

  async sessions({ page, app }) {
    const session = await page.sessions.create();
    await app.sessions.authorize({ nonce: session.nonce, permissions: ['token:create'] });
    assert.equal((await client(session.sessionKey).tokens.create({ type: 'token', data: 'from a page' })).type, 'token');
  },

  async logs({ admin }) {
    const entries = await all(admin.logs.list({ entityType: 'card', size: 2 }));
    assert.ok(entries.length > 2 && entries.every((e) => e.entityType === 'card'));
    assert.ok((await admin.logs.getEntityTypes()).some((t) => t.value === 'card'));
  },

  async tenants({ admin }) {
    const own = await admin.tenants.self.get();
    const changed = await admin.tenants.self.update({ name: own.name, settings: { deduplicate_tokens: 'true' } });
    assert.equal(String(changed.settings.deduplicate_tokens), 'true');
    await admin.tenants.self.update({ name: own.name, settings: { deduplicate_tokens: 'false' } });
  },

  async permissions({ admin }) {
    assert.ok((await admin.permissions.list()).some((p) => p.type === 'token:create'));
  },
};

(async () => {
  const clients = { page: client(process.env.PUBLIC_KEY), app: client(process.env.PRIVATE_KEY), admin: client(process.env.MANAGEMENT_KEY) };
  for (const [name, check] of Object.entries(checks)) {
    await check(clients).catch((e) => { throw new Error(name, { cause: e.body ? JSON.stringify(e.body) : e }); });
    console.log('ok', name);
  }
})().catch((e) => { console.error(e); process.exit(1); });
