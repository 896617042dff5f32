'use strict';
// The client instance: the vault's own operations, with the rights of the
// reactor's application. Objects are camelCase here and snake_case in the
// vault. data and metadata belong to the tenant and are not converted.
const host = sys('host');
const untouched = { data: true, metadata: true };
const camel = (key) => key.replace(/_([a-z0-9])/g, (_, c) => c.toUpperCase());
const snake = (key) => key.replace(/[A-Z]/g, (c) => '_' + c.toLowerCase());

function convert(value, rename) {
  if (Array.isArray(value)) return value.map((item) => convert(item, rename));
  if (value === null || typeof value !== 'object') return value;
  const out = {};
  for (const key of Object.keys(value)) {
    out[rename(key)] = untouched[key] ? value[key] : convert(value[key], rename);
  }
  return out;
}

// fromPage converts a list, whose data are entities of the vault.
function fromPage(page) {
  if (page === null || typeof page !== 'object') return page;
  const out = convert(page, camel);
  if (Array.isArray(page.data)) out.data = page.data.map((item) => convert(item, camel));
  return out;
}

const call = (op, args, decode) => new Promise((resolve, reject) => {
  host(op, args, (err, value) => (err ? reject(err) : resolve(decode ? decode(value) : value)));
});
const toWire = (value) => convert(value, snake);
const fromWire = (value) => convert(value, camel);

const proxy = {};
for (const method of ['get', 'post', 'put', 'patch', 'delete']) {
  proxy[method] = (options) => call('proxy.' + method, options === undefined ? {} : options);
}

module.exports = {
  tokens: {
    create: (token) => call('tokens.create', toWire(token), fromWire),
    retrieve: (id) => call('tokens.retrieve', { id }, fromWire),
    update: (id, patch) => call('tokens.update', { id, patch: toWire(patch) }, fromWire),
    delete: (id) => call('tokens.delete', { id }),
    list: (query) => call('tokens.list', toQuery(query), fromPage),
    search: (query) => call('tokens.search', toWire(query), fromPage),
  },
  tokenize: (body) => call('tokenize', body),
  detokenize: (body) => call('detokenize', body),
  reactors: {
    react: (id, body) => call('reactors.react', { id, body: body === undefined ? {} : toReact(body) }),
  },
  proxy,
  logs: { list: (query) => call('logs.list', toWire(query === undefined ? {} : query), fromPage) },
  sessions: {
    create: () => call('sessions.create', {}, fromWire),
    authorize: (grant) => call('sessions.authorize', toWire(grant)),
  },
};

// toQuery converts a list filter, whose ids and types may be lists or single
// values.
function toQuery(query) {
  return toWire(query === undefined ? {} : query);
}

// toReact converts the options of a call. args belong to the caller and are not
// converted.
function toReact(body) {
  const out = {};
  for (const key of Object.keys(body)) out[snake(key)] = body[key];
  return out;
}
