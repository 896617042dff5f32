'use strict';
// The commonly used part of Intl, for en-US. Other English locales are treated
// as en-US, and other languages get results in English.
const round = sys('intl.round');
const timeParts = sys('intl.time');
const zoneOf = sys('intl.zone');

const currencies = {
  USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩', BRL: 'R$', CAD: 'CA$', AUD: 'A$', MXN: 'MX$',
  NZD: 'NZ$', HKD: 'HK$', ILS: '₪', VND: '₫', TWD: 'NT$', XAF: 'FCFA', XOF: 'F\u202fCFA', XPF: 'CFPF', PHP: '₱',
};
const currencyNames = { USD: 'US dollars', EUR: 'euros', GBP: 'British pounds', JPY: 'Japanese yen', CAD: 'Canadian dollars', AUD: 'Australian dollars' };
const noDecimals = { JPY: 0, KRW: 0, VND: 0, CLP: 0, ISK: 0, PYG: 0, UGX: 0, XAF: 0, XOF: 0, XPF: 0, BHD: 3, KWD: 3, OMR: 3, JOD: 3, TND: 3, IQD: 3, LYD: 3 };
const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const units = {
  kilobyte: ['kB', 'kilobyte'], megabyte: ['MB', 'megabyte'], gigabyte: ['GB', 'gigabyte'], byte: ['byte', 'byte'], percent: ['%', 'percent'],
  kilometer: ['km', 'kilometer'], meter: ['m', 'meter'], mile: ['mi', 'mile'], kilogram: ['kg', 'kilogram'], gram: ['g', 'gram'],
  second: ['sec', 'second'], minute: ['min', 'minute'], hour: ['hr', 'hour'], day: ['day', 'day'], liter: ['L', 'liter'], celsius: ['°C', 'degree Celsius'],
};

function localesOf(locales) {
  const list = locales === undefined ? [] : typeof locales === 'string' ? [locales] : Array.from(locales);
  for (const tag of list) {
    if (typeof tag !== 'string' && typeof tag !== 'object') throw new TypeError('Incorrect locale information provided');
    if (!/^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$/.test(String(tag))) throw new RangeError(`Incorrect locale information provided`);
  }
  return list.map(String);
}
const resolve = (locales) => { const list = localesOf(locales); return list.length ? list[0] : 'en-US'; };

function option(options, name, allowed, standard) {
  const value = options[name];
  if (value === undefined) return standard;
  if (allowed && !allowed.includes(String(value))) throw new RangeError(`Value ${value} out of range for Intl options property ${name}`);
  return String(value);
}

function digitOption(options, name, low, high, standard) {
  if (options[name] === undefined) return standard;
  const value = Number(options[name]);
  if (!(value >= low && value <= high)) throw new RangeError(`${name} value is out of range.`);
  return Math.floor(value);
}

const group = (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ',');
const partsText = (parts) => parts.map((part) => part.value).join('');
const supported = { supportedLocalesOf: (locales) => localesOf(locales) };

class NumberFormat {
  #o;
  constructor(locales, options = {}) {
    const o = { locale: resolve(locales) };
    o.style = option(options, 'style', ['decimal', 'percent', 'currency', 'unit'], 'decimal');
    if (o.style === 'currency') {
      if (options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
      o.currency = String(options.currency).toUpperCase();
      if (!/^[A-Z]{3}$/.test(o.currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
      o.currencyDisplay = option(options, 'currencyDisplay', ['symbol', 'narrowSymbol', 'code', 'name'], 'symbol');
      o.currencySign = option(options, 'currencySign', ['standard', 'accounting'], 'standard');
    }
    if (o.style === 'unit') {
      if (options.unit === undefined) throw new TypeError('Unit is required with unit style.');
      o.unit = String(options.unit);
      o.unitDisplay = option(options, 'unitDisplay', ['short', 'narrow', 'long'], 'short');
    }
    o.notation = option(options, 'notation', ['standard', 'scientific', 'engineering', 'compact'], 'standard');
    o.compactDisplay = option(options, 'compactDisplay', ['short', 'long'], 'short');
    o.useGrouping = options.useGrouping === undefined ? true : options.useGrouping !== false && options.useGrouping !== 'false';
    o.signDisplay = option(options, 'signDisplay', ['auto', 'never', 'always', 'exceptZero', 'negative'], 'auto');
    o.minimumIntegerDigits = digitOption(options, 'minimumIntegerDigits', 1, 21, 1);
    NumberFormat.#digits(o, options);
    this.#o = o;
  }
  static #digits(o, options) {
    if (options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined) {
      o.minimumSignificantDigits = digitOption(options, 'minimumSignificantDigits', 1, 21, 1);
      o.maximumSignificantDigits = digitOption(options, 'maximumSignificantDigits', o.minimumSignificantDigits, 21, 21);
      return;
    }
    const decimals = o.style === 'currency' ? (o.currency in noDecimals ? noDecimals[o.currency] : 2) : 0;
    const most = o.style === 'currency' ? decimals : o.style === 'percent' || o.notation === 'compact' ? 0 : 3;
    const min = digitOption(options, 'minimumFractionDigits', 0, 20, undefined);
    const max = digitOption(options, 'maximumFractionDigits', 0, 20, undefined);
    o.minimumFractionDigits = min !== undefined ? min : Math.min(decimals, max === undefined ? decimals : max);
    o.maximumFractionDigits = max !== undefined ? max : Math.max(most, o.minimumFractionDigits);
    if (o.minimumFractionDigits > o.maximumFractionDigits) throw new RangeError('maximumFractionDigits value is out of range.');
    o.compactRounding = o.notation === 'compact' && min === undefined && max === undefined;
  }
  get format() { return (value) => partsText(this.formatToParts(value)); }
  formatToParts(value) {
    const o = this.#o;
    if (typeof value !== 'bigint') value = Number(value);
    if (typeof value === 'number' && Number.isNaN(value)) return this.#decorate([{ type: 'nan', value: 'NaN' }], false, true);
    let negative = value < 0 || Object.is(value, -0);
    if (value === Infinity || value === -Infinity) return this.#decorate([{ type: 'infinity', value: '∞' }], negative, false);
    if (o.style === 'percent') value = typeof value === 'bigint' ? value * 100n : Number(round(value, 0, 15)) * 100 * (negative ? -1 : 1);
    let suffix = '';
    let digits;
    if (o.notation === 'compact') [digits, suffix] = this.#compact(value);
    else digits = this.#round(value);
    const zero = /^[0.]*$/.test(digits);
    let [whole, fraction] = digits.split('.');
    whole = whole.padStart(o.minimumIntegerDigits, '0');
    const parts = [];
    if (o.useGrouping && !(o.notation === 'compact' && whole.length < 5)) {
      group(whole).split(',').forEach((chunk, i) => { if (i) parts.push({ type: 'group', value: ',' }); parts.push({ type: 'integer', value: chunk }); });
    } else {
      parts.push({ type: 'integer', value: whole });
    }
    if (fraction !== undefined) parts.push({ type: 'decimal', value: '.' }, { type: 'fraction', value: fraction });
    if (suffix) {
      if (o.compactDisplay === 'long') parts.push({ type: 'literal', value: ' ' });
      parts.push({ type: 'compact', value: suffix });
    }
    return this.#decorate(parts, negative, zero, digits);
  }
  #round(value) {
    const o = this.#o;
    if (o.minimumSignificantDigits) return round(value, o.minimumSignificantDigits, o.maximumSignificantDigits, true);
    return round(value, o.minimumFractionDigits, o.maximumFractionDigits, false);
  }
  #compact(value) {
    const o = this.#o;
    const names = o.compactDisplay === 'long' ? ['', 'thousand', 'million', 'billion', 'trillion'] : ['', 'K', 'M', 'B', 'T'];
    const size = Math.abs(Number(value));
    let step = 0;
    while (step < 4 && size / 1000 ** step >= 1000) step++;
    for (;;) {
      const scaled = size / 1000 ** step;
      const digits = o.compactRounding && !o.minimumSignificantDigits ? (scaled < 100 ? round(scaled, 1, 2, true) : round(scaled, 0, 0, false)) : this.#round(scaled);
      if (Number(digits) < 1000 || step === 4) return [digits, names[step]];
      step++;
    }
  }
  #decorate(parts, negative, zero, digits) {
    const o = this.#o;
    if (o.style === 'percent') parts.push({ type: 'percentSign', value: '%' });
    if (o.style === 'currency') parts = this.#currency(parts, digits);
    if (o.style === 'unit') parts = this.#unit(parts, digits);
    let sign = negative ? '-' : '';
    if (o.signDisplay === 'never') sign = '';
    if (o.signDisplay === 'always' && !negative) sign = '+';
    if (o.signDisplay === 'exceptZero') sign = zero ? '' : negative ? '-' : '+';
    if (o.signDisplay === 'negative' && zero) sign = '';
    if (sign === '-' && o.style === 'currency' && o.currencySign === 'accounting') return [{ type: 'literal', value: '(' }, ...parts, { type: 'literal', value: ')' }];
    if (sign) parts = [{ type: sign === '-' ? 'minusSign' : 'plusSign', value: sign }, ...parts];
    return parts;
  }
  #currency(parts, digits) {
    const o = this.#o;
    if (o.currencyDisplay === 'name') {
      const name = currencyNames[o.currency] || o.currency;
      return [...parts, { type: 'literal', value: ' ' }, { type: 'currency', value: digits === '1' ? name.replace(/s$/, '') : name }];
    }
    let symbol = o.currencyDisplay === 'code' ? o.currency : currencies[o.currency] || o.currency;
    if (o.currencyDisplay === 'narrowSymbol') symbol = symbol.replace(/^[A-Z]+(?=\$|¥)/, '');
    const space = /[A-Za-z]$/.test(symbol) ? [{ type: 'literal', value: '\u00a0' }] : [];
    return [{ type: 'currency', value: symbol }, ...space, ...parts];
  }
  #unit(parts, digits) {
    const o = this.#o;
    const [short, long] = units[o.unit] || [o.unit, o.unit];
    const plural = digits === '1' ? '' : 's';
    const text = o.unitDisplay === 'long' ? (o.unit === 'percent' ? long : long + plural) : short + (/^(byte|day)$/.test(short) && plural ? 's' : '');
    const space = o.unitDisplay === 'narrow' || short === '%' && o.unitDisplay !== 'long' || short === '°C' && o.unitDisplay !== 'long' ? [] : [{ type: 'literal', value: ' ' }];
    return [...parts, ...space, { type: 'unit', value: text }];
  }
  resolvedOptions() {
    const { compactRounding, ...shown } = this.#o;
    return { numberingSystem: 'latn', ...shown };
  }
  get [Symbol.toStringTag]() { return 'Intl.NumberFormat'; }
}

const pad = (n) => String(n).padStart(2, '0');
const styles = {
  date: {
    full: { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }, long: { year: 'numeric', month: 'long', day: 'numeric' },
    medium: { year: 'numeric', month: 'short', day: 'numeric' }, short: { year: '2-digit', month: 'numeric', day: 'numeric' },
  },
  time: {
    full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'long' }, long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
    medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' }, short: { hour: 'numeric', minute: '2-digit' },
  },
};
const dateFields = ['weekday', 'era', 'year', 'month', 'day'];
const timeFields = ['hour', 'minute', 'second', 'dayPeriod', 'fractionalSecondDigits'];

class DateTimeFormat {
  #o;
  constructor(locales, options = {}, standard = 'date') {
    const o = { locale: resolve(locales), calendar: 'gregory', numberingSystem: 'latn' };
    o.timeZone = options.timeZone === undefined ? 'UTC' : zoneOf(String(options.timeZone));
    for (const name of [...dateFields, ...timeFields, 'timeZoneName', 'hour12', 'hourCycle', 'dateStyle', 'timeStyle']) {
      if (options[name] !== undefined) o[name] = options[name];
    }
    if (o.dateStyle || o.timeStyle) {
      Object.assign(o, o.dateStyle && styles.date[o.dateStyle], o.timeStyle && styles.time[o.timeStyle]);
    } else {
      const any = (names) => names.some((name) => o[name] !== undefined);
      const bare = !any(dateFields) && !any(timeFields);
      const needDate = standard === 'dateOnly' ? !any(dateFields) : standard !== 'time' && bare;
      const needTime = standard === 'time' ? !any(timeFields) : standard === 'both' && bare;
      if (needDate) Object.assign(o, { year: 'numeric', month: 'numeric', day: 'numeric' });
      if (needTime) Object.assign(o, { hour: 'numeric', minute: '2-digit', second: '2-digit' });
    }
    this.#o = o;
  }
  get format() { return (date) => partsText(this.formatToParts(date)); }
  formatToParts(date) {
    const ms = date === undefined ? Date.now() : Number(date);
    if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) throw new RangeError('Invalid time value');
    const t = timeParts(ms, this.#o.timeZone);
    const dates = this.#date(t);
    const times = this.#time(t);
    const long = ['full', 'long'].includes(this.#o.dateStyle);
    const between = dates.length && times.length ? [{ type: 'literal', value: long ? ' at ' : ', ' }] : [];
    return [...dates, ...between, ...times];
  }
  #date(t) {
    const o = this.#o;
    const [year, month, day, weekday] = t;
    const has = (name) => o[name] !== undefined;
    const word = (names, i, width) => (width === 'long' ? names[i] : width === 'narrow' ? names[i][0] : names[i].slice(0, 3));
    const shown = {
      weekday: has('weekday') && { type: 'weekday', value: word(weekdays, weekday, o.weekday) },
      year: has('year') && { type: 'year', value: o.year === '2-digit' ? pad(year % 100) : String(year) },
      day: has('day') && { type: 'day', value: o.day === '2-digit' ? pad(day) : String(day) },
    };
    const named = has('month') && !['numeric', '2-digit'].includes(o.month);
    if (has('month')) shown.month = { type: 'month', value: named ? word(months, month - 1, o.month) : o.month === '2-digit' ? pad(month) : String(month) };
    const out = [];
    const add = (part, before) => { if (!part) return; if (out.length) out.push({ type: 'literal', value: before }); out.push(part); };
    add(shown.weekday, '');
    if (named) {
      add(shown.month, ', ');
      add(shown.day, shown.month && out.length && out[out.length - 1] === shown.month ? ' ' : ', ');
      add(shown.year, shown.day ? ', ' : ' ');
    } else {
      const first = shown.month || shown.day || shown.year;
      for (const part of [shown.month, shown.day, shown.year]) add(part, part === first ? ', ' : '/');
      if (shown.weekday && shown.day && !shown.month && !shown.year) return [shown.day, { type: 'literal', value: ' ' }, shown.weekday];
    }
    return out;
  }
  #time(t) {
    const o = this.#o;
    const [, , , , hour, minute, second, ms, zone, offset] = t;
    const out = [];
    const twelve = o.hour12 !== undefined ? o.hour12 : o.hourCycle !== undefined ? /h1[12]/.test(o.hourCycle) : true;
    if (o.hour !== undefined) {
      const value = twelve ? hour % 12 || 12 : o.hourCycle === 'h24' || (o.hour12 === false && !o.hourCycle) ? hour || 24 : hour;
      out.push({ type: 'hour', value: o.hour === '2-digit' || !twelve ? pad(value) : String(value) });
    }
    const add = (type, value) => { if (out.length) out.push({ type: 'literal', value: ':' }); out.push({ type, value }); };
    if (o.minute !== undefined) add('minute', o.hour !== undefined || o.second !== undefined || o.minute === '2-digit' ? pad(minute) : String(minute));
    if (o.second !== undefined) add('second', o.minute !== undefined || o.second === '2-digit' ? pad(second) : String(second));
    if (o.fractionalSecondDigits) out.push({ type: 'literal', value: '.' }, { type: 'fractionalSecond', value: String(ms).padStart(3, '0').slice(0, o.fractionalSecondDigits) });
    if (o.hour !== undefined && twelve) out.push({ type: 'literal', value: ' ' }, { type: 'dayPeriod', value: hour < 12 ? 'AM' : 'PM' });
    if (o.timeZoneName !== undefined) {
      if (out.length) out.push({ type: 'literal', value: ' ' });
      out.push({ type: 'timeZoneName', value: zoneName(o, zone, offset) });
    }
    return out;
  }
  formatRange(from, to) { return this.format(from) + ' – ' + this.format(to); }
  resolvedOptions() { return { ...this.#o }; }
  get [Symbol.toStringTag]() { return 'Intl.DateTimeFormat'; }
}

function zoneName(o, zone, offset) {
  if (o.timeZone === 'UTC') return o.timeZoneName === 'long' ? 'Coordinated Universal Time' : 'UTC';
  const american = { EST: 'Eastern Standard Time', EDT: 'Eastern Daylight Time', CST: 'Central Standard Time', CDT: 'Central Daylight Time', MST: 'Mountain Standard Time', MDT: 'Mountain Daylight Time', PST: 'Pacific Standard Time', PDT: 'Pacific Daylight Time' };
  if (o.timeZone.startsWith('America/') && american[zone]) return o.timeZoneName === 'long' ? american[zone] : zone;
  const sign = offset < 0 ? '-' : '+';
  const minutes = Math.abs(offset);
  return offset === 0 ? 'GMT' : `GMT${sign}${Math.floor(minutes / 60)}${minutes % 60 ? ':' + pad(minutes % 60) : ''}`;
}

class PluralRules {
  #type;
  constructor(locales, options = {}) { localesOf(locales); this.#type = option(options, 'type', ['cardinal', 'ordinal'], 'cardinal'); }
  select(n) {
    if (this.#type === 'cardinal') return Number(n) === 1 ? 'one' : 'other';
    const ten = n % 10;
    const hundred = n % 100;
    if (ten === 1 && hundred !== 11) return 'one';
    if (ten === 2 && hundred !== 12) return 'two';
    return ten === 3 && hundred !== 13 ? 'few' : 'other';
  }
  resolvedOptions() { return { locale: 'en-US', type: this.#type, pluralCategories: this.#type === 'cardinal' ? ['one', 'other'] : ['few', 'one', 'two', 'other'] }; }
}

class RelativeTimeFormat {
  #auto;
  constructor(locales, options = {}) { localesOf(locales); this.#auto = option(options, 'numeric', ['always', 'auto'], 'always') === 'auto'; }
  format(value, unit) {
    const name = String(unit).replace(/s$/, '');
    const words = { day: ['yesterday', 'today', 'tomorrow'], year: ['last year', 'this year', 'next year'], month: ['last month', 'this month', 'next month'], week: ['last week', 'this week', 'next week'], hour: [, 'this hour'], minute: [, 'this minute'], second: [, 'now'] };
    if (this.#auto && words[name] && words[name][value + 1]) return words[name][value + 1];
    const size = new NumberFormat().format(Math.abs(value));
    const text = `${size} ${name}${Math.abs(value) === 1 ? '' : 's'}`;
    return value < 0 || Object.is(value, -0) ? `${text} ago` : `in ${text}`;
  }
}

class ListFormat {
  #word;
  constructor(locales, options = {}) { localesOf(locales); this.#word = { conjunction: 'and', disjunction: 'or', unit: '' }[option(options, 'type', ['conjunction', 'disjunction', 'unit'], 'conjunction')]; }
  format(list) {
    const items = Array.from(list);
    const word = this.#word ? this.#word + ' ' : '';
    if (items.length <= 1) return items.join('');
    if (items.length === 2) return items.join(this.#word ? ` ${this.#word} ` : ', ');
    return items.slice(0, -1).join(', ') + ', ' + word + items[items.length - 1];
  }
}

class Collator {
  #o;
  constructor(locales, options = {}) {
    localesOf(locales);
    this.#o = { numeric: !!options.numeric, sensitivity: option(options, 'sensitivity', ['base', 'accent', 'case', 'variant'], 'variant') };
  }
  get compare() {
    const fold = (text) => {
      text = String(text);
      if (this.#o.sensitivity === 'base' || this.#o.sensitivity === 'case') text = text.normalize('NFD').replace(/[\u0300-\u036f]/g, '');
      return this.#o.sensitivity === 'base' || this.#o.sensitivity === 'accent' ? text.toLowerCase() : text;
    };
    return (a, b) => {
      if (!this.#o.numeric) return fold(a).localeCompare(fold(b));
      const split = (text) => fold(text).match(/\d+|\D+/g) || [];
      const [x, y] = [split(a), split(b)];
      for (let i = 0; i < Math.min(x.length, y.length); i++) {
        const order = /^\d/.test(x[i]) && /^\d/.test(y[i]) ? Math.sign(Number(x[i]) - Number(y[i])) : x[i].localeCompare(y[i]);
        if (order) return order;
      }
      return Math.sign(x.length - y.length);
    };
  }
  resolvedOptions() { return { locale: 'en-US', usage: 'sort', ...this.#o }; }
}

// callable makes a class that also works without new, as Intl's constructors
// do.
function callable(Class) {
  // In the engine, functions that a constructor calls see its new.target.
  function Wrapped(...args) { return Reflect.construct(Class, args, this instanceof Wrapped ? new.target : Wrapped); }
  Object.defineProperty(Wrapped, 'name', { value: Class.name });
  Object.defineProperty(Wrapped, 'prototype', { value: Class.prototype, writable: false });
  Object.defineProperty(Class.prototype, 'constructor', { value: Wrapped, writable: true, configurable: true });
  return Object.assign(Wrapped, supported);
}

module.exports = {
  NumberFormat: callable(NumberFormat), DateTimeFormat: callable(DateTimeFormat), Collator: callable(Collator),
  PluralRules: Object.assign(PluralRules, supported), RelativeTimeFormat: Object.assign(RelativeTimeFormat, supported), ListFormat: Object.assign(ListFormat, supported),
  getCanonicalLocales: (locales) => localesOf(locales),
};
Object.defineProperty(module.exports, Symbol.toStringTag, { value: 'Intl' });
