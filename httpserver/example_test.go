package httpserver_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A program with its own mux mounts the API below a path.
func ExampleHandler() {
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
	form, err := v.Tenant(acme.ID).CreateApplication(ctx, vault.ApplicationParams{
		Name: "Form", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"},
	})
	if err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, nil)))

	req := httptest.NewRequest("POST", "/vault/tokenize", strings.NewReader(`{"type":"card_number","data":"4242424242424242"}`))
	req.Header.Set("SVC-API-KEY", form.Key)
	res := httptest.NewRecorder()
	mux.ServeHTTP(res, req)
	fmt.Println(res.Code, strings.Contains(res.Body.String(), `"data":"XXXXXXXXXXXX4242"`))
	// Output: 200 true
}

// A browser form may tokenize with a public key, and each application may
// send fifty requests a second.
func ExampleOptions() {
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
	srv := &http.Server{Addr: "127.0.0.1:8080", Handler: httpserver.Handler(v, &httpserver.Options{
		Origins:   []string{"https://shop.example"},
		RateLimit: httpserver.EachApplication(50, 100),
	})}
	log.Print(srv.ListenAndServe())
}

// Users of the program call the API with the program's own bearer tokens,
// next to holders of API keys.
func ExampleOptions_authenticate() {
	var v *vault.Vault
	var tenant, application uuid.UUID
	verify := func(token string) (subject string, err error) { return "auth0|jane", nil } // with an OIDC library
	handler := httpserver.Handler(v, &httpserver.Options{
		Authenticate: func(r *http.Request) (*vault.Client, error) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return nil, nil // use the API key, if any
			}
			subject, err := verify(token)
			if err != nil {
				return nil, vault.ErrUnauthenticated
			}
			r.Header.Del("Authorization") // so that it is not forwarded to the destination of a proxy
			return v.Tenant(tenant).AsUser(subject).As(r.Context(), application)
		},
	})
	http.Handle("/vault/", http.StripPrefix("/vault", handler))
}

// A server behind a balancer stops without losing requests.
func ExampleDrain() {
	ctx, stop := context.WithCancel(context.Background()) // yours is signal.NotifyContext with SIGTERM
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), nil)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	drain := &httpserver.Drain{Delay: time.Millisecond, Timeout: 30 * time.Second} // yours has a Delay of seconds
	api := httpserver.Handler(v, &httpserver.Options{Drain: drain})
	srv := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	stop()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-ctx.Done():
	}
	err = drain.Shutdown(context.Background(), v, srv)

	probe := httptest.NewRecorder()
	api.ServeHTTP(probe, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(probe.Code, errors.Join(err, v.Close()))
	// Output: 503 <nil>
}
