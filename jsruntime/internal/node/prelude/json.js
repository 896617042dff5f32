'use strict';
// JSON as the runtime parses it: faster than the engine, with the messages of
// Node, and with lone surrogates. The engine calls revivers, and parses texts
// that are nested deeply.
const read = sys('json.parse');
const explain = sys('json.error');
const engine = JSON.parse;

module.exports = {
  parse(text, reviver) {
    const source = `${text}`;
    const found = read(source);
    if (found === undefined) {
      const message = explain(source);
      if (message) throw new SyntaxError(message);
    } else if (typeof reviver !== 'function') return found;
    return engine(source, reviver);
  },
};
