package vault_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A Go client is pointed through the vault: it sends tokens, and the gateway
// gets card numbers.
func ExampleClient_RoundTripper() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		fmt.Println(err)
		return
	}
	c := v.Tenant(acme.ID)
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: "4242424242424242"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s\n", body)
	}))
	defer gateway.Close()
	client := &http.Client{Transport: c.RoundTripper(nil)}
	order := `{"amount": 5, "number": "{{ ` + card.ID + ` | json: '$.number' }}"}`
	res, err := client.Post(gateway.URL, "application/json", strings.NewReader(order))
	if err != nil {
		fmt.Println(err)
		return
	}
	res.Body.Close()
	// Output: {"amount": 5, "number": "4242424242424242"}
}
