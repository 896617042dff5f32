'use strict';
// util.parseArgs.
const { raise } = require('codes');
const { validateArray, validateBoolean, validateObject, validateOneOf, validateString } = require('validators');

function checkOptions(options) {
  validateObject(options, 'options');
  for (const name of Object.keys(options)) {
    const option = options[name];
    validateObject(option, `options.${name}`);
    validateOneOf(option.type, `options.${name}.type`, ['string', 'boolean']);
    if (option.short !== undefined) {
      validateString(option.short, `options.${name}.short`);
      if (option.short.length !== 1) raise('ERR_INVALID_ARG_VALUE', `options.${name}.short`, option.short, 'must be a single character');
    }
    if (option.multiple !== undefined) validateBoolean(option.multiple, `options.${name}.multiple`);
  }
}

// store stores the value of an option.
function store(values, options, name, value) {
  const option = Object.prototype.hasOwnProperty.call(options, name) ? options[name] : {};
  const kept = value === undefined ? true : value;
  if (option.multiple) (values[name] = values[name] || []).push(kept); else values[name] = kept;
}

function checkValue(options, strict, allowPositionals, name, shown, value) {
  if (!strict) return;
  if (!Object.prototype.hasOwnProperty.call(options, name)) raise('ERR_PARSE_ARGS_UNKNOWN_OPTION', shown, allowPositionals);
  const { type, short } = options[name];
  const both = `${short ? `-${short}, ` : ''}--${name}`;
  if (type === 'string' && typeof value !== 'string') raise('ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${both} <value>' argument missing`);
  if (type === 'boolean' && value !== undefined) raise('ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${both}' does not take an argument`);
}

module.exports = function parseArgs(config = {}) {
  const { args = [], strict = true, options = {}, allowPositionals = !strict } = config;
  validateArray(args, 'args');
  validateBoolean(strict, 'strict');
  validateBoolean(allowPositionals, 'allowPositionals');
  checkOptions(options);
  const values = Object.create(null);
  const positionals = [];
  const takes = (name) => Object.prototype.hasOwnProperty.call(options, name) && options[name].type === 'string';
  const byShort = (short) => Object.keys(options).find((name) => options[name].short === short) || short;
  const queue = [...args];
  const add = (name, shown, value) => {
    if (value === undefined && takes(name) && queue.length && !(queue[0].startsWith('-') && queue[0].length > 1)) value = queue.shift();
    checkValue(options, strict, allowPositionals, name, shown, value);
    store(values, options, name, value);
  };
  while (queue.length) {
    const arg = queue.shift();
    if (arg === '--') { queue.splice(0).forEach((rest) => positional(rest)); break; }
    if (/^-[^-]$/.test(arg)) add(byShort(arg[1]), arg);
    else if (/^-[^-]/.test(arg) && arg.length > 2) {
      if (takes(byShort(arg[1]))) add(byShort(arg[1]), `-${arg[1]}`, arg.slice(2));
      else queue.unshift(`-${arg[1]}`, `-${arg.slice(2)}`);
    } else if (arg.startsWith('--') && arg.length > 2) {
      const at = arg.indexOf('=', 3);
      if (at < 0) add(arg.slice(2), arg); else add(arg.slice(2, at), arg.slice(0, at), arg.slice(at + 1));
    } else positional(arg);
  }
  return { values, positionals };

  function positional(arg) {
    if (!allowPositionals) raise('ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL', arg);
    positionals.push(arg);
  }
};
