package httptokenize_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httptokenize"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// The program's own handler gets tokens where its clients send cards.
func ExampleRequests() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:") // or a path
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

	uuid := regexp.MustCompile(`[0-9a-f-]{36}`)
	orders := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Println(uuid.ReplaceAllString(string(body), "a token"), err)
	})
	handler := httptokenize.Requests(orders, v.Tenant(acme.ID).Client,
		httptokenize.Field{Path: "buyer.ssn", Type: vault.TypeSocialSecurityNumber},
		httptokenize.Field{Path: "payments[].card", Type: vault.TypeCard})

	req := httptest.NewRequest("POST", "/orders", strings.NewReader(
		`{"item": 17, "buyer": {"ssn": "536-22-8726"}, "payments": [{"card": {"number": "4242424242424242"}}]}`))
	req.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(httptest.NewRecorder(), req)
	// Output: {"item": 17, "buyer": {"ssn": "a token"}, "payments": [{"card": "a token"}]} <nil>
}
