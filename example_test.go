package vault_test

import (
	"context"
	"fmt"
	"log"
	"os"

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
	key := vault.NewKey() // or vault.ParseKey(os.Getenv("TOKENVAULT_MASTER_KEY"))
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
		Type: vault.TypeCard,
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

// Programs that start together set up the same tenant and application.
func ExampleVault_EnsureTenant() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	for range 2 { // as two replicas would
		acme, err := v.EnsureTenant(ctx, "Acme")
		if err != nil {
			log.Fatal(err)
		}
		app, err := v.Tenant(acme.ID).EnsureApplication(ctx, vault.ApplicationParams{
			Name: "Checkout", Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate),
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(acme.Name, app.Name, "new:", app.Key != "")
	}
	// Output:
	// Acme Checkout new: true
	// Acme Checkout new: false
}

// openExample opens a vault in memory.
func openExample(ctx context.Context) *vault.Vault {
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

// A proxy that was read is changed and put back.
func ExampleProxy_Params() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	proxy, err := c.EnsureProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: "https://gateway.example"})
	if err != nil {
		log.Fatal(err)
	}
	p := proxy.Params()
	p.DestinationURL = "https://new-gateway.example"
	proxy, err = c.ReplaceProxy(ctx, proxy.ID, p)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(proxy.DestinationURL)
	// Output: https://new-gateway.example
}

// The log names the users of the program.
func ExampleClient_AsUser() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	tok, err := c.AsUser("auth0|jane").CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	logs, err := c.ListLogs(ctx, vault.ListLogsParams{EntityID: tok.ID})
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range logs.Data {
		fmt.Println(e.ActorName, e.Operation, e.ActorID == tok.CreatedBy)
	}
	// Output: auth0|jane create true
}

// A patch is any Go value that is a JSON object: null takes away.
func ExampleClient_PatchToken() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Metadata: map[string]string{"a": "1", "b": "2"}})
	if err != nil {
		log.Fatal(err)
	}
	tok, err = c.PatchToken(ctx, tok.ID, map[string]any{"metadata": map[string]any{"a": nil, "c": "3"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Metadata)
	// Output: map[b:2 c:3]
}

// A loop over all tokens may delete what it is given, and others may write
// meanwhile.
func ExampleClient_AllTokens() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	if _, err := c.Tokenize(ctx, []string{"a", "b", "c"}); err != nil {
		log.Fatal(err)
	}
	deleted := 0
	for tok, err := range c.AllTokens(ctx, vault.ListTokensParams{Types: []vault.TokenType{vault.TypeGeneric}}) {
		if err != nil {
			log.Fatal(err)
		}
		if err := c.DeleteToken(ctx, tok.ID); err != nil {
			log.Fatal(err)
		}
		deleted++
	}
	fmt.Println(deleted)
	// Output: 3
}

// A request that may arrive twice, such as a message of a queue, takes effect
// once.
func ExampleClient_Once() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	for range 2 {
		answer, replayed, err := c.Once(ctx, vault.OnceKey{Scope: "signup", Key: "message-17"},
			func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
				tok, err := c.CreateToken(ctx, vault.TokenParams{ID: "jane-ssn", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789"})
				if err != nil {
					return vault.Answer{}, err
				}
				return vault.Answer{Body: []byte(tok.ID)}, nil
			})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(answer.Body), replayed)
	}
	// Output:
	// jane-ssn false
	// jane-ssn true
}

// Access rules decide how much of a token an application sees.
func ExampleClient_CreateApplication() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, _ := v.CreateTenant(ctx, "Acme")
	c := v.Tenant(acme.ID)
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726"})
	if err != nil {
		log.Fatal(err)
	}

	for _, transform := range []vault.Transform{vault.TransformReveal, vault.TransformMask, vault.TransformRedact} {
		app, err := c.CreateApplication(ctx, vault.ApplicationParams{
			Name: "Support", Type: vault.ApplicationPrivate,
			Rules: []vault.AccessRule{{Priority: 1, Container: "/pii/", Transform: transform, Permissions: []vault.Permission{"token:read"}}},
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
	v := openExample(ctx)
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
	v := openExample(ctx)
	defer v.Close()
	acme, _ := v.CreateTenant(ctx, "Acme")
	c := v.Tenant(acme.ID)
	for id, email := range map[string]string{"jane": "jane@example.com", "john": "john@example.com"} {
		_, err := c.CreateToken(ctx, vault.TokenParams{
			ID: id + "-email", Type: vault.TypeGeneric, Data: email,
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

// backend, which decides what the session key may do for the next minutes.
func ExampleClient_AuthorizeSession() {
	ctx := context.Background()
	v := openExample(ctx)
	defer v.Close()
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	backend := v.Tenant(acme.ID) // or a private application
	card, err := backend.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
	if err != nil {
		log.Fatal(err)
	}
	form, err := backend.CreateApplication(ctx, vault.ApplicationParams{
		Name: "Form", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"},
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
		Rules: []vault.AccessRule{{Priority: 1, Container: "/pci/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}},
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
	key, err := vault.ParseKey(os.Getenv("TOKENVAULT_MASTER_KEY"))
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
