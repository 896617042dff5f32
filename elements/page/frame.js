'use strict';

// The page that holds this frame may be hostile. What leaves this script towards the page
// goes through tell, fail and finish. They build each value from an allow list.

const config = JSON.parse(document.documentElement.dataset.config);
const root = document.documentElement;
const timeout = 30000; // ms for a response

const languages = {
  en: {
    labels: { number: 'Card number', expiry: 'Expiry date', cvc: 'Security code', text: 'Value', network: 'Pay with', copy: 'Copy', none: 'No value' },
    placeholders: { number: '1234 1234 1234 1234', expiry: 'MM / YY', cvc: 'CVC', text: '' },
    messages: {
      number_required: 'Enter the card number.',
      number_incomplete: 'The card number is too short.',
      number_invalid: 'Check the card number. A digit seems to be wrong.',
      expiry_required: 'Enter the expiry date.',
      expiry_incomplete: 'Enter the expiry date as on the card, such as 09 / 30.',
      expiry_invalid: 'The month must be from 01 to 12.',
      expiry_past: 'This card has expired. Check the date.',
      cvc_required: 'Enter the security code.',
      cvc_incomplete: 'The security code is too short.',
      cvc_invalid: 'The security code is too long for this card.',
      text_required: 'Fill in this field.',
      text_invalid: 'Check this value.',
      network_required: 'Choose how to pay.',
      copied: 'Copied',
    },
  },
  de: {
    labels: { number: 'Kartennummer', expiry: 'Gültig bis', cvc: 'Prüfnummer', text: 'Wert', network: 'Bezahlen mit', copy: 'Kopieren', none: 'Kein Wert' },
    placeholders: { number: '1234 1234 1234 1234', expiry: 'MM / JJ', cvc: 'CVC', text: '' },
    messages: {
      number_required: 'Geben Sie die Kartennummer ein.',
      number_incomplete: 'Die Kartennummer ist zu kurz.',
      number_invalid: 'Prüfen Sie die Kartennummer. Eine Ziffer scheint falsch zu sein.',
      expiry_required: 'Geben Sie das Ablaufdatum ein.',
      expiry_incomplete: 'Geben Sie das Datum wie auf der Karte ein, zum Beispiel 09 / 30.',
      expiry_invalid: 'Der Monat muss zwischen 01 und 12 liegen.',
      expiry_past: 'Diese Karte ist abgelaufen. Prüfen Sie das Datum.',
      cvc_required: 'Geben Sie die Prüfnummer ein.',
      cvc_incomplete: 'Die Prüfnummer ist zu kurz.',
      cvc_invalid: 'Die Prüfnummer ist zu lang für diese Karte.',
      text_required: 'Füllen Sie dieses Feld aus.',
      text_invalid: 'Prüfen Sie diesen Wert.',
      network_required: 'Wählen Sie, womit Sie bezahlen.',
      copied: 'Kopiert',
    },
  },
};

// Texts for the developer of the page, by the reason of a failure. None holds a value.
const reasons = {
  fields: 'Fields are missing or wrong; fields says which.',
  arguments: 'An option of the call or an attribute of the element is wrong',
  busy: 'The element is busy with an earlier call. Wait for it.',
  many: 'The server has too much to do, or the rate limit is reached. Try again in a moment.',
  key: 'The server does not know the API key. It may be revoked or mistyped, or belong to another tenant.',
  session: 'The session has expired. Call again.',
  permission: 'The key or session may not do this. Check its permissions and containers, and what authorize granted.',
  authorize: 'authorize failed. Its own error is in the console.',
  missing: 'The server has no such token.',
  other: 'The server refused the call.',
  silent: 'The server cannot be reached, or did not respond in time. The token may have been created.',
  noReveal: 'Nothing can be revealed, because the server has no --elements-authorize.',
  site: 'The host of --elements-authorize must be of the same site as the elements.',
  denied: 'The server at --elements-authorize did not allow this. It must accept this origin, with cookies, and authorize the nonce.',
};

// Ranges of the first six digits, by brand. Narrow ranges come first.
const ranges = `american-express 340000-349999 370000-379999
diners-club 300000-305999 309500-309599 360000-369999 380000-399999
jcb 352800-358999
mir 220000-220499
mastercard 222100-272099 510000-559999
hipercard 606282-606282
elo 401178-401179 431274-431274 438935-438935 451416-451416 457393-457393 504175-504175 506699-506778 509000-509999 627780-627780 636297-636297 636368-636368 650031-650033 650035-650051
visa 400000-499999
discover 601100-601199 622126-622925 644000-649999 650000-659999
unionpay 620000-629999 810000-817199
maestro 500000-509999 560000-589999 600000-699999`.split('\n').flatMap((line) => {
  const [brand, ...spans] = line.split(' ');
  return spans.map((span) => [brand, ...span.split('-')]);
});

// Lengths of numbers. The first one completes a number while it is typed.
const lengths = {
  'american-express': [15], 'diners-club': [14, 15, 16, 17, 18, 19], jcb: [16, 17, 18, 19], mir: [16, 17, 18, 19], mastercard: [16],
  hipercard: [16, 13, 19], elo: [16], visa: [16, 13, 19], discover: [16, 17, 18, 19],
};
const anyLength = [19, 12, 13, 14, 15, 16, 17, 18];

const names = {
  'american-express': 'Amex', 'diners-club': 'Diners', jcb: 'JCB', mir: 'Mir', mastercard: 'Mastercard', hipercard: 'Hipercard',
  elo: 'Elo', visa: 'Visa', discover: 'Discover', unionpay: 'UnionPay', maestro: 'Maestro', cartes_bancaires: 'Cartes Bancaires',
};

// digitsOf returns the digits of a text, also those of Arabic and Persian keyboards.
const digitsOf = (text) => text.normalize('NFKC').replace(/[\u0660-\u0669\u06f0-\u06f9]/g, (d) => d.charCodeAt(0) & 15).replace(/\D/g, '');
const longest = 19; // digits

// brandOf returns the brand of a number, or of its first digits.
function brandOf(digits) {
  if (!digits) return 'unknown';
  const low = digits.slice(0, 6).padEnd(6, '0');
  const high = digits.slice(0, 6).padEnd(6, '9');
  const found = ranges.find(([, from, to]) => from <= low && high <= to);
  return found && (found[0] !== 'maestro' || digits.length > 3) ? found[0] : 'unknown';
}

const lengthsOf = (brand) => lengths[brand] ?? anyLength;

function isLuhn(digits) {
  let sum = 0;
  for (let i = 0; i < digits.length; i += 1) {
    const d = Number(digits[digits.length - 1 - i]);
    sum += i % 2 ? (d * 2 > 9 ? d * 2 - 9 : d * 2) : d;
  }
  return sum % 10 === 0;
}

// binOf returns the part of a number that may leave this frame, to its own server.
const binOf = (digits, brand) => digits.slice(0, lengthsOf(brand)[0] < 16 ? 6 : 8);

// The kinds of fields: how they are filled in, shown and checked.

function groupNumber(digits) {
  const brand = brandOf(digits);
  const text = digits.slice(0, longest);
  const groups = { 'american-express': text.length < 16 ? [4, 6, 5] : [4, 4, 4, 4, 3], 'diners-club': text.length < 15 ? [4, 6, 4] : [4, 4, 4, 4, 3] }[brand] ?? [4, 4, 4, 4, 3];
  const parts = [];
  for (let i = 0, at = 0; i < groups.length && at < text.length; at += groups[i], i += 1) parts.push(text.slice(at, at + groups[i]));
  return parts.join(' ');
}

// expiryOf returns the digits of a month and a year, from what was typed, pasted or
// filled in: 12/30, 12/2030, 2030-12, 5/30.
function expiryOf(typed) {
  const text = typed.replace(/[\u0660-\u0669\u06f0-\u06f9]/g, digitsOf);
  const first = /^\s*(\d{4})\D+(\d{1,2})\D*$/.exec(text);
  if (first) return first[2].padStart(2, '0') + first[1].slice(2);
  const short = /^\s*(\d)\s*[/.\- ]\s*(\d{0,4})\D*$/.exec(text);
  let digits = short ? `0${short[1]}${short[2]}` : digitsOf(text);
  if (/^[2-9]/.test(digits)) digits = `0${digits}`;
  return /^\d\d20\d\d/.test(digits) ? digits.slice(0, 2) + digits.slice(4, 6) : digits.slice(0, /^\d\d20/.test(digits) ? 6 : 4);
}

const showExpiry = (digits) => (digits.length > 2 ? `${digits.slice(0, 2)} / ${digits.slice(2)}` : digits);

// Checks return the code of an error, or ''.
const checks = {
  number(digits) {
    const brand = brandOf(digits);
    if (!digits) return 'number_required';
    if (!lengthsOf(brand).includes(digits.length)) return digits.length < Math.max(...lengthsOf(brand)) ? 'number_incomplete' : 'number_invalid';
    return isLuhn(digits) ? '' : 'number_invalid';
  },
  expiry(digits) {
    if (!digits) return 'expiry_required';
    if (digits.length !== 4) return 'expiry_incomplete';
    const [month, year] = [Number(digits.slice(0, 2)), 2000 + Number(digits.slice(2))];
    if (month < 1 || month > 12) return 'expiry_invalid';
    return new Date() < new Date(year, month, 1) ? '' : 'expiry_past';
  },
  cvc(digits) {
    if (!digits) return 'cvc_required';
    if (cvcLengths().includes(digits.length)) return '';
    return digits.length < cvcLengths()[0] ? 'cvc_incomplete' : 'cvc_invalid';
  },
  text(text) {
    if (!text.trim()) return 'text_required';
    const digits = text.replace(/[\s-]/g, '');
    const shape = shapes[settings.type];
    return !shape || (shape.test(digits) && (settings.type !== 'card_number' || isLuhn(digits))) ? '' : 'text_invalid';
  },
};

const shapes = {
  card_number: /^\d{12,19}$/, us_bank_account_number: /^\d{3,17}$/, us_bank_routing_number: /^\d{9}$/,
  social_security_number: /^\d{9}$/, employer_id_number: /^\d{9}$/,
};

// toldBrand returns the brand as the page sees it. It is known with six digits, so a page
// that counts keys does not learn which of the first digits decided it.
const toldBrand = (digits) => (digits.length < 6 ? 'unknown' : brandOf(digits));

// cvcLengths returns the lengths of the security code that fit the number.
function cvcLengths() {
  const brand = fields.number ? toldBrand(fields.number.value()) : 'unknown';
  return brand === 'american-express' ? [4] : brand === 'unknown' ? [3, 4] : [3];
}

const formats = {
  number: { token: 'cc-number', read: (text) => digitsOf(text).slice(0, longest), show: groupNumber, most: (digits) => Math.max(...lengthsOf(brandOf(digits))) },
  expiry: { token: 'cc-exp', read: expiryOf, show: showExpiry, most: (digits) => (/^\d\d20/.test(digits) ? 6 : 4) },
  cvc: { token: 'cc-csc', read: (text) => digitsOf(text).slice(0, 4), show: (digits) => digits, most: () => Math.max(...cvcLengths()) },
  text: { token: 'off', read: (text) => text, show: null },
};

let port = null;
let settings = null;
let kind = '';
let busy = false;
const fields = {};
const waiting = new Map(); // calls that wait for authorize
let steered = false; // the page moves the focus, not the user
let form;
let live;
let panel; // of a co-badged card
let shown; // the value of a vault-reveal

// The vocabulary towards the page.

const codes = ['invalid', 'expired', 'unauthorized', 'refused', 'busy', 'unreachable'];
const fieldNames = ['number', 'expiry', 'cvc', 'text'];
const isText = (x, most) => typeof x === 'string' && x.length <= most;

function send(message) { port?.postMessage(message); }

// steer moves the focus for the page.
function steer(input) {
  steered = true;
  input.focus();
  steered = false;
}

function fail(id, code, reason, about = {}) {
  const safe = {};
  for (const [name, problem] of Object.entries(about)) {
    if (/^(number|expiry|cvc|text|network|type|metadata|expires_at|container|token)$/.test(name) && /^[a-z_]{1,30}$/.test(problem)) safe[name] = problem;
  }
  let text = reasons[reason] ?? reasons.other;
  if (reason === 'arguments') text += `: ${Object.keys(safe).join(', ') || 'too long'}.`;
  const user = reason === 'fields'; // messages are beside the fields, so the console needs none
  send({ is: 'failed', id, code: codes.includes(code) ? code : 'refused', text, user, fields: safe });
}

// tokenOf returns what the page may see of a token.
function tokenOf(token, end) {
  const out = {};
  if (isText(token.id, 400)) out.id = token.id;
  if (isText(token.type, 40)) out.type = token.type;
  const data = veiled(token.data, end);
  if (data !== undefined) out.data = data;
  if (Array.isArray(token.containers)) out.containers = token.containers.filter((c) => isText(c, 1000));
  if (typeof token.metadata === 'object' && token.metadata) {
    out.metadata = Object.fromEntries(Object.entries(token.metadata).filter(([, value]) => isText(value, 1000)));
  }
  for (const name of ['created_at', 'expires_at']) {
    if (/^[\dT:.+Z-]{10,40}$/.test(token[name] ?? '')) out[name] = token[name];
  }
  return out;
}

// veiled returns masked data, built again: the end of the value if it may be shown, and
// the expiry date of a card. Everything else becomes X.
function veiled(data, end) {
  const veil = (text) => {
    const kept = end && text.endsWith(end) ? end : '';
    return text.slice(0, text.length - kept.length).replace(/[^-]/g, 'X') + kept;
  };
  if (typeof data === 'string') return veil(data);
  if (typeof data !== 'object' || data === null || typeof data.number !== 'string') return undefined;
  const out = { number: veil(data.number) };
  if (Number.isInteger(data.expiration_month)) out.expiration_month = data.expiration_month;
  if (Number.isInteger(data.expiration_year)) out.expiration_year = data.expiration_year;
  return out;
}

// endOf returns the last four characters of a value if the page may see them, else ''.
// A page could call tokenize after each key, and collect the ends of all prefixes. So a
// value has no end if another one of another length, whose end was shown, begins like it.
// Four characters of a short text would be most of it.
const toldValues = [];
function endOf(value) {
  if (value.length < 8) return '';
  for (const told of toldValues) {
    if (told === value) return value.slice(-4);
    if (told.length === value.length) continue; // such as after a correction
    const shorter = Math.min(told.length, value.length);
    let same = 0;
    while (same < shorter && told[same] === value[same]) same += 1;
    if (same * 2 >= shorter) return '';
  }
  if (toldValues.length >= 20) return '';
  toldValues.push(value);
  return value.slice(-4);
}

// tellChange sends the state of a field, if it differs from the last one.
function tellChange(field) {
  const value = field.value();
  const code = checks[field.name](value);
  const settled = !field.focused || field.name !== 'number' || value.length === lengthsOf(brandOf(value))[0];
  const complete = settled && !/_(required|incomplete)$/.test(code);
  const valid = complete && code === '';
  const detail = { field: field.name, empty: value === '', complete, valid, error: field.problem || null };
  if (field.name === 'number') {
    detail.brand = toldBrand(value);
    const end = valid && field.isWhole() ? endOf(value) : '';
    if (end) detail.last4 = end;
    if (end && config.bin) detail.bin = value.slice(0, 6);
    if (panel?.networks.length > 1) detail.networks = [...panel.networks];
  }
  const text = JSON.stringify(detail);
  if (text === field.told) return;
  field.told = text;
  send({ is: 'change', detail });
}

// Fields.

function make(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

class Field {
  constructor(name) {
    const format = formats[name];
    const id = format.token === 'off' ? name : format.token;
    this.name = name;
    this.problem = '';
    this.told = '';
    this.last = '';
    this.input = make('input', {
      id, name: id, type: 'text', autocomplete: format.token, autocapitalize: 'off', autocorrect: 'off', spellcheck: 'false',
      'aria-describedby': `${id}-error`, 'aria-required': 'true', dir: name === 'text' ? 'auto' : 'ltr',
    });
    if (format.show) this.input.inputMode = 'numeric';
    this.label = make('label', { for: id });
    this.error = make('p', { id: `${id}-error`, class: 'error' });
    this.badge = make('span', { class: 'badge', 'aria-hidden': 'true' });
    this.box = make('div', { class: 'box' }, this.input, this.badge);
    this.element = make('div', { class: `field ${name}` }, this.label, this.box, this.error);
    this.done = false; // the user has left the field, or filled it in at once
    this.input.addEventListener('input', (event) => {
      this.done = !/^(insertText|insertComposition|delete)/.test(event.inputType ?? '');
      this.typed(event);
    });
    this.input.addEventListener('change', () => this.typed({}));
    this.input.addEventListener('keydown', (event) => this.pressed(event));
    this.focused = false;
    this.input.addEventListener('focus', () => {
      this.focused = true;
      send({ is: 'focus', detail: { field: name } });
    });
    this.input.addEventListener('blur', (event) => this.left(event));
  }

  value() { return formats[this.name].read(this.input.value); }

  // isWhole reports whether a number is more than the beginning of one. The first 13
  // digits of a Visa can be a valid number, and a page can take the focus after them.
  isWhole() { return this.done || this.value().length === lengthsOf(brandOf(this.value()))[0]; }

  say(code) {
    this.problem = code;
    const text = code ? textOf('messages', code) : '';
    this.error.textContent = text;
    if (code) this.input.setAttribute('aria-invalid', 'true');
    else this.input.removeAttribute('aria-invalid');
    return text;
  }

  // typed formats the input. The caret stays behind the same digit, and deleting a
  // separator deletes the digit next to it.
  typed(event) {
    const { input } = this;
    const { read, show, most } = formats[this.name];
    this.say('');
    if (show) {
      const caret = input.selectionStart ?? input.value.length;
      const atEnd = caret === input.value.length;
      let before = digitsOf(input.value.slice(0, caret)).length;
      let value = read(input.value);
      const digits = digitsOf(input.value);
      if (event.inputType === 'insertText' && digits.length > this.last.length && digits.length > most(digits)) {
        value = this.last; // a key in a full field must not push out another digit
        before = Math.max(0, before - 1);
      }
      const erased = value === this.last && /^delete/.test(event.inputType ?? '');
      if (erased && event.inputType === 'deleteContentBackward' && before > 0) {
        before -= 1;
        value = read(show(value.slice(0, before) + value.slice(before + 1)));
      } else if (erased && event.inputType === 'deleteContentForward') {
        value = read(show(value.slice(0, before) + value.slice(before + 1)));
      }
      let text = show(value);
      value = read(text);
      if (this.name === 'expiry' && value.length === 2 && atEnd && event.inputType === 'insertText') text += ' / ';
      this.last = value;
      if (input.value !== text) input.value = text;
      let at = atEnd && !erased ? text.length : 0;
      for (let seen = 0; seen < before && at < text.length; at += 1) if (/\d/.test(text[at])) seen += 1;
      if (document.activeElement === input) input.setSelectionRange(at, at);
    }
    tellChange(this);
    if (this.name === 'number') numberChanged();
    if (event.inputType?.startsWith('insert') && document.activeElement === input && input.selectionStart === input.value.length) this.moveOn();
  }

  // moveOn moves the focus to the next field if this one is complete.
  moveOn() {
    const value = this.value();
    const full = { number: lengthsOf(brandOf(value))[0], expiry: 4 }[this.name];
    if (value.length === full && !checks[this.name](value)) this.next()?.input.focus();
  }

  next() { return order()[order().indexOf(this) + 1]; }

  pressed(event) {
    const { input } = this;
    if (event.key === 'Enter' || event.key === 'Tab') this.done = true;
    if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      tellChange(this);
      send({ is: 'submit', detail: { field: this.name } });
    } else if (event.key === 'Backspace' && input.value === '') {
      const previous = order()[order().indexOf(this) - 1];
      if (!previous) return;
      event.preventDefault();
      previous.input.focus();
      previous.input.setSelectionRange(previous.input.value.length, previous.input.value.length);
    }
  }

  left(event) {
    this.focused = false;
    if (event.relatedTarget && !steered) this.done = true;
    const value = this.value();
    const code = value ? checks[this.name](value) : '';
    const text = this.say(code);
    if (text) live.textContent = text;
    tellChange(this);
    send({ is: 'blur', detail: { field: this.name } });
  }

  clear() {
    this.input.value = '';
    this.last = '';
    this.say('');
    tellChange(this);
    if (this.name === 'number') numberChanged();
  }
}

// order returns the fields in the order in which they are shown.
const order = () => [...form.querySelectorAll('.field')].map((e) => Object.values(fields).find((f) => f.element === e));

// numberChanged shows the brand, and asks for the networks of the card.
function numberChanged() {
  const value = fields.number.value();
  const brand = brandOf(value);
  fields.number.badge.textContent = names[brand] ?? '';
  fields.number.badge.dataset.brand = brand;
  if (fields.cvc.value()) tellChange(fields.cvc); // its length depends on the brand
  if (panel) panel.look(value, brand);
}

// NetworkPanel lets the buyer choose the network of a co-badged card.
class NetworkPanel {
  constructor() {
    this.networks = [];
    this.bin = '';
    this.pending = null; // the answer for bin
    this.legend = make('legend');
    this.options = make('div', { class: 'options' });
    this.element = make('fieldset', { class: 'networks', hidden: '' }, this.legend, this.options);
  }

  // look asks this server for the networks of a BIN. Nobody else gets it.
  look(value, brand) {
    const length = binOf(value, brand).length;
    const bin = value.length >= 8 || (value.length >= 6 && length === 6) ? binOf(value, brand) : '';
    if (bin === this.bin) return;
    this.bin = bin;
    this.pending = this.ask(bin);
  }

  async ask(bin) {
    let found = [];
    if (bin) {
      try {
        found = (await request('POST', 'networks', settings.key, { bin })).networks.filter((n) => /^[\w -]{1,40}$/.test(n));
      } catch { /* the card then has the network of its brand */ }
    }
    if (bin === this.bin && (found.length > 1 || this.networks.length)) this.show(found.length > 1 ? found : []);
  }

  show(networks) {
    this.networks = networks;
    this.options.replaceChildren(...networks.map((network, i) => {
      const radio = make('input', { type: 'radio', name: 'network', value: network, id: `network-${i}` });
      radio.checked = i === 0;
      return make('label', { for: `network-${i}` }, radio, names[network] ?? network.replace(/_/g, ' '));
    }));
    this.element.hidden = networks.length === 0;
    live.textContent = networks.length ? `${this.legend.textContent}: ${[...this.options.children].map((e) => e.textContent).join(', ')}` : '';
    tellChange(fields.number);
  }

  chosen() { return this.options.querySelector(':checked')?.value; }

  // settle waits for the networks of the card. The buyer must have seen a choice.
  async settle() {
    const before = this.networks;
    await this.pending;
    if (this.networks === before || this.networks.length === 0) return;
    steer(this.options.querySelector('input'));
    live.textContent = textOf('messages', 'network_required');
    throw new Failure('invalid', 'fields', { network: 'network_required' });
  }
}

// What the page may set.

function textOf(group, name) {
  const own = settings.texts?.[group]?.[name];
  if (isText(own, 200)) return own;
  return (languages[settings.lang.slice(0, 2)] ?? languages.en)[group][name] ?? '';
}

const lookNames = ['fontFamily', 'fontSize', 'fontWeight', 'fontStyle', 'lineHeight', 'letterSpacing', 'color', 'backgroundColor',
  'borderColor', 'caretColor', 'outlineColor', 'borderWidth', 'borderRadius', 'padding', 'gap'];

function applyLook(look) {
  const known = [];
  for (const state of ['base', 'focus', 'invalid', 'placeholder']) {
    for (const [name, value] of Object.entries(look?.[state] ?? {})) {
      const property = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
      if (!lookNames.includes(name) || !isText(value, 200) || /url\s*\(|[;{}\\]/i.test(value)) continue;
      if (CSS.supports(property, value)) {
        known.push(`--${state}-${property}`);
        root.style.setProperty(`--${state}-${property}`, value);
      } else {
        send({ is: 'say', text: `look.${state}.${name} is not a value that this browser knows.` });
      }
    }
  }
  for (const name of [...root.style]) if (name.startsWith('--') && !known.includes(name)) root.style.removeProperty(name);
}

// holdWidths gives the inputs a font of fixed width, unless all characters already have the
// same width in each state. Browsers scroll the page to the caret in a frame, so a page that
// shows only a part of the frame can measure each character.
let measured = '';
let again = 0;
function holdWidths() {
  const all = kind === 'text' ? Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i)) : [...'0123456789'];
  const rulers = ['', 'invalid', 'focus'].map((state) => make('p', { class: `ruler ${state}`, 'aria-hidden': 'true' }, ...all.map((c) => make('span', {}, c.repeat(8)))));
  document.body.append(...rulers);
  const fonts = rulers.map((ruler) => {
    const { fontFamily, fontStyle, fontWeight } = getComputedStyle(ruler);
    return [fontFamily, fontStyle, fontWeight].join();
  });
  const font = [...fonts, root.lang].join();
  if (font !== measured) {
    const widths = rulers.map((ruler) => [...ruler.children].map((e) => e.getBoundingClientRect().width));
    const isSmall = widths.some((some) => Math.max(...some) < 100); // while the frame is hidden, or the page has zoomed out
    measured = isSmall ? '' : font;
    cancelAnimationFrame(again);
    if (isSmall) again = requestAnimationFrame(holdWidths);
    const uneven = isSmall || widths.some((some) => Math.max(...some) - Math.min(...some) > 1);
    root.toggleAttribute('data-fixed', uneven);
    if (uneven && !isSmall && [...root.style].some((name) => name.endsWith('-font-family'))) send({ is: 'say', text: 'look has a fontFamily with characters of different widths, which the page could measure. The fields have a font of fixed width instead.' });
  }
  for (const ruler of rulers) ruler.remove();
}

function apply(given) {
  const text = (name, most) => (isText(given[name], most) ? given[name] : '');
  const scheme = ['light', 'dark'].filter((name) => text('scheme', 40).split(' ').includes(name)).join(' ') || 'light';
  const old = settings;
  settings = {
    key: text('key', 200), container: text('container', 1000), type: text('type', 40), token: text('token', 400),
    path: text('path', 400), lang: text('lang', 40), texts: typeof given.texts === 'object' ? given.texts : {},
    rows: Array.isArray(given.rows) ? given.rows : [],
  };
  root.lang = languages[settings.lang.slice(0, 2)] || given.texts?.labels ? settings.lang : 'en';
  root.dir = given.rtl === true ? 'rtl' : 'ltr';
  root.dataset.scheme = scheme;
  root.style.colorScheme = scheme;
  applyLook(given.look);
  document.title = textOf('labels', kind === 'card' ? 'number' : 'text');
  if (kind === 'reveal') {
    if (old && (old.token !== settings.token || old.path !== settings.path)) shown.set(null);
    else shown.label();
    return;
  }
  holdWidths();
  arrange();
  form.firstElementChild.disabled = given.disabled === true;
}

// arrange puts the fields in rows, and gives them their texts.
function arrange() {
  const rows = kind === 'card' ? settings.rows.map((row) => (Array.isArray(row) ? row : []).filter((name) => Object.hasOwn(fields, name))) : [[kind]];
  const key = JSON.stringify(rows);
  if (form.dataset.rows !== key) { // moving a field would take its focus
    form.dataset.rows = key;
    const built = rows.map((row) => make('div', { class: 'row' }, ...row.map((name) => fields[name].element)));
    if (panel) built.splice(1, 0, panel.element);
    form.firstElementChild.replaceChildren(...built);
  }
  const all = order();
  all.forEach((field, i) => {
    field.label.textContent = textOf('labels', field.name);
    field.input.placeholder = textOf('placeholders', field.name);
    field.input.enterKeyHint = i === all.length - 1 ? 'done' : 'next';
    field.say(field.problem);
  });
  if (panel) panel.legend.textContent = textOf('labels', 'network');
  if (fields.text) {
    fields.text.input.inputMode = shapes[settings.type] ? 'numeric' : 'text';
  }
}

function build() {
  live = make('p', { class: 'hidden', role: 'status' });
  if (kind === 'reveal') {
    shown = new Shown();
    document.body.append(shown.element, live);
    return;
  }
  form = make('form', { novalidate: '', autocomplete: 'on' }, make('fieldset', { class: 'all' }));
  form.addEventListener('submit', (event) => event.preventDefault());
  for (const name of kind === 'card' ? ['number', 'expiry', 'cvc'] : [kind]) fields[name] = new Field(name);
  if (kind === 'card' && config.networks) panel = new NetworkPanel();
  document.body.append(form, live); // no landmark: the page has its own
  let last = 0;
  new ResizeObserver(() => {
    const height = Math.min(4000, Math.ceil(document.body.getBoundingClientRect().height));
    if (height !== last) send({ is: 'height', height });
    last = height;
  }).observe(document.body);
}

// Shown is the value of a vault-reveal. Its size does not depend on the value. It always
// scrolls a little, so that neither Tab nor a wheel tells the page how long the value is.
class Shown {
  constructor() {
    this.output = make('output', { class: 'value', dir: 'auto', tabindex: '0', translate: 'no' }, make('span'));
    this.version = 0; // a value that arrives after hide is dropped
    this.element = make('div', { class: 'reveal' }, this.output);
    this.text = null;
    if (config.copy) {
      this.button = make('button', { type: 'button', hidden: '' });
      this.button.addEventListener('click', () => this.copy());
      this.element.append(this.button);
    }
    this.set(null);
  }

  label() {
    this.output.setAttribute('aria-label', this.text === null ? textOf('labels', 'text') : `${textOf('labels', 'text')}: ${this.text}`);
    if (this.button) this.button.textContent = textOf('labels', 'copy');
  }

  set(text) {
    this.version += 1;
    this.text = text;
    this.output.firstChild.textContent = text ?? '•'.repeat(8);
    this.output.scrollLeft = 0;
    this.output.classList.toggle('veil', text === null);
    if (this.button) this.button.hidden = text === null;
    if (settings) this.label();
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.text);
      live.textContent = textOf('messages', 'copied');
    } catch { /* the page's policy forbids it */ }
  }
}

// Calls.

// Failure ends a call.
class Failure {
  constructor(code, reason, about) {
    Object.assign(this, { code, reason, about });
  }
}

// exact keeps the text of numbers that JavaScript would round.
const exact = (_, value, context) => (typeof value === 'number' && (context?.source ?? String(value)) !== String(value) ? context.source : value);

// request calls this server and returns the body of its response.
async function request(method, path, key, body) {
  const own = key === settings.key;
  let response;
  let parsed;
  try {
    response = await fetch(path, {
      method, credentials: 'omit', cache: 'no-store', redirect: 'error', referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(timeout),
      headers: { [config.header]: key, 'Content-Type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' },
      body: body && JSON.stringify(body),
    });
    parsed = JSON.parse(await response.text(), exact);
  } catch {
    throw new Failure('unreachable', 'silent');
  }
  if (response.ok) return parsed;
  const session = !own;
  switch (response.status) {
    case 400: case 413: throw new Failure('invalid', 'arguments', aboutFields(parsed.errors));
    case 401: throw session ? new Failure('expired', 'session') : new Failure('unauthorized', 'key');
    case 403: throw session ? new Failure('unauthorized', 'permission') : new Failure('refused', 'permission');
    case 404: throw new Failure('refused', 'missing');
    case 429: case 503: throw new Failure('busy', 'many');
    default: throw response.status >= 500 ? new Failure('unreachable', 'silent') : new Failure('refused', 'other');
  }
}

// aboutFields returns the fields of an error of the server, by their names here.
function aboutFields(errors) {
  const about = {};
  const known = { 'data.number': 'number', 'data.expiration_month': 'expiry', 'data.expiration_year': 'expiry', 'data.cvc': 'cvc', data: 'text' };
  for (const path of Object.keys(errors ?? {})) {
    const name = known[path] ?? /^[a-z_]*/.exec(path)[0].replace('containers', 'container'); // as the attribute
    about[name] = { number: 'number_invalid', expiry: 'expiry_invalid', cvc: 'cvc_incomplete', text: 'text_invalid' }[name] ?? 'invalid';
  }
  return about;
}

// keyFor returns the key for a call: a session's that the page's server has authorized, or
// the public key itself. The page gets the nonce alone.
async function keyFor(call) {
  if (!call.authorize) return settings.key;
  const session = await request('POST', 'sessions', settings.key);
  const done = await new Promise((resolve) => {
    waiting.set(call.id, resolve);
    setTimeout(resolve, 2 * timeout, false);
    send({ is: 'authorize', id: call.id, nonce: session.nonce });
  });
  if (!done) throw new Failure('refused', 'authorize');
  return session.session_key;
}

// checkFields shows what is wrong with the fields, and moves the focus to the first one.
function checkFields() {
  const about = {};
  for (const field of order()) {
    const code = checks[field.name](field.value());
    if (code) about[field.name] = code;
  }
  showProblems(about);
}

function showProblems(about) {
  const bad = order().filter((field) => about[field.name]);
  for (const field of bad) field.say(about[field.name]);
  for (const field of bad) tellChange(field);
  if (bad.length === 0) return;
  steer(bad[0].input);
  throw new Failure('invalid', 'fields', about);
}

async function tokenize(call) {
  checkFields();
  if (panel) await panel.settle();
  const { metadata, expires_at } = call.args;
  const body = { type: kind === 'card' ? 'card' : settings.type || 'token' };
  let value;
  if (kind === 'card') {
    value = fields.number.value();
    body.data = { number: value };
    if (fields.expiry.element.isConnected) {
      const date = fields.expiry.value();
      body.data.expiration_month = Number(date.slice(0, 2));
      body.data.expiration_year = 2000 + Number(date.slice(2));
    }
    if (fields.cvc.element.isConnected) body.data.cvc = fields.cvc.value();
  } else {
    value = shapes[settings.type] ? fields.text.value().replace(/\s/g, '') : fields.text.value();
    if (/card_number|us_bank/.test(settings.type)) value = value.replace(/-/g, '');
    body.data = value;
  }
  if (settings.container) body.containers = [settings.container];
  if (metadata !== undefined && metadata !== null) {
    const isMap = Object.getPrototypeOf(metadata) === Object.prototype && Object.values(metadata).every((text) => typeof text === 'string');
    if (!isMap) throw new Failure('invalid', 'arguments', { metadata: 'invalid' });
    body.metadata = metadata;
  }
  if (expires_at !== undefined && expires_at !== null) {
    body.expires_at = expires_at instanceof Date ? (Number.isNaN(expires_at.getTime()) ? '' : expires_at.toISOString()) : expires_at;
    if (typeof body.expires_at !== 'string' || !body.expires_at) throw new Failure('invalid', 'arguments', { expires_at: 'invalid' });
  }
  const network = panel?.chosen();
  if (network) body.metadata = { ...body.metadata, network };
  const end = kind === 'card' && !fields.number.isWhole() ? '' : endOf(value);
  const key = await keyFor(call);
  try {
    return tokenOf(await request('POST', 'tokens', key, body), end);
  } catch (error) {
    if (error instanceof Failure && error.about) showProblems(error.about);
    throw error;
  }
}

async function update(call) {
  checkFields();
  const data = { cvc: fields.cvc.value() };
  const { token } = settings;
  const key = await keyFor(call);
  return tokenOf(await request('PATCH', `tokens/${encodeURIComponent(token)}`, key, { data }), '');
}

// reveal shows a value of a token. The application's own server decides whether its user
// may see it.
async function reveal() {
  if (!config.authorize) throw new Failure('refused', 'noReveal');
  const host = location.hostname;
  if (host !== new URL(config.authorize).hostname && (!config.site || (host !== config.site && !host.endsWith(`.${config.site}`)))) throw new Failure('refused', 'site');
  const { token, path } = settings;
  shown.set(null);
  const { version } = shown;
  const session = await request('POST', 'sessions', settings.key);
  let response;
  try {
    response = await fetch(config.authorize, {
      method: 'POST', credentials: 'include', cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(timeout),
      headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ nonce: session.nonce, token }),
    });
  } catch {
    throw new Failure('unreachable', 'denied');
  }
  if (!response.ok) throw new Failure(response.status === 401 || response.status === 403 ? 'unauthorized' : 'refused', 'denied');
  const found = valueAt((await request('GET', `tokens/${encodeURIComponent(token)}`, session.session_key)).data, path);
  if (version !== shown.version) return; // hidden in the meantime
  // The page must not learn which fields the data has.
  const isValue = ['string', 'number', 'boolean'].includes(typeof found);
  if (!isValue) console.warn('The token has no single value at path, or the session may not see it.');
  shown.set(isValue ? String(found) : textOf('labels', 'none'));
}

// valueAt returns the value at a path such as $.number, or undefined.
function valueAt(data, path) {
  let value = data;
  for (const [, name, index, quoted] of path.slice(1).matchAll(/\.([A-Za-z_]\w*)|\[(\d+)\]|\['([^'\\]*)'\]/g)) {
    const key = name ?? index ?? quoted;
    value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

const calls = {
  card: { tokenize }, text: { tokenize }, cvc: { update },
  reveal: { reveal, async hide() { shown.set(null); } },
};

async function run(call) {
  const does = Object.hasOwn(calls[kind], call.name) ? calls[kind][call.name] : null;
  if (!does) return;
  if (busy && call.name !== 'hide') {
    fail(call.id, 'busy', 'busy');
    return;
  }
  busy = true;
  try {
    const value = await does(call);
    send({ is: 'done', id: call.id, value });
  } catch (error) {
    if (error instanceof Failure) fail(call.id, error.code, error.reason, error.about);
    else fail(call.id, 'refused', 'other');
  } finally {
    busy = false;
  }
}

// take handles a message of the page. What is not of the protocol is ignored.
function take(message) {
  if (typeof message !== 'object' || message === null) return;
  if (!kind && message.do === 'setup' && Object.hasOwn(calls, message.kind)) {
    kind = message.kind;
    build();
    apply(message);
    send({ is: 'ready' });
    return;
  }
  if (!kind) return;
  switch (message.do) {
    case 'set':
      apply(message);
      break;
    case 'clear':
      for (const field of Object.values(fields)) field.clear();
      if (shown) shown.set(null);
      break;
    case 'focus':
      if (form) steer((order().find((field) => field.name === message.field) ?? order()[0]).input);
      break;
    case 'authorized':
      waiting.get(message.id)?.(message.done === true);
      waiting.delete(message.id);
      break;
    case 'call':
      if (Number.isInteger(message.id)) {
        run({
          id: message.id, name: String(message.name), authorize: message.authorize === true,
          args: typeof message.args === 'object' && message.args ? message.args : {},
        });
      }
      break;
  }
}

// The port comes once, from the parent, if its origin is listed.
function accept(event) {
  if (port || event.source !== window.parent || window.parent === window || !config.origins.includes(event.origin)) return;
  if (event.data !== 'vault-elements' || event.ports.length !== 1) return;
  removeEventListener('message', accept);
  [port] = event.ports;
  port.onmessage = ({ data }) => take(data);
}

addEventListener('message', accept);
for (const event of ['dragstart', 'copy', 'cut']) {
  addEventListener(event, (e) => e.preventDefault(), { capture: true });
}
addEventListener('pagehide', () => shown?.set(null));
