'use strict';

// The card leaves this page in one request, to the vault. The shop gets a nonce
// before that and a token after it.

const form = document.getElementById('card');
const { vault, key, order, container } = form.dataset;
const inputs = ['number', 'expiry', 'cvc'].map((id) => document.getElementById(id));
const [number, expiry, cvc] = inputs;
const notice = document.getElementById('notice');
const status = document.getElementById('status');
const payText = document.getElementById('pay-text');
const payLabel = payText.textContent;
const timeout = 30000; // ms for a response

// The fields in the vault's errors, with the input of each and its name for a
// customer.
const fields = {
  'data.number': [number, 'card number'],
  'data.expiration_month': [expiry, 'month'],
  'data.expiration_year': [expiry, 'year'],
  'data.cvc': [cvc, 'security code'],
};

const charged = 'You have not been charged.';
const texts = {
  unreachable: `The card service cannot be reached. ${charged} Try again in a moment.`,
  expired: `That took too long, and the connection to the card service has expired. ${charged} Press Pay to try again.`,
  busy: `The card service is busy. ${charged} Try again in a minute.`,
  refused: `The card service could not take the card. ${charged} Try again in a moment.`,
  unconfirmed: 'We could not confirm the payment. Press Pay again: you will not be charged twice.',
};

// Problem is a failure with a message, about the form as a whole or about inputs.
class Problem extends Error {
  constructor(message, about = new Map()) {
    super(message);
    this.about = about;
  }
}

const digitsOf = (text) => text.replace(/\D/g, '');

function groupNumber(digits) {
  const amex = /^3[47]/.test(digits);
  return digits.replace(amex ? /^(\d{4})(\d{1,6})?(\d+)?$/ : /(\d{4})(?=\d)/g,
    amex ? (_, ...parts) => parts.slice(0, 3).filter(Boolean).join(' ') : '$1 ');
}

function splitExpiry(digits) {
  return digits.length > 2 ? `${digits.slice(0, 2)} / ${digits.slice(2, 6)}` : digits;
}

// keepFormat formats an input while the customer types. The caret stays behind
// the same digit, and deleting a separator deletes the digit next to it.
function keepFormat(input, format) {
  let last = '';
  input.addEventListener('input', (event) => {
    let digits = digitsOf(input.value);
    let before = digitsOf(input.value.slice(0, input.selectionStart)).length;
    if (digits === last && event.inputType === 'deleteContentBackward' && before > 0) {
      before -= 1;
      digits = digits.slice(0, before) + digits.slice(before + 1);
    } else if (digits === last && event.inputType === 'deleteContentForward') {
      digits = digits.slice(0, before) + digits.slice(before + 1);
    }
    last = digits;
    input.value = format(digits);
    let caret = before === digits.length ? input.value.length : 0;
    for (let seen = 0; seen < before && caret < input.value.length; caret += 1) {
      if (/\d/.test(input.value[caret])) seen += 1;
    }
    input.setSelectionRange(caret, caret);
  });
}

keepFormat(number, groupNumber);
keepFormat(expiry, splitExpiry);
keepFormat(cvc, (digits) => digits);

// say shows the problem of an input, or clears it.
function say(input, message) {
  document.getElementById(`${input.id}-error`).textContent = message;
  if (message) input.setAttribute('aria-invalid', 'true');
  else input.removeAttribute('aria-invalid');
}

for (const input of inputs) input.addEventListener('input', () => say(input, ''));

function show(problem) {
  notice.textContent = problem.about.size ? '' : problem.message;
  for (const input of inputs) say(input, problem.about.get(input) ?? '');
  const first = inputs.find((input) => problem.about.has(input));
  if (first) first.focus();
}

function setBusy(busy) {
  form.setAttribute('aria-busy', String(busy));
  payText.textContent = busy ? 'Paying…' : payLabel;
  status.textContent = busy ? 'Paying' : '';
  for (const input of inputs) input.readOnly = busy;
}

// readCard returns the card in the form that the vault expects. It checks only what
// a payment needs and the vault does not require; the vault checks the rest.
function readCard() {
  const about = new Map();
  const date = digitsOf(expiry.value);
  if (!number.value) about.set(number, 'Enter the card number.');
  if (date.length !== 4 && date.length !== 6) about.set(expiry, 'Enter the expiry date as on the card, such as 09 / 30.');
  if (!cvc.value) about.set(cvc, 'Enter the security code.');
  if (about.size) throw new Problem('', about);
  const year = Number(date.slice(2));
  return {
    number: digitsOf(number.value),
    expiration_month: Number(date.slice(0, 2)),
    expiration_year: date.length === 4 ? 2000 + year : year,
    cvc: cvc.value,
  };
}

// post sends JSON and returns the status and body. Without a response it throws a
// Problem with the given message.
async function post(url, headers, body, silence) {
  try {
    const res = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: body && JSON.stringify(body),
      credentials: 'omit',
      signal: AbortSignal.timeout(timeout),
    });
    const text = await res.text();
    return { status: res.status, body: text ? JSON.parse(text) : null };
  } catch {
    throw new Problem(silence);
  }
}

// toVault calls the vault and returns the body of its response.
async function toVault(path, apiKey, body) {
  const res = await post(vault + path, { 'SVC-API-KEY': apiKey }, body, texts.unreachable);
  if (res.status < 300) return res.body;
  if (res.status === 400) throw new Problem(texts.refused, aboutInputs(res.body.errors));
  if (res.status === 401) throw new Problem(texts.expired);
  throw new Problem(res.status === 429 ? texts.busy : texts.refused);
}

// aboutInputs maps the messages of an error body to the inputs.
function aboutInputs(errors) {
  const about = new Map();
  for (const [path, messages] of Object.entries(errors)) {
    const [input, name] = fields[path] ?? [];
    if (input && !about.has(input)) about.set(input, `Check the ${name}: it ${messages[0]}.`);
  }
  return about;
}

// toShop calls the shop. It returns whether the order was already paid.
async function toShop(path, body) {
  const res = await post(`/orders/${order}/${path}`, {}, body, texts.unconfirmed);
  if (res.status < 300) return false;
  if (res.status === 409) return true;
  const input = inputs.find(({ id }) => id === res.body.field);
  throw new Problem(res.body.message, input && new Map([[input, res.body.message]]));
}

async function pay(card) {
  const session = await toVault('/sessions', key);
  if (await toShop('session', { nonce: session.nonce })) return;
  const token = await toVault('/tokens', session.session_key, { type: 'card', data: card, containers: [container] });
  await toShop('payment', { token: token.id });
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  if (form.getAttribute('aria-busy') === 'true') return;
  show(new Problem(''));
  try {
    const card = readCard();
    setBusy(true);
    await pay(card);
    location.replace(`/orders/${order}`); // now the receipt
  } catch (error) {
    setBusy(false);
    show(error instanceof Problem ? error : new Problem(texts.refused));
  }
});

// If the browser restores this page from its cache, the order may have been paid in
// the meantime.
window.addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload();
});
