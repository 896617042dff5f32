package vault_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A receiver of callbacks checks that they come from the vault.
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
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
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
	card, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
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

// A proxy sends a request with the data of tokens in their place. The program
// holds the token alone.
func ExampleClient_InvokeProxy() {
	ctx := context.Background()
	gateway := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body) // a gateway that says what it was sent
	}))
	defer gateway.Close()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(gateway.Certificate())
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{
		Egress: vault.EgressPolicy{AllowPrivate: true, RootCAs: roots}, // the gateway of this example is on this machine
	})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	acme, err := v.EnsureTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCardNumber, Data: "4242424242424242"})
	if err != nil {
		log.Fatal(err)
	}
	proxy, err := c.EnsureProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: gateway.URL})
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.InvokeProxy(ctx, vault.ProxyCall{
		Key: proxy.Key, Method: http.MethodPost, Path: "/charges", Header: http.Header{"Content-Type": {"application/json"}},
		Body: strings.NewReader(`{"amount":100,"card":"{{ ` + tok.ID + ` }}"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(answer.Status, string(body))
	// Output: 200 {"amount":100,"card":"4242424242424242"}
}
