'use strict';

// The customer types the card into a frame that this page cannot read. The shop gets a
// nonce before the card is stored, and a token after it.

const form = document.getElementById('payment');
const card = document.querySelector('vault-card');
const notice = document.getElementById('notice');
const status = document.getElementById('status');
const payText = document.getElementById('pay-text');
const payLabel = payText.textContent;
const receipt = `/orders/${form.dataset.order}`; // the same address, once the order is paid
const timeout = 30000; // ms for a response

const charged = 'You have not been charged.';
const texts = {
  invalid: '', // the messages are beside the fields
  unreachable: `The card service cannot be reached. ${charged} Try again in a moment.`,
  expired: `That took too long, and the connection to the card service has expired. ${charged} Press Pay to try again.`,
  busy: `The card service is busy. ${charged} Try again in a minute.`,
  refused: `The card service could not take the card. ${charged} Try again in a moment.`,
  unconfirmed: 'We could not confirm the payment. Press Pay again: you will not be charged twice.',
};

// Problem is a failure with a message for the customer.
class Problem extends Error {}

// toShop sends JSON to the shop, and throws a Problem if the shop refuses.
async function toShop(path, body) {
  let response;
  let answer;
  try {
    response = await fetch(`${receipt}/${path}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body), signal: AbortSignal.timeout(timeout),
    });
    if (!response.ok) answer = await response.json();
  } catch {
    throw new Problem(texts.unconfirmed);
  }
  if (response.status === 409) location.replace(receipt); // it was paid in another window
  if (answer) throw new Problem(answer.message);
}

function setBusy(busy) {
  form.setAttribute('aria-busy', String(busy));
  payText.textContent = busy ? 'Paying…' : payLabel;
  status.textContent = busy ? 'Paying' : '';
}

let refusal; // of the shop, to authorize
card.authorize = (nonce) => toShop('session', { nonce }).catch((error) => {
  refusal = error;
  throw error;
});
card.addEventListener('submit', () => form.requestSubmit()); // Enter

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  if (form.getAttribute('aria-busy') === 'true') return;
  notice.textContent = '';
  refusal = undefined;
  setBusy(true);
  try {
    const token = await card.tokenize();
    await toShop('payment', { token: token.id });
    location.replace(receipt);
  } catch (error) {
    setBusy(false);
    notice.textContent = (refusal ?? (error instanceof Problem ? error : undefined))?.message ?? texts[error.code] ?? texts.refused;
  }
});

// If the browser restores this page from its cache, the order may have been paid in
// the meantime.
window.addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload();
});
