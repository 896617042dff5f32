package vault_test

import (
	"context"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// An embedding program opens a vault, creates a tenant, stores a card, and uses it.
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

// Programs that start concurrently set up the same tenant and application.
func ExampleVault_EnsureTenant() {
	ctx := context.Background()
	v, _, _ := newTenant(nil)
	defer v.Close()
	for range 2 { // as two replicas would
		shop, err := v.EnsureTenant(ctx, "Shop")
		check(err)
		app, err := v.Tenant(shop.ID).EnsureApplication(ctx, vault.ApplicationParams{
			Name: "Checkout", Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate),
		})
		check(err)
		fmt.Println(shop.Name, app.Name, "new:", app.Key != "")
	}
	// Output:
	// Shop Checkout new: true
	// Shop Checkout new: false
}

// check ends an example after an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Params makes it easy to change one field of a proxy.
func ExampleProxy_Params() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	proxy, err := c.EnsureProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: "https://gateway.example"})
	check(err)
	p := proxy.Params()
	p.DestinationURL = "https://new-gateway.example"
	proxy, err = c.ReplaceProxy(ctx, proxy.ID, p)
	check(err)
	fmt.Println(proxy.DestinationURL)
	// Output: https://new-gateway.example
}

// The log names the users of the program.
func ExampleClient_AsUser() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	tok, err := c.AsUser("auth0|jane").CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	check(err)
	logs, err := c.ListLogs(ctx, vault.ListLogsParams{EntityID: tok.ID})
	check(err)
	for _, e := range logs.Data {
		fmt.Println(e.ActorName, e.Operation, e.ActorID == tok.CreatedBy)
	}
	// Output: auth0|jane create true
}

// A patch is any Go value that encodes to a JSON object. A null removes a field.
func ExampleClient_PatchToken() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", Metadata: map[string]string{"a": "1", "b": "2"}})
	check(err)
	tok, err = c.PatchToken(ctx, tok.ID, map[string]any{"metadata": map[string]any{"a": nil, "c": "3"}})
	check(err)
	fmt.Println(tok.Metadata)
	// Output: map[b:2 c:3]
}

// A loop over all tokens may delete the tokens it gets, while others write.
func ExampleClient_AllTokens() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	_, err := c.Tokenize(ctx, []string{"a", "b", "c"})
	check(err)
	deleted := 0
	for tok, err := range c.AllTokens(ctx, vault.ListTokensParams{Types: []vault.TokenType{vault.TypeGeneric}}) {
		check(err)
		check(c.DeleteToken(ctx, tok.ID))
		deleted++
	}
	fmt.Println(deleted)
	// Output: 3
}

// A request that may arrive twice, such as a queue message, takes effect once.
func ExampleClient_Once() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	for range 2 {
		answer, replayed, err := c.Once(ctx, vault.IdempotencyKey{Scope: "signup", Key: "message-17"},
			func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
				tok, err := c.CreateToken(ctx, vault.TokenParams{ID: "jane-ssn", Type: vault.TypeSocialSecurityNumber, Data: "123-45-6789"})
				if err != nil {
					return vault.StoredResponse{}, err
				}
				return vault.StoredResponse{Body: []byte(tok.ID)}, nil
			})
		check(err)
		fmt.Println(string(answer.Body), replayed)
	}
	// Output:
	// jane-ssn false
	// jane-ssn true
}

// Access rules decide how much of a token an application sees.
func ExampleClient_CreateApplication() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: "536-22-8726"})
	check(err)

	for _, transform := range []vault.Transform{vault.TransformReveal, vault.TransformMask, vault.TransformRedact} {
		app, err := c.CreateApplication(ctx, vault.ApplicationParams{
			Name: "Support", Type: vault.ApplicationPrivate,
			Rules: []vault.AccessRule{{Priority: 1, Container: "/pii/", Transform: transform, Permissions: []vault.Permission{"token:read"}}},
		})
		check(err)
		support, err := v.Authenticate(ctx, app.Key)
		check(err)
		seen, err := support.GetToken(ctx, tok.ID)
		check(err)
		fmt.Printf("%s: %s\n", transform, seen.Data)
	}
	// Output:
	// reveal: "536-22-8726"
	// mask: "XXX-XX-8726"
	// redact:
}

// A whole document can be tokenized at once. It keeps its structure.
func ExampleClient_Tokenize() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()

	document := vault.JSON(`{"name": "Jane Doe", "limits": [1.10, null]}`)
	tokens, err := c.Tokenize(ctx, document)
	check(err)
	var shape struct {
		Name   string
		Limits []*string
	}
	check(tokens.Decode(&shape))
	back, err := c.Detokenize(ctx, map[string]any{"name": "{{" + shape.Name + "}}", "limit": "{{" + *shape.Limits[0] + "}}"})
	check(err)
	fmt.Println(back, shape.Limits[1] == nil)
	// Output: {"limit":1.10,"name":"Jane Doe"} true
}

// Search finds tokens by their search indexes, without decrypting any.
func ExampleClient_SearchTokens() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	for id, email := range map[string]string{"jane": "jane@example.com", "john": "john@example.com"} {
		_, err := c.CreateToken(ctx, vault.TokenParams{
			ID: id + "-email", Type: vault.TypeGeneric, Data: email,
			SearchIndexes: []string{"{{ data | downcase }}"}, Metadata: map[string]string{"region": "EU"},
		})
		check(err)
	}
	page, err := c.SearchTokens(ctx, vault.SearchTokensParams{Query: `data:"jane@example.com" AND metadata.region:eu`})
	check(err)
	fmt.Println(page.Pagination.TotalItems, page.Data[0].ID)
	// Output: 1 jane-email
}

// A browser opens a session with a public key and sends the nonce to the backend,
// which decides what the session key may do for the next minutes.
func ExampleClient_AuthorizeSession() {
	ctx := context.Background()
	v, _, backend := newTenant(nil) // or a private application
	defer v.Close()
	card, err := backend.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
	check(err)
	form, err := backend.CreateApplication(ctx, vault.ApplicationParams{
		Name: "Form", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"},
	})
	check(err)

	// The browser, with the public key.
	browser, err := v.Authenticate(ctx, form.Key)
	check(err)
	session, err := browser.CreateSession(ctx)
	check(err)

	// The backend, with the nonce.
	err = backend.AuthorizeSession(ctx, vault.SessionGrant{
		Nonce: session.Nonce,
		Rules: []vault.AccessRule{{Priority: 1, Container: "/pci/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"}}},
	})
	check(err)

	// The browser again, with the session key.
	browser, err = v.Authenticate(ctx, session.SessionKey)
	check(err)
	tok, err := browser.GetToken(ctx, card.ID)
	check(err)
	fmt.Println(tok.Data)
	// Output: {"number":"XXXXXXXXXXXX4242"}
}

// All tenants get new data keys while all nodes keep serving. A thousand tenants
// share one wait of 12 seconds.
func ExampleVault_RotateAllDataKeys() {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv("TOKENVAULT_MASTER_KEY"))
	check(err)
	store, err := sqlite.Open(ctx, "vault.db")
	check(err)
	v, err := vault.Open(ctx, store, key, nil)
	check(err)
	defer v.Close()
	begun := time.Now() // store it, to continue with the same time after an interruption
	err = v.RotateAllDataKeys(ctx, &vault.RotateOptions{
		OlderThan: begun,
		Progress:  func(rows, tenants int) { log.Printf("%d tenants, %d rows", tenants, rows) },
	})
	check(err)
}

// A receiver checks that callbacks come from the vault.
func ExampleVerifyWebhook() {
	secret := os.Getenv("WEBHOOK_SECRET") // of GetTenant
	http.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 5<<20))
		if err != nil || vault.VerifyWebhook(secret, r.Header, body) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Println("the run", r.Header.Get("webhook-id"), "gave", string(body))
	})
}

// A reactor gets the card for the duration of a call. Its caller only needs the
// token. An error that the code throws is a [script.Error].
func ExampleClient_React() {
	ctx := context.Background()
	v, _, c := newTenant(&vault.Config{Runtime: jsruntime.New(nil)})
	defer v.Close()
	reactor, err := c.CreateReactor(ctx, vault.ReactorParams{
		Name: "Charge",
		Code: `module.exports = async ({ args, configuration }) => {
			if (args.amount > Number(configuration.LIMIT)) throw new InvalidPaymentMethodError('The amount is too high.');
			return { raw: { charged: args.amount, last4: args.card.number.slice(-4) } };
		};`,
		Configuration: map[string]string{"LIMIT": "5000"},
	})
	check(err)
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
	check(err)

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

// A Go client sends tokens through the vault, and the gateway gets card numbers.
func ExampleClient_RoundTripper() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
	check(err)

	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s\n", body)
	}))
	defer gateway.Close()
	client := &http.Client{Transport: c.RoundTripper(nil)}
	order := `{"amount": 5, "number": "{{ ` + card.ID + ` | json: '$.number' }}"}`
	res, err := client.Post(gateway.URL, "application/json", strings.NewReader(order))
	check(err)
	res.Body.Close()
	// Output: {"amount": 5, "number": "4242424242424242"}
}

// A proxy replaces the tokens in a request by their data. The program only holds
// the token.
func ExampleClient_InvokeProxy() {
	ctx := context.Background()
	gateway := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body) // the gateway echoes the request
	}))
	defer gateway.Close()
	roots := x509.NewCertPool()
	roots.AddCert(gateway.Certificate())
	v, _, c := newTenant(&vault.Config{
		Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: roots}, // the gateway runs on this machine
	})
	defer v.Close()
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCardNumber, Data: "4242424242424242"})
	check(err)
	proxy, err := c.EnsureProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: gateway.URL})
	check(err)
	answer, err := c.InvokeProxy(ctx, vault.ProxyCall{
		Key: proxy.Key, Method: http.MethodPost, Path: "/charges", Header: http.Header{"Content-Type": {"application/json"}},
		Body: strings.NewReader(`{"amount":100,"card":"{{ ` + tok.ID + ` }}"}`),
	})
	check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(err)
	fmt.Println(answer.Status, string(body))
	// Output: 200 {"amount":100,"card":"4242424242424242"}
}

// A file of cards is imported row by row. An invalid card number does not stop the
// other rows.
func ExampleClient_Import() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()

	file := csv.NewReader(strings.NewReader("ref,pan\norder-1,4242424242424242\norder-2,4242424242424241\norder-3,5555555555554444\n"))
	rows := func(yield func(vault.TokenParams, error) bool) {
		_, _ = file.Read() // the names of the columns
		for {
			record, err := file.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(vault.TokenParams{}, err)
				return
			}
			if !yield(vault.TokenParams{ID: record[0], Type: vault.TypeCardNumber, Data: record[1]}, nil) {
				return
			}
		}
	}
	for result, err := range c.Import(ctx, rows, &vault.ImportOptions{OnDuplicate: vault.DuplicateSkips}) {
		check(err)
		fmt.Println(result.Row, result.Outcome, result.ID, result.Errors)
	}
	// Output:
	// 1 created order-1 map[]
	// 2 failed  map[data:[must have a valid check digit (Luhn)]]
	// 3 created order-3 map[]
}

// Tokens are copied from one vault to another.
func ExampleClient_Export() {
	ctx := context.Background()
	from, _, source := newTenant(nil)
	defer from.Close()
	to, _, target := newTenant(nil)
	defer to.Close()
	_, err := source.CreateToken(ctx, vault.TokenParams{ID: "order-1", Type: vault.TypeCardNumber, Data: "4242424242424242"})
	check(err)

	for result, err := range target.Import(ctx, source.Export(ctx, vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCardNumber}}), nil) {
		check(err)
		fmt.Println(result.ID, result.Outcome)
	}
	// Output: order-1 created
}

// A follower saves its cursor after each batch, so that it can continue after a
// restart.
func ExampleClient_FollowLogs() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	v, _, c := newTenant(nil)
	defer v.Close()
	_, err := c.CreateToken(ctx, vault.TokenParams{ID: "order-1", Type: vault.TypeCardNumber, Data: "4242424242424242"})
	check(err)

	saved := vault.LogsSince(time.Now().Add(-time.Hour))
	for batch, err := range c.FollowLogs(ctx, saved) {
		check(err)
		for _, entry := range batch.Data {
			fmt.Println(entry.EntityType, entry.Message)
		}
		saved = batch.Cursor
		break // only in this example
	}
	fmt.Println(saved != "")
	// Output:
	// tenant Tenant created
	// card_number Token created
	// true
}
