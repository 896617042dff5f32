'use strict';
// Reading and writing numbers in a Buffer, and text in one encoding.
const raise = (...args) => require('codes').raise(...args);
const view = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);

// outside throws the error for a wrong offset or size.
function outside(value, most, name) {
  if (typeof value !== 'number') raise('ERR_INVALID_ARG_TYPE', name || 'offset', 'number', value);
  if (Math.floor(value) !== value) raise('ERR_OUT_OF_RANGE', name || 'offset', 'an integer', value);
  if (most < 0) raise('ERR_BUFFER_OUT_OF_BOUNDS');
  raise('ERR_OUT_OF_RANGE', name || 'offset', `>= ${name ? 1 : 0} and <= ${most}`, value);
}

function checkOffset(buffer, offset, size) {
  const most = buffer.length - size;
  if (typeof offset !== 'number' || !(offset >= 0 && offset <= most) || Math.floor(offset) !== offset) outside(offset, most);
}

function checkValue(value, min, max, size) {
  if (!(value < min || value > max)) return;
  const n = typeof min === 'bigint' ? 'n' : '';
  let range = `>= ${min}${n} and <= ${max}${n}`;
  if (size > 4) {
    const bits = size * 8;
    range = min == 0 ? `>= 0${n} and < 2${n} ** ${bits}${n}` : `>= -(2${n} ** ${bits - 1}${n}) and < 2${n} ** ${bits - 1}${n}`;
  }
  raise('ERR_OUT_OF_RANGE', 'value', range, value);
}

// accessors defines read and write for one kind of number.
function accessors(name, size, kind, little, min, max) {
  const big = typeof min === 'bigint';
  return {
    ['read' + name](offset = 0) {
      checkOffset(this, offset, size);
      return view(this)['get' + kind](offset, little);
    },
    ['write' + name](value, offset = 0) {
      if (big) { if (typeof value !== 'bigint') raise('ERR_INVALID_ARG_TYPE', 'value', 'bigint', value); } else value = +value;
      if (min !== undefined) checkValue(value, min, max, size);
      checkOffset(this, offset, size);
      if (kind === 'Float64' && value !== value) view(this).setBigUint64(offset, 0x7ff8000000000000n, little); // the engine's NaN has other bits
      else view(this)['set' + kind](offset, value, little);
      return offset + size;
    },
  };
}

// Numbers of 1 to 6 bytes.
function checkSize(size) {
  if (!(size >= 1 && size <= 6) || Math.floor(size) !== size) outside(size, 6, 'byteLength');
}

function readInt(buffer, offset, size, little, signed) {
  if (offset === undefined) raise('ERR_INVALID_ARG_TYPE', 'offset', 'number', offset);
  checkSize(size);
  checkOffset(buffer, offset, size);
  let value = 0;
  for (let i = 0; i < size; i++) value = value * 256 + buffer[offset + (little ? size - 1 - i : i)];
  return signed && value >= 2 ** (8 * size - 1) ? value - 2 ** (8 * size) : value;
}

function writeInt(buffer, value, offset, size, little, signed) {
  checkSize(size);
  value = +value;
  checkValue(value, signed ? -(2 ** (8 * size - 1)) : 0, signed ? 2 ** (8 * size - 1) - 1 : 2 ** (8 * size) - 1, size);
  checkOffset(buffer, offset, size);
  if (value < 0) value += 2 ** (8 * size);
  for (let i = 0; i < size; i++) {
    buffer[offset + (little ? i : size - 1 - i)] = value % 256;
    value = Math.floor(value / 256);
  }
  return offset + size;
}

module.exports = function install(proto, add) {
  const all = { ...accessors('UInt8', 1, 'Uint8', false, 0, 255), ...accessors('Int8', 1, 'Int8', false, -128, 127) };
  for (const [suffix, little] of [['LE', true], ['BE', false]]) {
    Object.assign(all,
      accessors('UInt16' + suffix, 2, 'Uint16', little, 0, 65535),
      accessors('Int16' + suffix, 2, 'Int16', little, -32768, 32767),
      accessors('UInt32' + suffix, 4, 'Uint32', little, 0, 4294967295),
      accessors('Int32' + suffix, 4, 'Int32', little, -2147483648, 2147483647),
      accessors('BigUInt64' + suffix, 8, 'BigUint64', little, 0n, 2n ** 64n - 1n),
      accessors('BigInt64' + suffix, 8, 'BigInt64', little, -(2n ** 63n), 2n ** 63n - 1n),
      accessors('Float' + suffix, 4, 'Float32', little),
      accessors('Double' + suffix, 8, 'Float64', little));
    for (const [kind, signed] of [['UInt', false], ['Int', true]]) {
      all['read' + kind + suffix] = function (offset, size) { return readInt(this, offset, size, little, signed); };
      all['write' + kind + suffix] = function (value, offset, size) { return writeInt(this, value, offset, size, little, signed); };
    }
  }
  for (const name of Object.keys(all)) if (name.includes('UInt')) all[name.replace('UInt', 'Uint')] = all[name];
  for (const name of ['utf8', 'hex', 'base64', 'base64url', 'latin1', 'ascii', 'ucs2', 'utf16le']) {
    Object.assign(all, {
      [name + 'Slice'](start, end) { return this.toString(name, start, end); },
      [name + 'Write'](text, offset, length) { return this.write(text, offset, length, name); },
    });
  }
  add(proto, all);
};
