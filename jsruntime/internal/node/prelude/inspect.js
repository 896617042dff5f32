'use strict';
// util.inspect and util.format, in the form of Node's defaults.
const classOf = sys('classOf');
const promiseState = sys('promise');
const custom = Symbol.for('nodejs.util.inspect.custom');
const plainKey = /^[A-Za-z_$][\w$]*$/;

function quote(text) {
  let mark = "'";
  if (text.includes("'")) mark = !text.includes('"') ? '"' : !text.includes('`') && !text.includes('${') ? '`' : "'";
  const escaped = text.replace(/[\u0000-\u001f\u007f\\]/g, (c) => {
    const known = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\b': '\\b', '\f': '\\f', '\v': '\\v', '\\': '\\\\' };
    return known[c] || '\\x' + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
  });
  return mark + (mark === "'" ? escaped.replace(/'/g, "\\'") : escaped) + mark;
}

function primitive(value) {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'bigint') return value + 'n';
  if (Object.is(value, -0)) return '-0';
  return String(value);
}

function constructorName(value) {
  for (let o = value; o !== null; o = Object.getPrototypeOf(o)) {
    const found = Object.getOwnPropertyDescriptor(o, 'constructor');
    if (found && typeof found.value === 'function' && found.value.name) return found.value.name;
  }
  return null;
}

const keyText = (key) => (typeof key === 'symbol' ? `[${String(key)}]` : plainKey.test(key) ? key : quote(key));

// Printer writes one value. It keeps track of the enclosing values.
class Printer {
  constructor(options) {
    this.depth = options.depth === undefined ? 2 : options.depth === null ? Infinity : options.depth;
    this.breakLength = options.breakLength === undefined ? 80 : options.breakLength;
    this.compact = options.compact === undefined ? 3 : options.compact;
    this.showHidden = !!options.showHidden;
    this.sorted = options.sorted;
    this.maxArray = options.maxArrayLength === undefined ? 100 : options.maxArrayLength === null ? Infinity : options.maxArrayLength;
    this.options = options;
    this.stack = [];
    this.circular = new Map();
    this.indent = 0;
    this.level = 0;
  }

  value(value, level) {
    if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return primitive(value);
    if (this.options.customInspect !== false && typeof value[custom] === 'function' && value[custom] !== inspect) {
      const out = value[custom](this.depth - level, this.options, inspect);
      if (out !== value) return typeof out === 'string' ? out : this.value(out, level);
    }
    if (this.stack.includes(value)) {
      if (!this.circular.has(value)) this.circular.set(value, this.circular.size + 1);
      return `[Circular *${this.circular.get(value)}]`;
    }
    return this.object(value, level);
  }

  object(value, level) {
    const name = constructorName(value);
    const shape = this.shape(value, name);
    if (level > this.depth && Object.keys(value).length + Object.getOwnPropertySymbols(value).length + (value.size || 0) > 0) {
      return Array.isArray(value) ? '[Array]' : `[${shape.tag || name || 'Object: null prototype'}]`;
    }
    this.stack.push(value);
    this.level = level;
    this.indent += 2;
    const entries = shape.entries ? shape.entries(level) : [];
    if (shape.skipIndices && this.showHidden && shape.array) entries.push(`[length]: ${value.length}`);
    for (const key of this.keys(value, shape.skipIndices)) entries.push(this.property(value, key, level, shape.array));
    this.indent -= 2;
    this.stack.pop();
    const mark = this.circular.has(value) ? `<ref *${this.circular.get(value)}> ` : '';
    if (entries.length === 0 && shape.bare) return mark + shape.bare;
    const head = shape.bare && entries.length ? shape.bare + ' ' : shape.head;
    return mark + this.wrap(entries, head, shape.open, shape.close, shape.array, level);
  }

  shape(value, name) {
    const kind = classOf(value);
    const tag = typeof value[Symbol.toStringTag] === 'string' && value[Symbol.toStringTag] !== name ? value[Symbol.toStringTag] : '';
    const head = (standard) => (name === null ? `[${standard}: null prototype] ` : name === standard ? '' : name + ' ');
    if (Array.isArray(value)) {
      const prefix = name === 'Array' ? '' : `${name}(${value.length}) `;
      return { head: prefix, open: '[', close: ']', array: true, skipIndices: true, entries: (level) => this.items(value, level) };
    }
    if (typeof value === 'function') return { bare: this.functionText(value, name), head: '', open: '{', close: '}' };
    if (value instanceof Error || kind === 'Error') return { bare: errorText(value, this.indent), head: '', open: '{', close: '}' };
    if (kind === 'RegExp') return { bare: RegExp.prototype.toString.call(value), head: '', open: '{', close: '}' };
    if (kind === 'Date') return { bare: Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString(), head: '', open: '{', close: '}' };
    if (value instanceof Map) return { head: `${name}(${value.size}) `, open: '{', close: '}', entries: (level) => [...value].map(([k, v]) => `${this.value(k, level + 1)} => ${this.value(v, level + 1)}`) };
    if (value instanceof Set) return { head: `${name}(${value.size}) `, open: '{', close: '}', entries: (level) => [...value].map((v) => this.value(v, level + 1)) };
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      return { head: `${name}(${value.length}) `, open: '[', close: ']', array: true, skipIndices: true, entries: (level) => this.items(Array.from(value), level) };
    }
    if (kind === 'ArrayBuffer') return { head: name + ' ', open: '{', close: '}', entries: () => [`[Uint8Contents]: <${Array.from(new Uint8Array(value).subarray(0, 50), (b) => b.toString(16).padStart(2, '0')).join(' ')}>`, `byteLength: ${value.byteLength}`] };
    if (value instanceof Promise) {
      const state = promiseState(value) || [0];
      return { head: name + ' ', open: '{', close: '}', entries: (level) => [state[0] === 0 ? '<pending>' : (state[0] === 2 ? '<rejected> ' : '') + this.value(state[1], level + 1)] };
    }
    if (value instanceof WeakSet || value instanceof WeakMap) return { bare: `${name} { <items unknown> }`, head: '', open: '{', close: '}' };
    if (kind === 'Number' || kind === 'String' || kind === 'Boolean') return { bare: `[${kind}: ${primitive(value.valueOf())}]`, head: '', open: '{', close: '}', skipIndices: kind === 'String' };
    return { head: tag ? `${name === null ? '[Object: null prototype]' : name} [${tag}] ` : head('Object'), open: '{', close: '}', tag: name };
  }

  items(value, level) {
    const out = [];
    const shown = Math.min(value.length, this.maxArray);
    let holes = 0;
    const flush = () => { if (holes) out.push(`<${holes} empty item${holes > 1 ? 's' : ''}>`); holes = 0; };
    for (let i = 0; i < shown; i++) {
      if (!(i in value)) { holes++; continue; }
      flush();
      out.push(this.value(value[i], level + 1));
    }
    flush();
    if (value.length > shown) out.push(`... ${value.length - shown} more item${value.length - shown > 1 ? 's' : ''}`);
    return out;
  }

  keys(value, skipIndices) {
    let keys = this.showHidden ? Object.getOwnPropertyNames(value) : Object.keys(value);
    if (skipIndices) keys = keys.filter((key) => !/^\d+$/.test(key) && key !== 'length');
    if (value instanceof Error) keys = keys.filter((key) => key !== 'stack' && key !== 'message');
    if (this.sorted) keys.sort(typeof this.sorted === 'function' ? this.sorted : undefined);
    const symbols = Object.getOwnPropertySymbols(value).filter((key) => this.showHidden || Object.prototype.propertyIsEnumerable.call(value, key));
    return [...keys, ...symbols];
  }

  property(value, key, level) {
    const found = Object.getOwnPropertyDescriptor(value, key) || { value: value[key], enumerable: true };
    let text;
    if (found.get) text = found.set ? '[Getter/Setter]' : '[Getter]';
    else if (found.set) text = '[Setter]';
    else text = this.value(found.value, level + 1);
    const name = found.enumerable === false ? `[${String(key)}]` : keyText(key);
    return `${name}: ${text}`;
  }

  functionText(value, name) {
    const source = Function.prototype.toString.call(value);
    if (source.startsWith('class')) {
      const parent = Object.getPrototypeOf(value);
      return `[class ${value.name || '(anonymous)'}${parent && parent.name ? ' extends ' + parent.name : ''}]`;
    }
    const kind = name === null ? 'Function (null prototype)' : name;
    return value.name ? `[${kind}: ${value.name}]` : `[${kind} (anonymous)]`;
  }

  wrap(entries, head, open, close, array, level) {
    if (entries.length === 0) return `${head}${open}${close}`;
    let output = entries;
    if (array && entries.length > 6 && this.compact >= 1 && !this.showHidden) output = this.columns(entries);
    const levels = this.level - level;
    if (this.compact !== false && levels < this.compact && output === entries) {
      const start = output.length + this.indent + open.length + head.length + 10;
      const total = output.reduce((sum, item) => sum + item.length, output.length + start);
      if (total <= this.breakLength && !output.some((item) => item.includes('\n'))) {
        return `${head}${open} ${output.join(', ')} ${close}`;
      }
    }
    const pad = '\n' + ' '.repeat(this.indent);
    return `${head}${open}${pad}  ${output.join(`,${pad}  `)}${pad}${close}`;
  }

  // columns lays out many short items as a table, like Node.
  columns(entries) {
    const more = /^\.\.\. /.test(entries[entries.length - 1]) ? 1 : 0;
    const count = entries.length - more;
    const lengths = entries.slice(0, count).map((item) => item.length + 2);
    const longest = Math.max(...lengths);
    const total = lengths.reduce((a, b) => a + b, 0);
    if (longest * 3 + this.indent >= this.breakLength || !(total / longest > 5 || longest - 2 <= 6)) return entries;
    const bias = Math.sqrt(longest - total / entries.length);
    const width = Math.max(longest - 2 - bias, 1);
    const columns = Math.min(Math.round(Math.sqrt(2.5 * width * count) / width), Math.floor((this.breakLength - this.indent) / longest), this.compact * 4, 15);
    if (columns <= 1) return entries;
    const widths = [];
    for (let i = 0; i < columns; i++) {
      let most = 0;
      for (let j = i; j < count; j += columns) most = Math.max(most, lengths[j]);
      widths.push(most);
    }
    const numbers = entries.slice(0, count).every((item) => /^-?[\d.e+]+n?$/.test(item));
    const rows = [];
    for (let i = 0; i < count; i += columns) {
      const end = Math.min(i + columns, count);
      let row = '';
      for (let j = i; j < end - 1; j++) row += numbers ? `${entries[j]}, `.padStart(widths[j - i]) : `${entries[j]}, `.padEnd(widths[j - i]);
      row += numbers ? entries[end - 1].padStart(widths[end - 1 - i] - 2) : entries[end - 1];
      rows.push(row);
    }
    if (more) rows.push(entries[count]);
    return rows;
  }
}

function errorText(value, indent) {
  const stack = typeof value.stack === 'string' && value.stack ? value.stack : Error.prototype.toString.call(value);
  const text = stack.split('\n').filter((line) => line.trim() !== '' && !line.includes('vault:') && !line.includes('(native)'))
    .map((line) => (/^\s*at /.test(line) ? '    ' + line.trim() : line)).join('\n');
  const shown = /\n\s+at /.test(text) ? text : `[${text}]`;
  return indent ? shown.replace(/\n/g, '\n' + ' '.repeat(indent)) : shown;
}

function inspect(value, options, depth) {
  if (typeof options === 'boolean') options = { showHidden: options, depth };
  const settings = { ...(options || {}) };
  return new Printer(settings).value(value, 0);
}
inspect.custom = custom;
inspect.defaultOptions = { depth: 2 };
inspect.colors = {};
inspect.styles = {};

function formatNumber(value, convert) {
  if (typeof value === 'bigint') return value + 'n';
  if (typeof value === 'symbol') return 'NaN';
  const number = convert(value);
  return Object.is(number, -0) ? '-0' : String(number);
}

function safeStringify(value) {
  try {
    return JSON.stringify(value);
  } catch (err) {
    if (/circular/i.test(err.message)) return '[Circular]';
    throw err;
  }
}

function formatString(value) {
  if (typeof value === 'bigint') return value + 'n';
  if (typeof value === 'object' && value !== null && !hasOwnToString(value)) return inspect(value, { depth: 0, compact: 3 });
  if (Object.is(value, -0)) return '-0';
  return String(value);
}

function hasOwnToString(value) {
  if (value instanceof Error || value instanceof Date) return true;
  return typeof value.toString === 'function' && value.toString !== Object.prototype.toString && value.toString !== Array.prototype.toString;
}

const format = (...args) => formatWithOptions(undefined, ...args);

function formatWithOptions(options, ...args) {
  if (typeof args[0] !== 'string') return args.map((arg) => (typeof arg === 'string' ? arg : inspect(arg, options))).join(' ');
  let used = 1;
  let text = args[0];
  if (args.length > 1) {
    text = text.replace(/%[sdifjoOc%]/g, (mark) => {
      if (mark === '%%') return '%';
      if (used >= args.length) return mark;
      const arg = args[used++];
      switch (mark) {
        case '%s': return formatString(arg);
        case '%d': return formatNumber(arg, Number);
        case '%i': return formatNumber(arg, (v) => parseInt(v, 10));
        case '%f': return typeof arg === 'symbol' ? 'NaN' : String(parseFloat(arg));
        case '%j': return safeStringify(arg);
        case '%o': return inspect(arg, { ...options, showHidden: true, depth: 4 });
        case '%O': return inspect(arg, options);
        default: return '';
      }
    });
  }
  for (; used < args.length; used++) text += ' ' + (typeof args[used] === 'string' ? args[used] : inspect(args[used], options));
  return text;
}

module.exports = { inspect, format, formatWithOptions };
