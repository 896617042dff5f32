// Command embed is a shop that charges cards without handling them. It keeps
// the cards in a vault inside its own process, and a reactor sends them to
// the payment gateway.
//
//	go run ./examples/embed
//
// The gateway is a fake one on this machine. Everything else is as in a real
// shop. The shop knows a token, and the reactor's code has the card only
// during a call. Only the masked card and the receipt come back.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// charge is the code of the reactor. It is written for Node 16.
const charge = `
const fetch = require('node-fetch');

module.exports = async (req) => {
  const { card, amount } = req.args;
  const res = await fetch(req.configuration.GATEWAY_URL, {
    method: 'POST',
    headers: { Authorization: 'Bearer ' + req.configuration.GATEWAY_KEY, 'Content-Type': 'application/json' },
    body: JSON.stringify({ number: card.number, cvc: card.cvc, amount }),
  });
  if (res.status === 402) throw new InvalidPaymentMethodError('The card was declined.');
  const { charge_id } = await res.json();
  return { raw: { charge_id, last4: card.number.slice(-4) }, tokenize: { receipt: charge_id } };
};
`

// run opens a vault in memory, stores a card, and charges it.
func run(ctx context.Context, out io.Writer) (err error) {
	gateway := httptest.NewServer(http.HandlerFunc(fakeGateway))
	defer gateway.Close()

	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{
		Runtime: jsruntime.New(nil),
		// The fake gateway is on this machine. A real gateway needs no such
		// policy.
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	shop, err := v.CreateTenant(ctx, "Shop")
	if err != nil {
		return err
	}
	return sell(ctx, v.Tenant(shop.ID), gateway.URL, out)
}

// sell stores two cards and charges them. The gateway declines the second.
func sell(ctx context.Context, c *vault.Owner, gateway string, out io.Writer) error {
	reactor, err := c.CreateReactor(ctx, vault.ReactorParams{
		Name: "Charge", Code: charge,
		Configuration: map[string]string{"GATEWAY_URL": gateway, "GATEWAY_KEY": "sk_test"},
	})
	if err != nil {
		return err
	}
	for _, number := range []string{"4242424242424242", "4000000000000002"} {
		card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: number, CVC: "123"}})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "stored  ", card.Data)
		if err := pay(ctx, c.Client, reactor.ID, card.ID, out); err != nil {
			return err
		}
	}
	return nil
}

// pay charges a card by its token. If the gateway declines the card, that is
// a result and not an error: the reactor responds with a 402, and its
// messages are for the caller.
func pay(ctx context.Context, c *vault.Client, reactor uuid.UUID, card string, out io.Writer) error {
	result, err := c.React(ctx, reactor, vault.ReactParams{
		Args: map[string]any{"card": vault.Expression(card), "amount": 1999},
	})
	var declined *script.Error
	if errors.As(err, &declined) && declined.Status == http.StatusPaymentRequired {
		fmt.Fprintln(out, "declined", strings.Join(declined.Messages["error"], " "))
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "charged ", result.Raw)
	return nil
}

// fakeGateway accepts every card except one.
func fakeGateway(w http.ResponseWriter, r *http.Request) {
	var body struct{ Number string }
	if r.Header.Get("Authorization") != "Bearer sk_test" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if body.Number == "4000000000000002" {
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	_, _ = io.WriteString(w, `{"charge_id":"ch_1"}`)
}
