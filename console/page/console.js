'use strict';

// Pages work without this file. It keeps them up to date, and helps with forms.

document.documentElement.classList.add('js');

// Copy buttons copy what their data-copy says. Browsers have a clipboard for pages
// over TLS and on this machine; elsewhere a selection does it.
const copy = async (text) => {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'hidden';
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
};
document.addEventListener('click', async (event) => {
  const button = event.target.closest('.copy');
  if (!button) return;
  const status = document.getElementById('copied');
  try {
    await copy(button.dataset.copy);
    button.classList.add('copied');
    status.textContent = 'Copied.';
    setTimeout(() => { button.classList.remove('copied'); status.textContent = ''; }, 2000);
  } catch {
    status.textContent = 'Copying failed.';
  }
  button.focus();
});

// On a phone the current page may be out of sight in the navigation.
for (const link of document.querySelectorAll('header nav > ul [aria-current]')) {
  const list = link.closest('ul');
  list.scrollLeft = link.offsetLeft - (list.clientWidth - link.offsetWidth) / 2;
}

// live replaces the content of an element by what a stream sends.
const live = (element) => {
  const source = new EventSource(element.dataset.events);
  source.addEventListener(element.dataset.event, (event) => {
    const open = [...element.querySelectorAll('details[open]')].map((d) => d.id);
    const focused = document.activeElement?.closest('details')?.id;
    element.innerHTML = event.data;
    for (const id of open) document.getElementById(id)?.setAttribute('open', '');
    if (focused) document.getElementById(focused)?.querySelector('summary')?.focus();
  });
  source.addEventListener('end', () => source.close());
};
for (const element of document.querySelectorAll('[data-events]')) live(element);

// follow puts new entries on top of the log.
const follow = document.getElementById('follow');
if (follow) {
  const most = 500;
  const body = document.querySelector('#entries tbody');
  const status = document.getElementById('following');
  let source = null;
  let count = 0;
  const stop = () => {
    source.close();
    source = null;
    follow.setAttribute('aria-pressed', 'false');
    status.textContent = '';
  };
  const start = () => {
    source = new EventSource(follow.dataset.follow);
    count = 0;
    follow.setAttribute('aria-pressed', 'true');
    status.textContent = 'Following: no new entries yet.';
    source.addEventListener('entries', (event) => {
      const rows = document.createElement('tbody');
      rows.innerHTML = event.data;
      count += rows.children.length;
      document.getElementById('none')?.remove();
      body.closest('[hidden]')?.removeAttribute('hidden');
      body.prepend(...rows.children);
      while (body.children.length > most) body.lastElementChild.remove();
      status.textContent = `Following: ${count} new ${count === 1 ? 'entry' : 'entries'}.`;
    });
  };
  follow.hidden = false;
  follow.addEventListener('click', () => (source ? stop() : start()));
}

// Another rule is one more copy of the blank one.
const add = document.getElementById('add-rule');
if (add) {
  const blank = document.querySelector('details.rule');
  const made = blank.querySelector('fieldset');
  let next = Number(made.dataset.rule);
  blank.remove();
  add.hidden = false;
  add.addEventListener('click', () => {
    const rule = made.cloneNode(true);
    for (const e of rule.querySelectorAll('[id], [name], [for]')) {
      for (const name of ['id', 'name', 'for']) {
        const value = e.getAttribute(name);
        if (value) e.setAttribute(name, value.replace(/^rule([.-])\d+/, `rule$1${next}`));
      }
    }
    rule.dataset.rule = next;
    next += 1;
    add.before(rule);
    rule.querySelector('input').focus();
  });
}

// The search box explains the field that is being typed.
const query = document.getElementById('q');
if (query) {
  const hint = document.getElementById('hint');
  const before = hint.textContent;
  const fields = [...document.querySelectorAll('#help [data-field]')].map((e) => ({
    field: e.dataset.field, example: e.querySelector('code').textContent, about: e.querySelector('dd').textContent,
  }));
  query.addEventListener('input', () => {
    const word = query.value.slice(0, query.selectionStart ?? query.value.length).split(/[\s()!-]+/).pop();
    const matching = word === '' ? [] : fields.filter((f) => f.field.startsWith(word) || word.startsWith(f.field));
    hint.textContent = '';
    if (matching.length === 0) {
      hint.textContent = before;
      return;
    }
    for (const f of matching.slice(0, 3)) {
      const example = document.createElement('code');
      example.textContent = f.example;
      hint.append(example, ` ${f.about}. `);
    }
  });
}
