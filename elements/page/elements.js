'use strict';

// This script is part of the page, and the page may be hostile. So it holds no secret:
// what is typed stays in the frames, which are of another origin.
(() => {
  if (customElements.get('vault-card')) return;

  const script = document.currentScript ?? document.querySelector('script[src*="/elements.js"]');
  const base = new URL('.', script.src);
  const address = new URL('frame', base).href;
  const patience = 10000; // ms for the frame to respond

  const fields = ['number', 'expiry', 'cvc', 'text', 'network'];
  const messages = ['number_required', 'number_incomplete', 'number_invalid', 'expiry_required', 'expiry_incomplete',
    'expiry_invalid', 'expiry_past', 'cvc_required', 'cvc_incomplete', 'cvc_invalid', 'text_required', 'text_invalid', 'network_required'];
  const textNames = { labels: [...fields, 'copy', 'none', 'frame'], placeholders: fields, messages: [...messages, 'copied'] };
  const textTypes = ['token', 'card_number', 'us_bank_account_number', 'us_bank_routing_number', 'social_security_number',
    'employer_id_number'];
  const lookStates = ['base', 'focus', 'invalid', 'placeholder'];
  const lookNames = ['fontFamily', 'fontSize', 'fontWeight', 'fontStyle', 'lineHeight', 'letterSpacing', 'color',
    'backgroundColor', 'borderColor', 'caretColor', 'outlineColor', 'borderWidth', 'borderRadius', 'padding', 'gap'];

  // Heights before the frame has sent its own, so that the page does not jump.
  const kinds = {
    card: { attributes: ['container', 'rows'], height: 166, title: ['Card details', 'Kartendaten'] },
    cvc: { attributes: ['token'], height: 75, title: ['Security code', 'Prüfnummer'] },
    text: { attributes: ['container', 'type'], height: 75, title: ['Confidential entry', 'Vertrauliche Eingabe'] },
    reveal: { attributes: ['token', 'path'], height: 48, title: ['Confidential value', 'Vertraulicher Wert'] },
  };

  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`:host { display: block } :host([hidden]) { display: none }
    iframe { display: block; width: calc(100% + 8px); margin: -4px; border: 0; color-scheme: inherit; background: none }`);

  class VaultError extends Error {
    constructor(code, text, about = {}) {
      super(text);
      this.name = 'VaultError';
      this.code = code;
      this.fields = about;
    }
  }

  // Languages and colours often change with an attribute of the document.
  const pages = new Set();
  new MutationObserver(() => { for (const e of pages) e._update(); })
    .observe(document.documentElement, { attributeFilter: ['class', 'style', 'lang', 'dir', 'data-theme', 'data-color-scheme', 'data-bs-theme'] });

  const isObject = (x) => typeof x === 'object' && x !== null && !Array.isArray(x);

  // checkTexts returns a copy, or throws a TypeError.
  function checkTexts(given) {
    const copy = {};
    if (given === null || given === undefined) return copy;
    if (!isObject(given)) throw new TypeError('texts must be an object with labels, placeholders and messages');
    for (const [group, all] of Object.entries(given)) {
      if (!Object.hasOwn(textNames, group)) throw new TypeError(`texts has no ${group}: it has ${Object.keys(textNames).join(', ')}`);
      if (!isObject(all)) throw new TypeError(`texts.${group} must be an object`);
      copy[group] = {};
      for (const [name, text] of Object.entries(all)) {
        if (!textNames[group].includes(name)) throw new TypeError(`texts.${group} has no ${name}: it has ${textNames[group].join(', ')}`);
        if (typeof text !== 'string' || text.length > 200) throw new TypeError(`texts.${group}.${name} must be a string of at most 200 characters`);
        copy[group][name] = text;
      }
    }
    return copy;
  }

  // checkLook returns a copy, or throws a TypeError.
  function checkLook(given) {
    const copy = {};
    if (given === null || given === undefined) return copy;
    if (!isObject(given)) throw new TypeError('look must be an object with the states ' + lookStates.join(', '));
    for (const [state, all] of Object.entries(given)) {
      if (!lookStates.includes(state)) throw new TypeError(`look has no state ${state}: it has ${lookStates.join(', ')}`);
      if (!isObject(all)) throw new TypeError(`look.${state} must be an object`);
      copy[state] = {};
      for (const [property, value] of Object.entries(all)) {
        const name = property.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());
        const text = typeof value === 'number' && Number.isFinite(value) ? String(value) : value;
        if (!lookNames.includes(name)) throw new TypeError(`look.${state} has no ${property}: it has ${lookNames.join(', ')}`);
        if (typeof text !== 'string' || text.length > 200 || /url\s*\(|[;{}\\]/i.test(text)) {
          throw new TypeError(`look.${state}.${property} must be a string without url(, ;, {, } and \\`);
        }
        copy[state][name] = text;
      }
    }
    return copy;
  }

  // rowsOf returns the rows of a card as arrays of fields, or null.
  function rowsOf(text) {
    const rows = text.split('|').map((row) => row.trim().split(/\s+/));
    const all = rows.flat();
    const known = all.every((field) => ['number', 'expiry', 'cvc'].includes(field));
    return known && new Set(all).size === all.length && all.includes('number') ? rows : null;
  }

  class VaultElement extends HTMLElement {
    static observedAttributes = ['api-key', 'container', 'rows', 'lang', 'disabled', 'token', 'type', 'path'];

    #root = this.attachShadow({ mode: 'closed' });
    #frame = null;
    #port = null;
    #opened = null; // resolves when the frame is ready
    #open = null;
    #timer = 0;
    #calls = new Map();
    #last = 0;
    #texts = {};
    #look = {};
    #authorize = null;
    #sent = ''; // settings that the frame has
    #told = ''; // the last problem of an attribute

    constructor() {
      super();
      this.#root.adoptedStyleSheets = [sheet];
      for (const name of ['texts', 'look', 'authorize']) {
        if (!Object.hasOwn(this, name)) continue; // set before the script was loaded
        const value = this[name];
        delete this[name];
        this[name] = value;
      }
    }

    get texts() { return structuredClone(this.#texts); }
    set texts(given) { this.#texts = checkTexts(given); this._update(); }
    get look() { return structuredClone(this.#look); }
    set look(given) { this.#look = checkLook(given); this._update(); }
    get authorize() { return this.#authorize; }
    set authorize(given) {
      if (given !== null && given !== undefined && typeof given !== 'function') throw new TypeError('authorize must be a function that takes a nonce');
      this.#authorize = given ?? null;
    }

    get disabled() { return this.hasAttribute('disabled'); }
    set disabled(on) { this.toggleAttribute('disabled', Boolean(on)); }

    connectedCallback() {
      const kind = kinds[this.constructor.kind];
      const frame = document.createElement('iframe');
      this.#frame = frame;
      frame.allow = this.constructor.kind === 'reveal' ? 'clipboard-write' : 'autofill';
      frame.style.height = `${kind.height + 8}px`;
      frame.addEventListener('focus', (event) => event.stopPropagation()); // the frame tells which field it is
      frame.addEventListener('blur', (event) => event.stopPropagation());
      frame.addEventListener('load', () => { if (this.#frame === frame) this.#connect(frame); });
      this.#await();
      frame.src = address;
      this.#root.replaceChildren(frame);
      this.#name();
      pages.add(this);
    }

    connectedMoveCallback() {} // moveBefore keeps the frame, and what was typed

    disconnectedCallback() {
      pages.delete(this);
      this.#close('The element was removed from the page while it worked. The token may have been created. Remove it when the promise is settled.', this.#calls.size > 0);
      this.#root.replaceChildren();
      this.#frame = null;
    }

    attributeChangedCallback() { this._update(); }

    // name gives the frame its name for screen readers.
    #name() {
      if (this.#frame) this.#frame.title = this.#texts.labels?.frame ?? kinds[this.constructor.kind].title[this.#lang().startsWith('de') ? 1 : 0];
    }

    #lang() { return (this.closest('[lang]')?.lang || navigator.language || 'en').toLowerCase(); }

    // await starts the time in which the frame has to respond.
    #await() {
      this.#opened = new Promise((resolve) => { this.#open = resolve; });
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#close(`The frame ${address} does not respond. Check that the server runs, that ` +
        `${location.origin} is listed in its --elements-origins, that the page's policy has ${base.origin} in script-src and frame-src, ` +
        'and that the frame was not sent elsewhere.', true), patience);
    }

    // close rejects what waits for the frame.
    #close(text, loud = false) {
      clearTimeout(this.#timer);
      this.#port?.close();
      this.#port = null;
      this.#open?.(text);
      if (loud) this.#say(text);
      for (const { reject } of this.#calls.values()) reject(new VaultError('unreachable', text));
      this.#calls.clear();
    }

    // connect gives the document in the frame a port. It runs again if the frame loads
    // another document.
    #connect(frame) {
      if (this.#port) {
        this.#close('The frame was loaded again while the element worked, and what was typed is gone.', true);
        this.#await();
      }
      const { port1, port2 } = new MessageChannel();
      this.#port = port1;
      this.#sent = JSON.stringify(this.#settings());
      port1.onmessage = ({ data }) => { if (this.#port === port1) this.#take(data); };
      frame.contentWindow.postMessage('vault-elements', base.origin, [port2]);
      port1.postMessage({ do: 'setup', kind: this.constructor.kind, ...this.#settings() });
    }

    #settings() {
      const style = getComputedStyle(this);
      return {
        key: this.getAttribute('api-key') ?? '', container: this.getAttribute('container') ?? '',
        rows: rowsOf(this.getAttribute('rows') ?? 'number | expiry cvc') ?? [['number'], ['expiry', 'cvc']],
        type: this.getAttribute('type') ?? 'token', token: this.getAttribute('token') ?? '', path: this.getAttribute('path') ?? '$',
        lang: this.#lang(), rtl: style.direction === 'rtl', scheme: style.colorScheme,
        disabled: this.disabled, texts: this.#texts, look: this.#look,
      };
    }

    // update sends settings that have changed to the frame.
    _update() {
      const settings = this.#settings();
      const text = JSON.stringify(settings);
      this.#name();
      if (!this.#port) return;
      this.#judge();
      if (text === this.#sent) return;
      this.#sent = text;
      this.#port.postMessage({ do: 'set', ...settings });
    }

    // judge tells the developer about attributes with wrong values, before they matter.
    #judge() {
      const bad = this.#problem('');
      const text = bad && this.getAttribute(bad[1]) ? bad[2] : '';
      if (text && text !== this.#told) this.#say(text);
      this.#told = text;
    }

    #say(text) { console.error(`<${this.localName}>: ${text}`); }

    // take handles a message of the frame.
    #take(message) {
      const call = this.#calls.get(message.id);
      switch (message.is) {
        case 'ready':
          clearTimeout(this.#timer);
          this.#opened = Promise.resolve(''); // also if it is late
          this.#open('');
          this.#judge();
          this.dispatchEvent(new CustomEvent('ready'));
          break;
        case 'height':
          this.#frame.style.height = `${message.height}px`;
          break;
        case 'change': case 'focus': case 'blur': case 'submit':
          this.dispatchEvent(new CustomEvent(message.is, { detail: message.detail }));
          break;
        case 'authorize':
          this.#asked(message);
          break;
        case 'done':
          this.#calls.delete(message.id);
          call?.resolve(message.value);
          break;
        case 'failed':
          this.#calls.delete(message.id);
          if (!message.user) this.#say(message.text);
          call?.reject(new VaultError(message.code, message.text, message.fields));
          break;
        case 'say':
          this.#say(message.text);
          break;
      }
    }

    // asked has the page's server authorize a session.
    async #asked({ id, nonce }) {
      const port = this.#port;
      let done = true;
      try {
        await this.#authorize(nonce);
      } catch (error) {
        done = false;
        console.error(`<${this.localName}>: authorize failed`, error);
      }
      port.postMessage({ do: 'authorized', id, done });
    }

    // problem returns what is wrong with an attribute, or undefined.
    #problem(name) {
      const key = this.getAttribute('api-key') ?? '';
      const rows = this.getAttribute('rows');
      const type = this.getAttribute('type');
      const own = kinds[this.constructor.kind].attributes;
      if (!/^key_[a-z]+_[1-9A-HJ-NP-Za-km-z]+$/.test(key)) return ['unauthorized', 'api-key', 'api-key must be a public key, which begins with key_pub_.'];
      if (!key.startsWith('key_pub_')) return ['refused', 'api-key', 'api-key is not a public key. A page must never have another key: regenerate it, and use one that begins with key_pub_.'];
      if (own.includes('rows') && rows !== null && !rowsOf(rows)) return ['invalid', 'rows', 'rows must name number, expiry and cvc at most once each, in rows separated by |, with number among them.'];
      if (own.includes('type') && type !== null && !textTypes.includes(type)) return ['invalid', 'type', `type must be one of ${textTypes.join(', ')}.`];
      if (own.includes('token') && !this.getAttribute('token') && name && name !== 'hide') return ['invalid', 'token', 'token must be the id of a token.'];
      if (own.includes('path') && !/^\$(\.[A-Za-z_]\w*|\[\d+\]|\['[^'\\]*'\])*$/.test(this.getAttribute('path') ?? '$')) return ['invalid', 'path', 'path must be like $.number, $[0] or $.'];
      return undefined;
    }

    // call has the frame do something.
    async _call(name, args = {}) {
      const refuse = (code, text, about) => {
        this.#say(text);
        throw new VaultError(code, text, about);
      };
      if (!this.isConnected) refuse('unreachable', 'The element is not in the page. Append it first.');
      const bad = this.#problem(name);
      if (bad) {
        this.#told = bad[2];
        refuse(bad[0], bad[2], { [bad[1]]: 'invalid' });
      }
      const failed = await this.#opened;
      if (failed || !this.#port) refuse('unreachable', failed || 'The element was removed from the page. Append it first.');
      const id = this.#last += 1;
      return new Promise((resolve, reject) => {
        this.#calls.set(id, { resolve, reject });
        try {
          this.#port.postMessage({ do: 'call', id, name, args, authorize: Boolean(this.#authorize) });
        } catch (error) { // such as a function in metadata
          this.#calls.delete(id);
          this.#say(error.message);
          reject(new VaultError('invalid', error.message));
        }
      });
    }

    clear() { this.#port?.postMessage({ do: 'clear' }); }

    focus(field) {
      this.#frame?.focus();
      this.#port?.postMessage({ do: 'focus', field: String(field ?? '') });
    }

    blur() { this.#frame?.blur(); }
  }

  class VaultCard extends VaultElement {
    static kind = 'card';
    tokenize(options = {}) { return this._call('tokenize', { metadata: options?.metadata, expires_at: options?.expires_at }); }
  }

  class VaultText extends VaultElement {
    static kind = 'text';
    tokenize(options = {}) { return this._call('tokenize', { metadata: options?.metadata, expires_at: options?.expires_at }); }
  }

  class VaultCVC extends VaultElement {
    static kind = 'cvc';
    update() { return this._call('update'); }
  }

  class VaultReveal extends VaultElement {
    static kind = 'reveal';
    reveal() { return this._call('reveal'); }
    hide() { return this._call('hide'); }
  }

  customElements.define('vault-card', VaultCard);
  customElements.define('vault-cvc', VaultCVC);
  customElements.define('vault-text', VaultText);
  customElements.define('vault-reveal', VaultReveal);
})();
