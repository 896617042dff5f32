// Charges a card with the unchanged package of Stripe. Neither the key nor the card
// number is in this process.
const Stripe = require('stripe');
const { agent } = require('./client.cjs');

const to = new URL(process.argv[2]);
const stripe = new Stripe('{{ secret }}', { host: to.hostname, port: to.port, protocol: 'https', httpAgent: agent, maxNetworkRetries: 0, telemetry: false });

(async () => {
  for (let i = 0; i < 2; i++) {
    const token = await stripe.tokens.create({ card: { number: "{{ card | json: '$.number' }}", exp_month: '12', exp_year: '2040', cvc: "{{ card | json: '$.cvc' }}" } });
    const charge = await stripe.charges.create({ amount: 4200, currency: 'chf', source: token.id }, { idempotencyKey: `order-${i}` });
    console.log(token.id, token.card.number, charge.paid, charge.amount);
  }
  try {
    await stripe.charges.create({ amount: 1, currency: 'chf', source: '{{ nobody }}' });
  } catch (e) {
    console.log(e.statusCode, e.message);
  }
  agent.destroy();
})();
