'use strict';

// A page that wants to know what is typed into the frame. It runs before elements.js, replaces
// what that script uses, and records everything that a page can observe. It runs once more
// after it.
(() => {
  const seen = window.seen ??= [];
  const text = (x, depth = 0) => {
    if (typeof x === 'string') return x;
    if (typeof x !== 'object' || x === null || depth > 6) return String(x);
    const parts = [];
    for (const key of Reflect.ownKeys(x)) {
      let value;
      try { value = x[key]; } catch { continue; }
      parts.push(`${String(key)}: ${typeof value === 'function' ? 'function' : text(value, depth + 1)}`);
    }
    return `{${parts.join(', ')}}`;
  };
  const record = (where, x) => seen.push(`${where}: ${text(x)}`);
  if (window.hostile) { // after elements.js
    window.hostile();
    return;
  }

  // Functions of the realm.
  const wrap = (owner, name) => {
    const original = owner[name];
    owner[name] = function (...args) {
      record(name, args);
      const result = Reflect.apply(original, this, args);
      record(`${name} returns`, result);
      return result;
    };
  };
  for (const name of ['stringify', 'parse']) wrap(JSON, name);
  for (const name of ['structuredClone', 'fetch', 'setTimeout']) wrap(window, name);
  for (const name of ['postMessage', 'dispatchEvent', 'addEventListener']) wrap(window, name);
  for (const name of ['addEventListener', 'dispatchEvent']) wrap(EventTarget.prototype, name);
  wrap(MessagePort.prototype, 'postMessage');
  for (const name of ['set', 'get', 'delete']) wrap(Map.prototype, name);
  wrap(console, 'error');
  const RealChannel = MessageChannel;
  window.MessageChannel = function () {
    const channel = new RealChannel();
    const { set } = Object.getOwnPropertyDescriptor(MessagePort.prototype, 'onmessage');
    Object.defineProperty(channel.port1, 'onmessage', {
      set(f) {
        set.call(channel.port1, (event) => {
          record('port', event.data);
          f(event);
        });
      },
    });
    window.stolen = channel.port1;
    return channel;
  };
  const RealPromise = Promise;
  const then = RealPromise.prototype.then;
  RealPromise.prototype.then = function (done, failed) {
    return then.call(this, (value) => {
      record('then', value);
      return done?.(value) ?? value;
    }, (error) => {
      record('catch', { code: error?.code, message: error?.message, fields: error?.fields });
      if (failed) return failed(error);
      throw error;
    });
  };
  const RealEvent = CustomEvent;
  window.CustomEvent = function (name, init) {
    record('event', [name, init]);
    return new RealEvent(name, init);
  };
  const RealError = Error;
  window.Error = class extends RealError {
    constructor(...args) {
      super(...args);
      record('error', args);
    }
  };
  const define = customElements.define.bind(customElements);
  customElements.define = (name, type) => {
    for (const method of Object.getOwnPropertyNames(type.prototype)) {
      const found = Object.getOwnPropertyDescriptor(type.prototype, method);
      if (method === 'constructor' || typeof found.value !== 'function') continue;
      type.prototype[method] = function (...args) {
        record(`${name}.${method}`, args);
        return found.value.apply(this, args);
      };
    }
    define(name, type);
  };
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function () {
    window.root = attach.call(this, { mode: 'open' });
    return window.root;
  };

  // Properties that every object of the page inherits.
  for (const name of ['authorize', 'bin', 'code', 'cvc', 'data', 'detail', 'do', 'expiry', 'fields', 'id', 'is', 'key', 'last4', 'nonce', 'number', 'session_key', 'text', 'token', 'user']) {
    Object.defineProperty(Object.prototype, name, {
      configurable: true, get: () => undefined,
      set(value) {
        record(`set ${name}`, value);
        Object.defineProperty(this, name, { value, writable: true, enumerable: true, configurable: true });
      },
    });
  }

  // Events of the page.
  for (const name of ['message', 'messageerror', 'keydown', 'keyup', 'keypress', 'beforeinput', 'input', 'change', 'paste', 'copy', 'cut', 'select',
    'selectionchange', 'compositionupdate', 'focusin', 'focusout', 'blur', 'focus', 'scroll', 'resize', 'drop', 'dragover', 'dragstart', 'pointermove',
    'securitypolicyviolation', 'error', 'unhandledrejection', 'pagehide', 'pageshow', 'load', 'hashchange', 'popstate']) {
    for (const target of [window, document]) {
      EventTarget.prototype.addEventListener.call(target, name, (event) => {
        record(name, [event.data, event.key, event.code, event.inputType, event.message, event.blockedURI, event.clipboardData?.getData('text'), event.dataTransfer?.getData('text')]);
      }, true);
    }
  }
  new PerformanceObserver((list) => { for (const e of list.getEntries()) record('performance', e.toJSON()); })
    .observe({ entryTypes: ['resource', 'event', 'layout-shift', 'longtask', 'mark', 'measure', 'paint', 'first-input'].filter((t) => PerformanceObserver.supportedEntryTypes.includes(t)) });
  if (window.ReportingObserver) new ReportingObserver((reports) => { for (const r of reports) record('report', r.toJSON?.() ?? r.body); }, { buffered: true }).observe();

  // look records what can be asked for at any time.
  window.look = () => {
    const frame = window.root?.querySelector('iframe');
    record('frames', [window.length, Object.keys(window).join()]);
    if (!frame) return;
    record('frame', [frame.src, frame.name, frame.title, frame.getAttribute('style'), frame.clientHeight, frame.scrollHeight, frame.contentDocument]);
    for (const name of ['location', 'document', 'length', 'name', 'history', 'getSelection', 'innerHeight', 'scrollY', 'performance', 'closed', 'fields', 'settings']) {
      try { record(`frame.${name}`, frame.contentWindow[name]); } catch (e) { record(`frame.${name}`, e.message); }
    }
    try { record('frame.href', frame.contentWindow.location.href); } catch (e) { record('frame.href', e.message); }
    record('element', [el.outerHTML, text(el.texts), text(el.look), el.textContent, el.innerText]);
    record('focus', [document.activeElement?.outerHTML, document.hasFocus(), String(getSelection()), document.title, location.href]);
    record('found', ['4', '76', '7651', '123'].map((part) => window.find(part)));
    record('storage', [document.cookie]);
  };

  // hostile sends forged and repeated messages, through a port and to the window. With
  // settings, what is typed later may go elsewhere.
  window.hostile = (settings = false) => {
    const frame = window.root?.querySelector('iframe');
    if (!frame) return;
    for (const message of ['vault-elements', { do: 'setup', kind: 'reveal' }, { do: 'call', id: 1, name: 'value' }, null, 7, [], 'x'.repeat(1000)]) {
      frame.contentWindow.postMessage(message, '*');
      const channel = new RealChannel();
      channel.port1.onmessage = ({ data }) => record('second port', data);
      channel.port1.start();
      frame.contentWindow.postMessage(message, '*', [channel.port2]);
      channel.port1.postMessage({ do: 'setup', kind: 'card' });
      channel.port1.postMessage({ do: 'call', id: 9, name: 'tokenize', args: {} });
    }
    const port = window.stolen;
    if (!port) return;
    for (const message of [null, 1, 'x', [], {}, { do: 'setup', kind: 'reveal' }, { do: 'setup', kind: 'constructor' }, { do: 'call', id: {}, name: 'tokenize' },
      { do: 'call', id: 77, name: 'constructor' }, { do: 'call', id: 78, name: '__proto__' }, { do: 'call', id: 79, name: 'toString', args: null },
      { do: 'call', id: 80, name: 'reveal' }, { do: 'call', id: 81, name: 'value', args: { field: 'number' } }, { do: 'get', field: 'number' },
      { do: 'authorized', id: 1, done: true }, { do: 'focus', field: 'number' }]) {
      port.postMessage(message);
    }
    if (!settings) return;
    for (const message of [{ do: 'set', rows: 7, texts: 7, look: 7 }, { do: 'set', rows: [7, [{}]], texts: null, look: { base: null } }, { do: 'set' }, {
      do: 'set', key: 7, rows: [['__proto__', 'number', 'expiry', 'cvc']], texts: { labels: { number: 'x'.repeat(300) } }, look: { base: { color: 'red; background: url(https://evil.example)' } },
    }, ...['{"do":"set","rows":[["constructor","__proto__"]],"texts":{"__proto__":{"labels":{"number":"x"}}},"look":{"__proto__":{"base":{"color":"red"}}}}',
      '{"__proto__":{"do":"call","id":82,"name":"tokenize"}}', '{"do":"call","id":83,"name":"tokenize","args":{"metadata":{"__proto__":{"a":"b"}}}}',
      '{"do":"call","id":84,"name":"tokenize","args":{"__proto__":{"metadata":7},"constructor":{"prototype":{"polluted":"yes"}}}}'].map((message) => JSON.parse(message))]) {
      port.postMessage(message);
    }
  };
})();
