package vaultclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// checkout works with a vault in the same process and with a vault behind
// HTTP.
type checkout struct{ vault vault.TokenAPI }

func (c *checkout) save(ctx context.Context, number string) (id string, err error) {
	tok, err := c.vault.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: number}})
	if err != nil {
		return "", err
	}
	return tok.ID, nil
}

func Example() {
	// The example starts its own server; a program would call an existing
	// one.
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	app, err := v.Tenant(acme.ID).CreateApplication(ctx, vault.ApplicationParams{
		Name: "Shop", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create", "token:read"},
	})
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewTLSServer(httpserver.Handler(v, nil))
	defer srv.Close()

	c, err := vaultclient.New(srv.URL, app.Key, &vaultclient.Options{
		Transport: srv.Client().Transport, // trusts the certificate of the test
	})
	if err != nil {
		log.Fatal(err)
	}
	shop := &checkout{c}
	id, err := shop.save(ctx, "4242424242424242")
	if err != nil {
		log.Fatal(err)
	}
	tok, err := c.GetToken(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Data)

	_, err = shop.save(ctx, "4242424242424241")
	var invalid *vault.InvalidError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Fields)
	}
	// Output:
	// {"number":"XXXXXXXXXXXX4242"}
	// map[data.number:[must have a valid check digit (Luhn)]]
}

// A job that is started twice for the same order creates one token, because
// the order determines the idempotency key. The response to the first call is
// kept for a day.
func ExampleWithIdempotencyKey() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	app, err := v.Tenant(acme.ID).CreateApplication(ctx, vault.ApplicationParams{
		Name: "Shop", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create", "token:read"},
	})
	if err != nil {
		log.Fatal(err)
	}
	srv := httptest.NewTLSServer(httpserver.Handler(v, nil))
	defer srv.Close()
	c, err := vaultclient.New(srv.URL, app.Key, &vaultclient.Options{Transport: srv.Client().Transport})
	if err != nil {
		log.Fatal(err)
	}

	ctx = vaultclient.WithIdempotencyKey(ctx, "order-17")
	first, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.ID == again.ID)
	// Output: true
}
