//// stripe
const Stripe = require('stripe');
module.exports = async ({ args: { host, port } }) => {
  const stripe = new Stripe('sk_test_key', { host, port, protocol: 'http', telemetry: false, maxNetworkRetries: 0 });
  const made = await stripe.customers.create({ email: 'jane@example.com', metadata: { order: '17' } });
  const payload = JSON.stringify({ id: 'evt_1', object: 'event', type: 'charge.succeeded' });
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret: 'whsec_test' });
  const event = stripe.webhooks.constructEvent(payload, header, 'whsec_test');
  let refused;
  try { stripe.webhooks.constructEvent(payload + ' ', header, 'whsec_test'); } catch (err) { refused = err.type; }
  return [made.method, made.path, made.body, made.type, event.type, refused];
};
//// @adyen/api-library
const { Client, CheckoutAPI, hmacValidator } = require('@adyen/api-library');
module.exports = async () => {
  const item = {
    pspReference: 'pspReference', originalReference: 'originalReference', merchantAccountCode: 'merchantAccount', merchantReference: 'reference',
    amount: { currency: 'EUR', value: 1000 }, eventCode: 'EVENT', success: 'true', eventDate: '2024-01-01', operations: [], paymentMethod: 'VISA', reason: 'reason',
  };
  const key = '44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056';
  const validator = new hmacValidator();
  const signature = validator.calculateHmac(item, key);
  const api = new CheckoutAPI(new Client({ apiKey: 'key', environment: 'TEST' }));
  return [signature, validator.validateHMAC({ ...item, additionalData: { hmacSignature: signature } }, key), Object.keys(api).sort().slice(0, 5)];
};
//// node-forge
const forge = require('node-forge');
module.exports = ({ args: { rsa } }) => {
  const md = forge.md.sha256.create().update('message');
  const cipher = forge.cipher.createCipher('AES-CBC', '0123456789abcdef');
  cipher.start({ iv: 'fedcba9876543210' });
  cipher.update(forge.util.createBuffer('secret text'));
  cipher.finish();
  const key = forge.pki.privateKeyFromPem(rsa);
  const signed = key.sign(forge.md.sha256.create().update('message'));
  return [md.digest().toHex(), cipher.output.toHex(), forge.util.encode64(signed), key.n.bitLength()];
};
//// crypto-js
const CryptoJS = require('crypto-js');
module.exports = () => {
  const key = CryptoJS.enc.Hex.parse('000102030405060708090a0b0c0d0e0f');
  const sealed = CryptoJS.AES.encrypt('4242424242424242', key, { iv: key, mode: CryptoJS.mode.CBC });
  return [
    sealed.toString(), CryptoJS.AES.decrypt(sealed.toString(), key, { iv: key }).toString(CryptoJS.enc.Utf8),
    CryptoJS.HmacSHA256('message', 'key').toString(), CryptoJS.PBKDF2('password', 'salt', { keySize: 4, iterations: 10 }).toString(), CryptoJS.TripleDES.encrypt('text', key, { iv: key }).ciphertext.toString(),
  ];
};
//// openpgp
const openpgp = require('openpgp');
module.exports = async () => {
  const message = await openpgp.createMessage({ text: 'settlement file' });
  const armored = await openpgp.encrypt({ message, passwords: ['secret'] });
  const { data } = await openpgp.decrypt({ message: await openpgp.readMessage({ armoredMessage: armored }), passwords: ['secret'] });
  let refused;
  try { await openpgp.decrypt({ message: await openpgp.readMessage({ armoredMessage: armored }), passwords: ['wrong'] }); } catch (err) { refused = err.constructor.name; }
  return [armored.split('\n')[0], data, refused];
};
//// node-jose
const jose = require('node-jose');
module.exports = async ({ args: { rsa } }) => {
  const key = await jose.JWK.asKey(rsa, 'pem');
  const signed = await jose.JWS.createSign({ format: 'compact', alg: 'RS256' }, key).update('payload').final();
  const verified = await jose.JWS.createVerify(key).verify(signed);
  const sealed = await jose.JWE.createEncrypt({ format: 'compact' }, key).update('4242').final();
  const opened = await jose.JWE.createDecrypt(key).decrypt(sealed);
  return [key.kid, signed, verified.payload.toString(), opened.payload.toString()];
};
//// jose
const jose = require('jose');
module.exports = async ({ args: { rsa, rsaPublic } }) => {
  const secret = new TextEncoder().encode('0123456789abcdef0123456789abcdef');
  const token = await new jose.SignJWT({ sub: 'jane' }).setProtectedHeader({ alg: 'HS256' }).setIssuedAt(1700000000).sign(secret);
  const { payload, protectedHeader } = await jose.jwtVerify(token, secret);
  const signed = await new jose.CompactSign(Buffer.from('text')).setProtectedHeader({ alg: 'RS256' }).sign(await jose.importPKCS8(rsa, 'RS256'));
  const back = await jose.compactVerify(signed, await jose.importSPKI(rsaPublic, 'RS256'));
  const sealed = await new jose.CompactEncrypt(Buffer.from('4242')).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(secret);
  const opened = await jose.compactDecrypt(sealed, secret);
  return [token, payload, protectedHeader, signed, Buffer.from(back.payload).toString(), Buffer.from(opened.plaintext).toString()];
};
//// jsonwebtoken
const jwt = require('jsonwebtoken');
module.exports = ({ args: { rsa, rsaPublic, ec } }) => {
  const claims = { sub: 'jane', iat: 1700000000 };
  const hs = jwt.sign(claims, 'secret');
  const rs = jwt.sign(claims, rsa, { algorithm: 'RS256', keyid: 'k1' });
  let refused;
  try { jwt.verify(hs, 'other'); } catch (err) { refused = [err.name, err.message]; }
  return [hs, rs, jwt.verify(rs, rsaPublic), jwt.decode(hs, { complete: true }).header, jwt.sign(claims, ec, { algorithm: 'ES256' }).split('.').length, refused];
};
//// uuid
const uuid = require('uuid');
module.exports = () => [uuid.v5('vault.example', uuid.v5.DNS), uuid.v3('vault.example', uuid.v3.URL), uuid.v4({ random: Buffer.alloc(16, 7) }),
  uuid.v4().length, uuid.validate('nope'), uuid.version('6fa459ea-ee8a-3ca4-894e-db77e160355e'), uuid.stringify(uuid.parse('6fa459ea-ee8a-3ca4-894e-db77e160355e'))];
//// xmlbuilder2
const { create, convert } = require('xmlbuilder2');
module.exports = () => {
  const doc = create({ version: '1.0', encoding: 'UTF-8' }).ele('order', { id: 17 }).ele('item').txt('a < b & c').up().ele('price').txt('9.99').up().up();
  return [doc.end({ prettyPrint: true }), convert('<a><b x="1">text</b><b/></a>', { format: 'object' })];
};
//// xml2js
const xml2js = require('xml2js');
module.exports = async () => {
  const parsed = await xml2js.parseStringPromise('<order id="17"><item>one</item><item>two &amp; three</item></order>', { explicitArray: false });
  return [parsed, new xml2js.Builder({ headless: true }).buildObject({ order: { $: { id: 1 }, item: ['a', 'b'] } })];
};
//// fast-xml-parser
const { XMLParser, XMLBuilder, XMLValidator } = require('fast-xml-parser');
module.exports = () => {
  const parsed = new XMLParser({ ignoreAttributes: false }).parse('<a x="1"><b>2</b><b>three</b><c><![CDATA[<d>]]></c></a>');
  return [parsed, new XMLBuilder({ ignoreAttributes: false, format: true }).build(parsed), XMLValidator.validate('<a><b></a>')];
};
//// pdf-lib
const { PDFDocument, StandardFonts, rgb } = require('pdf-lib');
module.exports = async () => {
  const doc = await PDFDocument.create({ updateMetadata: false });
  const page = doc.addPage([300, 200]);
  page.drawText('Receipt 17', { x: 20, y: 150, size: 18, font: await doc.embedFont(StandardFonts.Helvetica), color: rgb(0, 0.2, 0.8) });
  const bytes = await doc.save();
  const again = await PDFDocument.load(bytes, { updateMetadata: false });
  return [require('crypto').createHash('sha256').update(bytes).digest('hex'), bytes.length, again.getPageCount(), again.getPage(0).getSize()];
};
//// yup
const yup = require('yup');
module.exports = async () => {
  const schema = yup.object({ email: yup.string().email().required(), age: yup.number().min(18), when: yup.date() });
  const good = await schema.validate({ email: 'jane@example.com', age: '21', when: '2024-01-02T00:00:00Z' });
  const bad = await schema.validate({ email: 'nope', age: 3 }, { abortEarly: false }).catch((err) => [err.name, err.errors, err.inner.map((e) => e.path)]);
  return [good, bad];
};
//// joi
const Joi = require('joi');
module.exports = () => {
  const schema = Joi.object({ card: Joi.string().creditCard().required(), amount: Joi.number().integer().positive(), at: Joi.date().iso(), to: Joi.string().email() });
  const good = schema.validate({ card: '4242424242424242', amount: '500', at: '2024-01-02T03:04:05Z', to: 'jane@example.com' });
  const bad = schema.validate({ card: '4242424242424241', amount: -1 }, { abortEarly: false });
  return [good.value, good.error, bad.error instanceof Error, bad.error.name, bad.error.details.map((d) => [d.path, d.type, d.message])];
};
//// zod
const { z } = require('zod');
module.exports = () => {
  const schema = z.object({ id: z.string().uuid(), tags: z.array(z.string()).min(1), kind: z.enum(['card', 'bank']).default('card'), n: z.coerce.number() });
  const bad = schema.safeParse({ id: 'x', tags: [], n: 'y' });
  return [schema.parse({ id: '6fa459ea-ee8a-4ca4-894e-db77e160355e', tags: ['a'], n: '7' }), bad.error.issues.map((i) => [i.path, i.code, i.message])];
};
//// ajv
const Ajv = require('ajv');
module.exports = () => {
  const check = new Ajv({ allErrors: true }).compile({ type: 'object', required: ['id'], additionalProperties: false,
    properties: { id: { type: 'string', pattern: '^[a-z]+$' }, n: { type: 'integer', minimum: 2 }, list: { type: 'array', uniqueItems: true } } });
  return [check({ id: 'abc', n: 3, list: [1, 2] }), check({ id: 'A1', n: 1, list: [1, 1], other: true }), check.errors.map((e) => [e.instancePath, e.keyword, e.message])];
};
//// csv-parse
const { parse } = require('csv-parse/sync');
const stream = require('csv-parse');
module.exports = async () => {
  const rows = parse('id;name\n1;"Jane; Doe"\n2;"quo""ted"\n', { columns: true, delimiter: ';', cast: true });
  const streamed = await new Promise((resolve, reject) => stream.parse('a,b\n1,2\n', {}, (err, out) => (err ? reject(err) : resolve(out))));
  let bad;
  try { parse('a,"b\n'); } catch (err) { bad = err.code; }
  return [rows, streamed, bad];
};
//// lodash
const _ = require('lodash');
const get = require('lodash/get');
module.exports = () => [_.groupBy([1.2, 1.8, 2.1], Math.floor), _.merge({ a: { b: 1 } }, { a: { c: 2 } }), get({ a: [{ b: 5 }] }, 'a[0].b'), _.camelCase('SVC-API-KEY'),
  _.template('Hello <%= name %>!')({ name: 'Jane' }), _.orderBy([{ n: 2 }, { n: 1 }], 'n'), _.chunk([1, 2, 3], 2), _.cloneDeep(new Map([[1, { a: 2 }]])).get(1), _.isEqual([1, [2]], [1, [2]]), _.deburr('déjà vu')];
//// date-fns
const { format, addMonths, differenceInDays, parseISO, formatDistance } = require('date-fns');
const { de } = require('date-fns/locale');
module.exports = () => {
  const day = parseISO('2024-01-31T10:20:30.000Z');
  return [format(day, "EEEE, d. MMMM yyyy HH:mm:ss"), format(day, 'PPPP', { locale: de }), addMonths(day, 1).toISOString(), differenceInDays(day, new Date(0)), formatDistance(0, 90000)];
};
//// moment
const moment = require('moment');
module.exports = () => {
  const day = moment.utc('2024-02-29T10:20:30Z');
  return [day.format('dddd, MMMM Do YYYY, h:mm:ss a'), day.clone().add(1, 'year').toISOString(), moment.duration(90, 'minutes').humanize(), moment('31/12/2023', 'DD/MM/YYYY', true).isValid(), day.isBefore('2024-03-01')];
};
//// dayjs
const dayjs = require('dayjs');
dayjs.extend(require('dayjs/plugin/utc'));
dayjs.extend(require('dayjs/plugin/customParseFormat'));
module.exports = () => [dayjs.utc('2024-02-29').add(1, 'month').format('YYYY-MM-DD[T]HH:mm'), dayjs('31-12-2023', 'DD-MM-YYYY').isValid(), dayjs.utc(0).format('dddd D MMM'), dayjs.utc('2024-03-01').diff('2024-02-01', 'day')];
//// luxon
const { DateTime, Duration, Interval } = require('luxon');
module.exports = () => {
  const day = DateTime.fromISO('2024-02-29T10:20:30', { zone: 'utc' });
  return [day.toFormat('yyyy LLL dd, HH:mm'), day.plus({ months: 1 }).toISO(), day.setZone('America/New_York').toISO(), day.toLocaleString(DateTime.DATE_FULL), Duration.fromObject({ hours: 1, minutes: 90 }).shiftTo('hours').toObject(),
    Interval.fromDateTimes(day, day.plus({ days: 3 })).length('days'), DateTime.fromISO('nope').invalidReason, day.weekdayLong];
};
//// qs
const qs = require('qs');
module.exports = () => [qs.parse('a[b][c]=1&d[]=2&d[]=3&e=%20x'), qs.stringify({ a: { b: [1, 2] }, c: null, d: undefined, e: 'ä&' }), qs.stringify({ a: [1, 2] }, { arrayFormat: 'brackets', encode: false })];
//// bignumber.js
const BigNumber = require('bignumber.js');
module.exports = () => [new BigNumber('0.1').plus('0.2').toString(), new BigNumber(2).pow(200).toFixed(), new BigNumber('1234567.891').toFormat(2), new BigNumber(1).div(3).toString(), new BigNumber('ff', 16).toNumber()];
//// decimal.js
const Decimal = require('decimal.js');
module.exports = () => [new Decimal('0.1').plus('0.2').toString(), Decimal.sqrt(2).toString(), new Decimal('123.456').toSD(4).toString(), Decimal.exp(1).toFixed(15), new Decimal(-7).mod(3).toString(), Decimal.max(1, '2.5').toJSON()];
//// form-data
const FormData = require('form-data');
module.exports = async ({ args: { url } }) => {
  const form = new FormData();
  form.setBoundary('boundary-17');
  form.append('name', 'Jane');
  form.append('file', Buffer.from('a,b\n1,2\n'), { filename: 'x.csv', contentType: 'text/csv' });
  const sent = await new Promise((resolve, reject) => form.submit(url + '/upload', (err, res) => {
    if (err) return reject(err);
    const chunks = [];
    res.on('data', (c) => chunks.push(c)).on('end', () => resolve(JSON.parse(Buffer.concat(chunks))));
  }));
  return [form.getHeaders(), sent.method, sent.path, sent.type, sent.body];
};
//// aws4
const aws4 = require('aws4');
module.exports = () => {
  const signed = aws4.sign({ host: 'sqs.us-east-1.amazonaws.com', path: '/?Action=ListQueues', headers: { 'X-Amz-Date': '20240101T000000Z' } }, { accessKeyId: 'AKID', secretAccessKey: 'SECRET' });
  const query = aws4.sign({ service: 's3', path: '/bucket/key?X-Amz-Date=20240101T000000Z', signQuery: true }, { accessKeyId: 'AKID', secretAccessKey: 'SECRET' });
  return [signed.headers, query.path];
};
//// axios
const axios = require('axios');
module.exports = async ({ args: { url } }) => {
  const client = axios.create({ baseURL: url, headers: { 'X-Kind': 'test' }, timeout: 5000 });
  client.interceptors.request.use((config) => { config.headers['X-Extra'] = 'yes'; return config; });
  const post = await client.post('/pay', { amount: 5 }, { params: { a: 'b c' } });
  const form = await client.post('/form', new URLSearchParams({ x: '1' }));
  const bad = await client.get('/status/404').catch((err) => [err.name, err.code, err.response.status, axios.isAxiosError(err)]);
  return [post.status, post.data, post.headers['x-answer'], form.data.type, form.data.body, bad];
};
//// node-fetch
const fetch = require('node-fetch');
module.exports = async ({ args: { url } }) => {
  const res = await fetch(url + '/hook', { method: 'PUT', body: JSON.stringify({ a: 1 }), headers: { 'Content-Type': 'application/json' } });
  const bad = await fetch(url + '/status/503');
  return [res.status, res.ok, await res.json(), res.headers.get('x-answer'), bad.ok, bad.status, await bad.text(), new fetch.Headers({ A: '1' }).get('a')];
};
//// libphonenumber-js
const { parsePhoneNumber, isValidPhoneNumber, AsYouType } = require('libphonenumber-js');
module.exports = () => {
  const number = parsePhoneNumber('(213) 373-4253', 'US');
  return [number.number, number.formatInternational(), number.formatNational(), isValidPhoneNumber('123', 'DE'), parsePhoneNumber('+4930123456').country, new AsYouType('US').input('2133734')];
};
//// jsonata
const jsonata = require('jsonata');
module.exports = async () => {
  const data = { order: { items: [{ sku: 'a', price: 2.5, n: 4 }, { sku: 'b', price: 10, n: 1 }] } };
  const bad = (() => { try { jsonata('$.['); } catch (err) { return [err.code, err.position]; } })();
  return [await jsonata('$sum(order.items.(price * n))').evaluate(data), await jsonata('order.items[price > 5].sku').evaluate(data), await jsonata('order.items^(>price).{ "k": $uppercase(sku) }').evaluate(data), bad];
};
//// handlebars
const Handlebars = require('handlebars');
module.exports = () => {
  Handlebars.registerHelper('upper', (text) => text.toUpperCase());
  Handlebars.registerPartial('line', '- {{name}} {{#if paid}}paid{{else}}open{{/if}}\n');
  return Handlebars.compile('{{upper title}} {{{raw}}} {{esc}}\n{{#each items}}{{> line}}{{/each}}')({ title: 'bill', raw: '<b>', esc: '<i>', items: [{ name: 'a', paid: true }, { name: 'b' }] });
};
//// twilio
const twilio = require('twilio');
module.exports = async ({ args: { url } }) => {
  const reply = new twilio.twiml.VoiceResponse();
  reply.say({ voice: 'alice' }, 'Hello & goodbye');
  const token = new twilio.jwt.AccessToken('ACaccount', 'SKkey', 'secret', { identity: 'jane', ttl: 60 });
  const [, payload] = token.toJwt().split('.');
  const client = twilio('ACaccount', 'token');
  const sent = await client.request({ method: 'POST', uri: url + '/messages', data: { To: '+1', Body: 'hi' } });
  return [reply.toString(), JSON.parse(Buffer.from(payload, 'base64')).grants, twilio.validateRequest('12345', 'RSOYDt4T1cUTdK1PDd93/VVr8B8=', 'https://mycompany.com/myapp.php?foo=1&bar=2', { Digits: '1234', To: '+18005551212', From: '+14158675309', Caller: '+14158675309', CallSid: 'CA1234567890ABCDE' }),
    sent.statusCode, sent.body.method, sent.body.body, sent.body.type];
};
//// plaid
const { Configuration, PlaidApi, PlaidEnvironments, Products } = require('plaid');
module.exports = async ({ args: { url } }) => {
  const api = new PlaidApi(new Configuration({ basePath: url, baseOptions: { headers: { 'PLAID-CLIENT-ID': 'id', 'PLAID-SECRET': 'secret' } } }));
  const res = await api.accountsGet({ access_token: 'access-sandbox-1' });
  const bad = await api.accountsGet().catch((err) => [err.name, err.message]);
  return [res.status, res.data.path, res.data.body, PlaidEnvironments.sandbox, Products.Auth, bad];
};
//// braintree
const braintree = require('braintree');
module.exports = async () => {
  const gateway = new braintree.BraintreeGateway({ environment: braintree.Environment.Sandbox, merchantId: 'merchant', publicKey: 'public', privateKey: 'private' });
  const sample = gateway.webhookTesting.sampleNotification(braintree.WebhookNotification.Kind.SubscriptionWentPastDue, 'sub_17');
  const parsed = await gateway.webhookNotification.parse(sample.bt_signature, sample.bt_payload);
  const refused = await gateway.webhookNotification.parse(sample.bt_signature.slice(0, -1) + 'x', sample.bt_payload).catch((err) => err.type);
  return [parsed.kind, parsed.subscription.id, parsed.timestamp.length, refused];
};
//// google-auth-library
const { JWT, JWTAccess, OAuth2Client } = require('google-auth-library');
module.exports = async ({ args: { rsa, rsaPublic } }) => {
  const headers = await new JWTAccess('robot@example.com', rsa, 'k1').getRequestHeaders('https://storage.googleapis.com/');
  const [head, payload, signature] = headers.Authorization.slice(7).split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64'));
  const genuine = require('crypto').createVerify('RSA-SHA256').update(head + '.' + payload).verify(rsaPublic, signature, 'base64');
  const link = new OAuth2Client('id', 'secret', 'https://example.com/cb').generateAuthUrl({ access_type: 'offline', scope: ['email'] });
  return [JSON.parse(Buffer.from(head, 'base64')), claims.iss, claims.aud, claims.exp - claims.iat, genuine, link, new JWT({ email: 'a', key: rsa, scopes: ['b'] }).scopes];
};
//// @aws-sdk/client-s3
const { S3Client, PutObjectCommand, GetObjectCommand } = require('@aws-sdk/client-s3');
module.exports = async ({ args: { url } }) => {
  const s3 = new S3Client({ region: 'us-east-1', endpoint: url, forcePathStyle: true, credentials: { accessKeyId: 'AKID', secretAccessKey: 'SECRET' } });
  const put = await s3.send(new PutObjectCommand({ Bucket: 'bucket', Key: 'a/b.txt', Body: 'hello', ContentType: 'text/plain' }));
  const got = await s3.send(new GetObjectCommand({ Bucket: 'bucket', Key: 'a/b.txt' }));
  const text = await got.Body.transformToString();
  const missing = await s3.send(new GetObjectCommand({ Bucket: 'status', Key: '404' })).catch((err) => [err.name, err.$metadata.httpStatusCode]);
  return [put.$metadata.httpStatusCode, put.ETag, got.ContentType, JSON.parse(text).path, missing];
};
//// @basis-theory/node-sdk
const { BasisTheoryClient } = require('@basis-theory/node-sdk');
module.exports = async ({ args: { url } }) => {
  const client = new BasisTheoryClient({ apiKey: 'key', environment: url });
  const made = await client.tokens.create({ type: 'token', data: 'secret', metadata: { a: 'b' } }, { maxRetries: 0 });
  const bad = await client.reactors.get('status/404', { maxRetries: 0 }).catch((err) => [err.constructor.name, err.statusCode]);
  return [made, bad];
};
//// liquidjs
module.exports = async () => {
  const { Liquid } = require('liquidjs');
  const text = '{% for x in list %}{{ x | upcase }}-{{ forloop.index }} {% endfor %}{{ name | default: "none" }} {{ "a,b" | split: "," | join: "+" }} {{ 0 | date: "%Y-%m-%d" }}';
  return new Liquid().parseAndRender(text, { list: ['a', 'b'] });
};
//// iconv-lite
module.exports = () => {
  const iconv = require('iconv-lite');
  const stream = iconv.getDecoder('utf-16le');
  return [
    iconv.encode('héllo €', 'win1252').toString('hex'), iconv.decode(Buffer.from([0xe9, 0x80]), 'win1252'), iconv.encode('日本', 'shift_jis').toString('hex'),
    iconv.decode(Buffer.from('c4e3bac3', 'hex'), 'gbk'), iconv.encode('ж', 'koi8-r').toString('hex'), iconv.decode(iconv.encode('x😀', 'utf-7'), 'utf-7'),
    stream.write(Buffer.from([0x61])), stream.write(Buffer.from([0])), iconv.encodingExists('utf-16'),
  ];
};
//// cbor-x
module.exports = () => {
  const { encode, decode, Encoder } = require('cbor-x');
  const bytes = encode({ a: [1, 2.5, 'x', true, null], b: new Map([[1, 2]]), d: new Date(0), big: 12345678901234567890n });
  return [bytes.toString('hex'), decode(bytes).a, decode(new Encoder({ structuredClone: true }).encode(new Set([1]))).size];
};
