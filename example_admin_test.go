package vault_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A reactor gets the card for the length of a call; who invokes it needs to
// know the token alone. What the code throws is a [script.Error].
func ExampleClient_React() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Runtime: jsruntime.New(nil)})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	reactor, err := c.CreateReactor(ctx, vault.ReactorParams{
		Name: "Charge",
		Code: `module.exports = async ({ args, configuration }) => {
			if (args.amount > Number(configuration.LIMIT)) throw new InvalidPaymentMethodError('The amount is too high.');
			return { raw: { charged: args.amount, last4: args.card.number.slice(-4) } };
		};`,
		Configuration: map[string]string{"LIMIT": "5000"},
	})
	if err != nil {
		log.Fatal(err)
	}
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: "4242424242424242"}})
	if err != nil {
		log.Fatal(err)
	}

	for _, amount := range []int{1999, 9999} {
		result, err := c.React(ctx, reactor.ID, vault.ReactParams{
			Args: map[string]any{"card": "{{ " + card.ID + " }}", "amount": amount},
		})
		var thrown *script.Error
		switch {
		case errors.As(err, &thrown):
			fmt.Println(thrown.Status, thrown.Messages["error"])
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(result.Raw)
		}
	}
	// Output:
	// {"charged":1999,"last4":"4242"}
	// 402 [The amount is too high.]
}

// A browser opens a session with a public key and sends the nonce to the
// backend, which decides what the session key may do for the next minutes.
func ExampleClient_AuthorizeSession() {
	ctx := context.Background()
	v := exampleVault(ctx)
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	backend := v.Tenant(acme.ID) // or a private application
	card, err := backend.CreateToken(ctx, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: "4242424242424242"}})
	if err != nil {
		log.Fatal(err)
	}
	form, err := backend.CreateApplication(ctx, vault.ApplicationParams{
		Name: "Form", Type: vault.Public, Permissions: []string{"token:create"},
	})
	if err != nil {
		log.Fatal(err)
	}

	// The browser, with the public key.
	browser, err := v.Authenticate(ctx, form.Key)
	if err != nil {
		log.Fatal(err)
	}
	session, err := browser.CreateSession(ctx)
	if err != nil {
		log.Fatal(err)
	}

	// The backend, with the nonce.
	err = backend.AuthorizeSession(ctx, vault.Grant{
		Nonce: session.Nonce,
		Rules: []vault.AccessRule{{Priority: 1, Container: "/pci/", Transform: vault.Mask, Permissions: []string{"token:read"}}},
	})
	if err != nil {
		log.Fatal(err)
	}

	// The browser again, with the session key.
	if browser, err = v.Authenticate(ctx, session.SessionKey); err != nil {
		log.Fatal(err)
	}
	tok, err := browser.GetToken(ctx, card.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Data)
	// Output: {"number":"XXXXXXXXXXXX4242"}
}

// All tenants get new data keys, while this and other nodes go on serving. A
// rotation takes at least 12 seconds, most of which is waiting: to rotate many
// tenants, rotate several at once.
func ExampleVault_RotateKeys() {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv("VAULT_MASTER_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlite.Open(ctx, "vault.db")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	for page := 1; ; page++ {
		tenants, err := v.Tenants(ctx, vault.PageParams{Page: page, Size: 100})
		if err != nil {
			log.Fatal(err)
		}
		for _, t := range tenants.Data {
			err := v.RotateKeys(ctx, t.ID, &vault.RotateOptions{
				Progress: func(done int) { log.Printf("%s: %d rows", t.Name, done) },
			})
			if err != nil {
				log.Fatal(err) // calling it again goes on
			}
		}
		if page >= tenants.Pagination.TotalPages {
			return
		}
	}
}
