package vault_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// The embedding program: open a vault, make a tenant, store a card, and use it.
func Example() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:") // or a path
	if err != nil {
		log.Fatal(err)
	}
	key := vault.NewKey() // or vault.ParseKey(os.Getenv("VAULT_MASTER_KEY"))
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()

	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	tok, err := c.CreateToken(ctx, vault.TokenParams{
		ID:   "jane-card",
		Type: vault.Card,
		Data: vault.CardData{Number: "4242424242424242", ExpirationMonth: 12, ExpirationYear: 2030},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("masked:", tok.Data)

	out, err := c.Detokenize(ctx, map[string]string{"pan": "{{ jane-card | json: '$.number' }}"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("in clear:", out)
	// Output:
	// masked: {"number":"XXXXXXXXXXXX4242","expiration_month":12,"expiration_year":2030}
	// in clear: {"pan":"4242424242424242"}
}

// Access rules decide how much of a token an application sees.
func ExampleClient_CreateApplication() {
	ctx := context.Background()
	v := exampleVault(ctx)
	defer v.Close()
	acme, _ := v.CreateTenant(ctx, "Acme")
	c := v.Tenant(acme.ID)
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.SocialSecurityNumber, Data: "536-22-8726"})
	if err != nil {
		log.Fatal(err)
	}

	for _, transform := range []vault.Transform{vault.Reveal, vault.Mask, vault.Redact} {
		app, err := c.CreateApplication(ctx, vault.ApplicationParams{
			Name: "Support", Type: vault.Private,
			Rules: []vault.AccessRule{{Priority: 1, Container: "/pii/", Transform: transform, Permissions: []string{"token:read"}}},
		})
		if err != nil {
			log.Fatal(err)
		}
		support, err := v.Authenticate(ctx, app.Key)
		if err != nil {
			log.Fatal(err)
		}
		seen, err := support.GetToken(ctx, tok.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", transform, seen.Data)
	}
	// Output:
	// reveal: "536-22-8726"
	// mask: "XXX-XX-8726"
	// redact:
}

// A whole document can be tokenized at once: it keeps its shape.
func ExampleClient_Tokenize() {
	ctx := context.Background()
	v := exampleVault(ctx)
	defer v.Close()
	acme, _ := v.CreateTenant(ctx, "Acme")
	c := v.Tenant(acme.ID)

	document := vault.JSON(`{"name": "Jane Doe", "limits": [1.10, null]}`)
	tokens, err := c.Tokenize(ctx, document)
	if err != nil {
		log.Fatal(err)
	}
	var shape struct {
		Name   string
		Limits []*string
	}
	if err := tokens.Decode(&shape); err != nil {
		log.Fatal(err)
	}
	back, err := c.Detokenize(ctx, map[string]any{"name": "{{" + shape.Name + "}}", "limit": "{{" + *shape.Limits[0] + "}}"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(back, shape.Limits[1] == nil)
	// Output: {"limit":1.10,"name":"Jane Doe"} true
}

// Search finds tokens by what they were indexed by, without decrypting any.
func ExampleClient_SearchTokens() {
	ctx := context.Background()
	v := exampleVault(ctx)
	defer v.Close()
	acme, _ := v.CreateTenant(ctx, "Acme")
	c := v.Tenant(acme.ID)
	for id, email := range map[string]string{"jane": "jane@example.com", "john": "john@example.com"} {
		_, err := c.CreateToken(ctx, vault.TokenParams{
			ID: id + "-email", Type: vault.Generic, Data: email,
			SearchIndexes: []string{"{{ data | downcase }}"}, Metadata: map[string]string{"region": "EU"},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	page, err := c.SearchTokens(ctx, vault.SearchTokensParams{Query: `data:"jane@example.com" AND metadata.region:eu`})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Pagination.TotalItems, page.Data[0].ID)
	// Output: 1 jane-email
}

func exampleVault(ctx context.Context) *vault.Vault {
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		log.Fatal(err)
	}
	return v
}
