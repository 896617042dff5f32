'use strict';
// The codes of Node's errors: one table of classes and texts for all modules.
const show = (value, options) => require('inspect').inspect(value, options);

// received describes a value that was refused, the way Node does.
function received(value) {
  if (value === null || value === undefined) return ` Received ${value}`;
  if (typeof value === 'function' && value.name) return ` Received function ${value.name}`;
  if (typeof value === 'object') {
    if (value.constructor && value.constructor.name) return ` Received an instance of ${value.constructor.name}`;
    return ` Received ${show(value, { depth: -1 })}`;
  }
  const text = show(value, { colors: false });
  return ` Received type ${typeof value} (${text.length > 28 ? text.slice(0, 25) + '...' : text})`;
}

const primitives = new Set(['string', 'function', 'number', 'object', 'Function', 'Object', 'boolean', 'bigint', 'symbol']);
const isClass = /^([A-Z][a-z0-9]*)+$/;

// oneOf joins alternatives: "a", "a or b", "a, b, or c".
function oneOf(list) {
  if (list.length < 3) return list.join(' or ');
  return `${list.slice(0, -1).join(', ')}, or ${list[list.length - 1]}`;
}

// expectation lists the allowed types and classes.
function expectation(expected) {
  const all = Array.isArray(expected) ? expected : [expected];
  let types = all.filter((name) => primitives.has(name)).map((name) => name.toLowerCase());
  const classes = all.filter((name) => !primitives.has(name) && isClass.test(name));
  const others = all.filter((name) => !primitives.has(name) && !isClass.test(name));
  if (classes.length > 0 && types.includes('object')) {
    types = types.filter((name) => name !== 'object');
    classes.push('Object');
  }
  const parts = [];
  if (types.length) parts.push(`${types.length > 1 ? 'one of type' : 'of type'} ${oneOf(types)}`);
  if (classes.length) parts.push(`an instance of ${oneOf(classes)}`);
  if (others.length) {
    const article = others.length > 1 ? 'one of ' : others[0].toLowerCase() !== others[0] ? 'an ' : '';
    parts.push(article + oneOf(others));
  }
  return parts.join(' or ');
}

const kindOf = (name) => (name.includes('.') ? 'property' : 'argument');
const separated = (text) => text.replace(/\d(?=(\d{3})+$)/g, '$&_');

function rangeValue(input) {
  if (typeof input === 'bigint') {
    const text = String(input);
    return (input > 2n ** 32n || input < -(2n ** 32n) ? separated(text) : text) + 'n';
  }
  if (Number.isInteger(input) && Math.abs(input) > 2 ** 32) return separated(String(input));
  return show(input);
}

function invalidValue(name, value, reason = 'is invalid') {
  let text = show(value);
  if (text.length > 128) text = text.slice(0, 128) + '...';
  return `The ${kindOf(name)} '${name}' ${reason}. Received ${text}`;
}

function missing(...names) {
  const quoted = names.map((name) => (Array.isArray(name) ? name.map((n) => `"${n}"`).join(' or ') : `"${name}"`));
  const list = quoted.length < 3 ? quoted.join(' and ') : `${quoted.slice(0, -1).join(', ')}, and ${quoted[quoted.length - 1]}`;
  return `The ${list} argument${quoted.length > 1 ? 's' : ''} must be specified`;
}

const table = {
  ERR_AMBIGUOUS_ARGUMENT: [TypeError, (name, text) => `The "${name}" argument is ambiguous. ${text}`],
  ERR_ARG_NOT_ITERABLE: [TypeError, (name) => `${name} must be iterable`],
  ERR_ASSERTION: [Error, (text) => text],
  ERR_BROTLI_INVALID_PARAM: [RangeError, (key) => `${key} is not a valid Brotli parameter`],
  ERR_BUFFER_OUT_OF_BOUNDS: [RangeError, (name) => (name ? `"${name}" is outside of buffer bounds` : 'Attempt to access memory outside buffer bounds')],
  ERR_BUFFER_TOO_LARGE: [RangeError, (size) => `Cannot create a Buffer larger than ${size} bytes`],
  ERR_CONSOLE_WRITABLE_STREAM: [TypeError, (name) => `Console expects a writable stream instance for ${name}`],
  ERR_CRYPTO_ECDH_INVALID_FORMAT: [TypeError, (format) => `Invalid ECDH format: ${format}`],
  ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY: [Error, () => 'Public key is not valid for specified curve'],
  ERR_CRYPTO_HASH_FINALIZED: [Error, () => 'Digest already called'],
  ERR_CRYPTO_HASH_UPDATE_FAILED: [Error, () => 'Hash update failed'],
  ERR_CRYPTO_INCOMPATIBLE_KEY: [Error, (name, value) => `Incompatible ${name}: ${value}`],
  ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS: [Error, (encoding, type) => `The selected key encoding ${encoding} ${type}.`],
  ERR_CRYPTO_INVALID_DIGEST: [TypeError, (name) => `Invalid digest: ${name}`],
  ERR_CRYPTO_INVALID_JWK: [TypeError, () => 'Invalid JWK data'],
  ERR_CRYPTO_INVALID_KEYLEN: [RangeError, () => 'Invalid key length'],
  ERR_CRYPTO_INVALID_KEY_OBJECT_TYPE: [TypeError, (actual, expected) => `Invalid key object type ${actual}, expected ${expected}.`],
  ERR_CRYPTO_INVALID_STATE: [Error, (name) => `Invalid state for operation ${name}`],
  ERR_CRYPTO_JWK_UNSUPPORTED_CURVE: [Error, (name) => `Unsupported JWK EC curve: ${name}.`],
  ERR_CRYPTO_JWK_UNSUPPORTED_KEY_TYPE: [Error, () => 'Unsupported JWK Key Type.'],
  ERR_CRYPTO_SCRYPT_INVALID_PARAMETER: [Error, () => 'Invalid scrypt parameter'],
  ERR_CRYPTO_SIGN_KEY_REQUIRED: [Error, () => 'No key provided to sign'],
  ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH: [RangeError, () => 'Input buffers must have the same byte length'],
  ERR_CRYPTO_UNKNOWN_CIPHER: [Error, () => 'Unknown cipher'],
  ERR_CRYPTO_UNKNOWN_DH_GROUP: [Error, () => 'Unknown DH group'],
  ERR_ENCODING_INVALID_ENCODED_DATA: [TypeError, (name) => `The encoded data was not valid for encoding ${name}`],
  ERR_ENCODING_NOT_SUPPORTED: [RangeError, (name) => `The "${name}" encoding is not supported`],
  ERR_EVENT_RECURSION: [Error, (type) => `The event "${type}" is already being dispatched`],
  ERR_FALSY_VALUE_REJECTION: [Error, () => 'Promise was rejected with falsy value'],
  ERR_FEATURE_UNAVAILABLE_ON_PLATFORM: [TypeError, (name) => `The feature ${name} is unavailable on the current platform, which is being used to run Node.js`],
  ERR_ILLEGAL_CONSTRUCTOR: [TypeError, () => 'Illegal constructor'],
  ERR_INCOMPATIBLE_OPTION_PAIR: [TypeError, (a, b) => `Option "${a}" cannot be used in combination with option "${b}"`],
  ERR_INVALID_ARG_TYPE: [TypeError, (name, expected, value) => {
    const subject = name.endsWith(' argument') ? `The ${name}` : `The "${name}" ${kindOf(name)}`;
    return `${subject} must be ${expectation(expected)}.${received(value)}`;
  }],
  ERR_INVALID_ARG_VALUE: [TypeError, invalidValue],
  ERR_INVALID_ARG_VALUE_RANGE: [RangeError, invalidValue, 'ERR_INVALID_ARG_VALUE'],
  ERR_INVALID_BUFFER_SIZE: [RangeError, (bits) => `Buffer size must be a multiple of ${bits}`],
  ERR_INVALID_CALLBACK: [TypeError, (value) => `Callback must be a function. Received ${show(value)}`],
  ERR_INVALID_CHAR: [TypeError, (name, field) => `Invalid character in ${name}${field === undefined ? '' : ` ["${field}"]`}`],
  ERR_INVALID_FILE_URL_HOST: [TypeError, (platform) => `File URL host must be "localhost" or empty on ${platform}`],
  ERR_INVALID_FILE_URL_PATH: [TypeError, (text) => `File URL path ${text}`],
  ERR_INVALID_MIME_SYNTAX: [TypeError, (part, text, at) => `The MIME syntax for a ${part} in ${text} is invalid${at === -1 ? '' : ` at ${at}`}`],
  ERR_INVALID_RETURN_VALUE: [TypeError, (input, name, value) => {
    const got = value && value.constructor && value.constructor.name ? `an instance of ${value.constructor.name}` : value === undefined || value === null ? `${value}` : `type ${typeof value}`;
    return `Expected ${input} to be returned from the "${name}" function but got ${got}.`;
  }],
  ERR_INVALID_STATE: [Error, (text) => `Invalid state: ${text}`],
  ERR_INVALID_STATE_TYPE: [TypeError, (text) => `Invalid state: ${text}`, 'ERR_INVALID_STATE'],
  ERR_INVALID_THIS: [TypeError, (name) => `Value of "this" must be of type ${name}`],
  ERR_INVALID_TUPLE: [TypeError, (name, shape) => `${name} must be an iterable ${shape} tuple`],
  ERR_INVALID_URI: [URIError, () => 'URI malformed'],
  ERR_INVALID_URL: [TypeError, () => 'Invalid URL'],
  ERR_INVALID_URL_SCHEME: [TypeError, (expected) => `The URL must be of scheme ${[].concat(expected).join(' or ')}`],
  ERR_METHOD_NOT_IMPLEMENTED: [Error, (name) => `The ${name} method is not implemented`],
  ERR_MISSING_ARGS: [TypeError, missing],
  ERR_MISSING_OPTION: [TypeError, (name) => `${name} is required`],
  ERR_MULTIPLE_CALLBACK: [Error, () => 'Callback called multiple times'],
  ERR_NO_CRYPTO: [Error, () => 'Node.js is not compiled with OpenSSL crypto support'],
  ERR_OPERATION_FAILED: [Error, (text) => `Operation failed: ${text}`],
  ERR_OUT_OF_RANGE: [RangeError, (name, range, value, whole = false) =>
    `${whole ? name : `The value of "${name}" is out of range.`} It must be ${range}. Received ${rangeValue(value)}`],
  ERR_PARSE_ARGS_INVALID_OPTION_VALUE: [TypeError, (text) => text],
  ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL: [TypeError, (text) => `Unexpected argument '${text}'. This command does not take positional arguments`],
  ERR_PARSE_ARGS_UNKNOWN_OPTION: [TypeError, (name, positionals) =>
    `Unknown option '${name}'${positionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${name}"` : ''}`],
  ERR_STREAM_ALREADY_FINISHED: [Error, (name) => `Cannot call ${name} after a stream was finished`],
  ERR_STREAM_CANNOT_PIPE: [Error, () => 'Cannot pipe, not readable'],
  ERR_STREAM_DESTROYED: [Error, (name) => `Cannot call ${name} after a stream was destroyed`],
  ERR_STREAM_NULL_VALUES: [TypeError, () => 'May not write null values to stream'],
  ERR_STREAM_PREMATURE_CLOSE: [Error, () => 'Premature close'],
  ERR_STREAM_PUSH_AFTER_EOF: [Error, () => 'stream.push() after EOF'],
  ERR_STREAM_UNSHIFT_AFTER_END_EVENT: [Error, () => 'stream.unshift() after end event'],
  ERR_STREAM_WRITE_AFTER_END: [Error, () => 'write after end'],
  ERR_STRING_TOO_LONG: [Error, (size) => `Cannot create a string longer than 0x${size.toString(16)} characters`],
  ERR_UNAVAILABLE_DURING_EXIT: [Error, () => 'Cannot call function in process exit handler'],
  ERR_UNHANDLED_ERROR: [Error, (text) => (text === undefined ? 'Unhandled error.' : `Unhandled error. (${text})`)],
  ERR_UNKNOWN_ENCODING: [TypeError, (name) => require('util').format('Unknown encoding: %s', name)],
  ERR_UNKNOWN_SIGNAL: [TypeError, (name) => `Unknown signal: ${name}`],
  ERR_USE_AFTER_CLOSE: [Error, (name) => `${name} was closed`],
  ERR_ZLIB_INITIALIZATION_FAILED: [Error, () => 'Initialization failed'],
};

// decorate gives an error its code, and shows it where Node does.
function decorate(err, code) {
  Object.defineProperty(err, 'toString', {
    value() { return `${this.name} [${code}]: ${this.message}`; }, enumerable: false, writable: true, configurable: true,
  });
  err.code = code;
  if (typeof err.stack === 'string') {
    const stack = err.stack.replace(err.name, `${err.name} [${code}]`);
    Object.defineProperty(err, 'stack', { value: stack, enumerable: false, writable: true, configurable: true });
  }
  return err;
}

// make returns the error of a code. The arguments are for its text.
function make(code, ...args) {
  const [Class, text, shown] = table[code];
  return decorate(new Class(text(...args)), shown || code);
}

module.exports = { make, decorate, received };
