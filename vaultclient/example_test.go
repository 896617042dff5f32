package vaultclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// checkout works with a vault in the same process and with one behind HTTP.
type checkout struct{ vault vault.TokenAPI }

func (c *checkout) save(ctx context.Context, number string) (id string, err error) {
	tok, err := c.vault.CreateToken(ctx, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: number}})
	if err != nil {
		return "", err
	}
	return tok.ID, nil
}

func Example() {
	// Some server has the vault; a program calls one that exists already.
	v := vaulttest.New(&testing.T{})
	defer v.Close()
	srv := httptest.NewTLSServer(httpserver.Handler(v.Vault, nil))
	defer srv.Close()

	c, err := vaultclient.New(srv.URL, v.PrivateKey, &vaultclient.Options{
		Transport: srv.Client().Transport, // trusts the certificate of the test
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
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

// A job that may be started twice for one order makes one token: the key is the
// order's, and the answer to the first call is kept for a day.
func ExampleWithIdempotencyKey() {
	v := vaulttest.New(&testing.T{})
	defer v.Close()
	srv := httptest.NewTLSServer(httpserver.Handler(v.Vault, nil))
	defer srv.Close()
	c, err := vaultclient.New(srv.URL, v.PrivateKey, &vaultclient.Options{Transport: srv.Client().Transport})
	if err != nil {
		log.Fatal(err)
	}

	ctx := vaultclient.WithIdempotencyKey(context.Background(), "order-17")
	first, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Generic, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Generic, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.ID == again.ID)
	// Output: true
}
