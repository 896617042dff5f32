'use strict';
// axios: the calls that programs usually make, with the same client as fetch.
const { Buffer } = require('buffer');
const { exchange, bodyOf } = require('fetch');
const { URL, URLSearchParams } = require('url');

class AxiosError extends Error {
  constructor(message, code, config, request, response) {
    super(message);
    this.name = 'AxiosError';
    this.isAxiosError = true;
    if (code) this.code = code;
    this.config = config;
    this.request = request || {};
    if (response) { this.response = response; this.status = response.status; }
  }
  toJSON() { return { message: this.message, name: this.name, code: this.code, status: this.status || null }; }
}
class Cancel {
  constructor(message) { this.message = message; this.__CANCEL__ = true; }
  toString() { return 'Cancel' + (this.message ? ': ' + this.message : ''); }
}

const isPlain = (value) => value !== null && typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value));

function merge(...configs) {
  const out = {};
  for (const config of configs) {
    for (const key of Object.keys(config || {})) {
      if (config[key] === undefined) continue;
      out[key] = isPlain(config[key]) && isPlain(out[key]) && key !== 'data' ? merge(out[key], config[key]) : config[key];
    }
  }
  return out;
}

function addParam(list, key, value) {
  if (value === null || value === undefined) return;
  if (Array.isArray(value)) { for (const item of value) addParam(list, key + '[]', item); return; }
  if (value instanceof Date) value = value.toISOString();
  else if (typeof value === 'object') value = JSON.stringify(value);
  const encode = (text) => encodeURIComponent(text).replace(/%3A/gi, ':').replace(/%24/g, '$').replace(/%2C/gi, ',').replace(/%20/g, '+').replace(/%5B/gi, '[').replace(/%5D/gi, ']');
  list.push(encode(key) + '=' + encode(String(value)));
}

function buildURL(config) {
  let url = config.url || '';
  if (config.baseURL && !/^([a-z][a-z\d+\-.]*:)?\/\//i.test(url)) url = url ? config.baseURL.replace(/\/+$/, '') + '/' + url.replace(/^\/+/, '') : config.baseURL;
  if (!config.params) return url;
  let query;
  if (config.paramsSerializer) query = typeof config.paramsSerializer === 'function' ? config.paramsSerializer(config.params) : config.paramsSerializer.serialize(config.params);
  else if (config.params instanceof URLSearchParams) query = config.params.toString();
  else {
    const list = [];
    for (const key of Object.keys(config.params)) addParam(list, key, config.params[key]);
    query = list.join('&');
  }
  if (!query) return url;
  url = url.replace(/#.*$/, '');
  return url + (url.includes('?') ? '&' : '?') + query;
}

// headersOf flattens the defaults for a method and the headers of a call.
function headersOf(config) {
  const out = new Map();
  const add = (headers) => {
    for (const name of Object.keys(headers || {})) {
      const value = headers[name];
      if (isPlain(value)) continue;
      if (value === undefined || value === null || value === false) out.delete(name.toLowerCase());
      else out.set(name.toLowerCase(), [name, String(value)]);
    }
  };
  const { headers = {} } = config;
  add(headers.common);
  add(headers[config.method]);
  const { common, delete: d, get, head, post, put, patch, ...own } = headers;
  add(own);
  return out;
}

async function prepare(config) {
  const headers = headersOf(config);
  let { data } = config;
  for (const transform of [].concat(config.transformRequest || [])) {
    const view = Object.fromEntries([...headers.values()]);
    data = transform(data, view);
  }
  const type = headers.get('content-type');
  if (isPlain(data) || Array.isArray(data) || (typeof data === 'number' || typeof data === 'boolean')) {
    if (type && type[1].startsWith('application/x-www-form-urlencoded')) {
      data = new URLSearchParams(Object.entries(data).map(([k, v]) => [k, String(v)])).toString();
    } else {
      data = JSON.stringify(data);
      if (!type) headers.set('content-type', ['Content-Type', 'application/json']);
    }
  }
  const body = await bodyOf(data);
  if (body.type && !headers.has('content-type')) headers.set('content-type', ['Content-Type', typeof data === 'string' ? 'application/x-www-form-urlencoded' : body.type]);
  if (config.auth) headers.set('authorization', ['Authorization', 'Basic ' + Buffer.from(`${config.auth.username || ''}:${config.auth.password || ''}`).toString('base64')]);
  if (['get', 'head'].includes(config.method) && !body.bytes) headers.delete('content-type');
  return { headers: [...headers.values()], body: body.bytes };
}

function decode(config, answer) {
  const { body } = answer;
  switch (config.responseType) {
    case 'arraybuffer': return body;
    case 'stream': return require('stream').Readable.from([body]);
    case 'text': break;
    default:
  }
  let data = body.toString(config.responseEncoding || 'utf8').replace(/^\ufeff/, '');
  if (config.transformResponse) {
    for (const transform of [].concat(config.transformResponse)) data = transform(data, headerObject(answer), answer.status);
    return data;
  }
  if (config.responseType === 'text') return data;
  if (data !== '') {
    try { data = require('json').parse(data); } catch (err) {
      if (config.responseType === 'json') throw new AxiosError(err.message, 'ERR_BAD_RESPONSE', config);
    }
  }
  return data;
}

function headerObject(answer) {
  const out = {};
  for (const [name, value] of answer.headers) {
    const key = name.toLowerCase();
    if (key === 'set-cookie') (out[key] = out[key] || []).push(value);
    else out[key] = key in out ? out[key] + ', ' + value : value;
  }
  Object.defineProperty(out, 'get', { value: (name) => out[String(name).toLowerCase()], enumerable: false });
  return out;
}

// limit makes a promise fail when a call times out or is canceled.
function limit(config, promise) {
  return new Promise((resolve, reject) => {
    const timers = require('timers');
    let timer;
    if (config.timeout > 0) {
      timer = timers.setTimeout(() => reject(new AxiosError(config.timeoutErrorMessage || `timeout of ${config.timeout}ms exceeded`, 'ECONNABORTED', config)), config.timeout);
    }
    const cancelled = () => reject(Object.assign(new AxiosError('canceled', 'ERR_CANCELED', config), { name: 'CanceledError', __CANCEL__: true }));
    if (config.signal) { if (config.signal.aborted) return cancelled(); config.signal.addEventListener('abort', cancelled); }
    if (config.cancelToken) config.cancelToken.promise.then(reject);
    promise.then(resolve, reject).finally(() => timers.clearTimeout(timer));
  });
}

async function follow(config, url, parts) {
  let method = config.method.toUpperCase();
  const most = config.maxRedirects === undefined ? 5 : config.maxRedirects;
  for (let hops = 0; ; hops++) {
    const answer = await exchange({ method, url, headers: parts.headers, body: parts.body });
    const location = answer.headers.find(([name]) => name.toLowerCase() === 'location');
    if (![301, 302, 303, 307, 308].includes(answer.status) || !location || most === 0) return { ...answer, url };
    if (hops >= most) throw new AxiosError('Maximum number of redirects exceeded', 'ERR_FR_TOO_MANY_REDIRECTS', config);
    const next = new URL(location[1], url);
    if (answer.status === 303 || ([301, 302].includes(answer.status) && method === 'POST')) { method = 'GET'; parts = { ...parts, body: undefined }; }
    if (next.origin !== new URL(url).origin) parts = { ...parts, headers: parts.headers.filter(([name]) => !/^(authorization|cookie)$/i.test(name)) };
    url = next.href;
  }
}

async function dispatch(config) {
  if (config.cancelToken) config.cancelToken.throwIfRequested();
  let url = buildURL(config);
  let answer;
  try {
    url = new URL(url).href;
    answer = await limit(config, prepare(config).then((parts) => follow(config, url, parts)));
  } catch (err) {
    if (err instanceof AxiosError || err instanceof Cancel) throw err;
    throw Object.assign(new AxiosError(err.message, err.code || 'ERR_BAD_REQUEST', config), { cause: err });
  }
  const response = {
    data: decode(config, answer), status: answer.status, statusText: answer.statusText, headers: headerObject(answer), config,
    request: { path: new URL(answer.url).pathname, res: { responseUrl: answer.url } },
  };
  const valid = config.validateStatus;
  if (valid === null || valid === undefined || valid(answer.status)) return response;
  throw new AxiosError('Request failed with status code ' + answer.status, answer.status >= 500 ? 'ERR_BAD_RESPONSE' : 'ERR_BAD_REQUEST', config, response.request, response);
}

class Interceptors {
  constructor() { this.handlers = []; }
  use(fulfilled, rejected) { this.handlers.push({ fulfilled, rejected }); return this.handlers.length - 1; }
  eject(id) { if (this.handlers[id]) this.handlers[id] = null; }
  clear() { this.handlers = []; }
  get active() { return this.handlers.filter(Boolean); }
}

const standard = {
  timeout: 0, method: 'get', validateStatus: (status) => status >= 200 && status < 300,
  headers: { common: { Accept: 'application/json, text/plain, */*' }, delete: {}, get: {}, head: {}, post: {}, put: {}, patch: {} },
};

function create(base) {
  const interceptors = { request: new Interceptors(), response: new Interceptors() };
  function axios(urlOrConfig, config) {
    const given = typeof urlOrConfig === 'string' || urlOrConfig instanceof URL ? { ...config, url: String(urlOrConfig) } : urlOrConfig || {};
    const all = merge(axios.defaults, given);
    all.method = String(all.method || 'get').toLowerCase();
    if (given.data !== undefined) all.data = given.data;
    let promise = Promise.resolve(all);
    for (const { fulfilled, rejected } of interceptors.request.active.reverse()) promise = promise.then(fulfilled, rejected);
    promise = promise.then(dispatch);
    for (const { fulfilled, rejected } of interceptors.response.active) promise = promise.then(fulfilled, rejected);
    return promise;
  }
  axios.defaults = base;
  axios.interceptors = interceptors;
  axios.request = axios;
  axios.getUri = (config) => buildURL(merge(axios.defaults, config));
  for (const method of ['get', 'delete', 'head', 'options']) axios[method] = (url, config) => axios({ ...config, method, url });
  for (const method of ['post', 'put', 'patch']) {
    axios[method] = (url, data, config) => axios({ ...config, method, url, data });
    axios[method + 'Form'] = (url, data, config) => {
      const { FormData } = require('fetch');
      const form = new FormData();
      for (const key of Object.keys(data)) form.append(key, data[key]);
      return axios({ ...config, method, url, data: form });
    };
  }
  axios.create = (config) => create(merge(axios.defaults, config));
  return axios;
}

class CancelToken {
  constructor(executor) {
    this.promise = new Promise((resolve) => { executor((message) => { if (!this.reason) { this.reason = new Cancel(message); resolve(this.reason); } }); });
  }
  throwIfRequested() { if (this.reason) throw this.reason; }
  static source() { let cancel; const token = new CancelToken((c) => { cancel = c; }); return { token, cancel }; }
}

const axios = create(standard);
Object.assign(axios, {
  Axios: axios, AxiosError, Cancel, CanceledError: AxiosError, CancelToken, VERSION: '0.27.2', default: axios,
  isCancel: (value) => !!(value && value.__CANCEL__),
  isAxiosError: (value) => !!(value && value.isAxiosError),
  all: (list) => Promise.all(list),
  spread: (callback) => (list) => callback(...list),
  toFormData: (data) => { const form = new (require('fetch').FormData)(); for (const key of Object.keys(data)) form.append(key, data[key]); return form; },
});
Object.defineProperty(axios, '__esModule', { value: true });
module.exports = axios;
