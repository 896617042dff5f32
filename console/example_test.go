package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// The people who run a vault sign in with the program's own sessions.
func Example() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		panic(err)
	}
	rec := console.NewRecorder()
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Observer: rec})
	if err != nil {
		panic(err)
	}
	defer v.Close()
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", console.Handler(v, &console.Options{
		Recorder: rec,
		Authorize: func(r *http.Request) (console.User, error) {
			session, err := r.Cookie("session")
			if err != nil || session.Value != "of-jane" {
				return console.User{}, vault.ErrUnauthenticated
			}
			return console.User{ID: "jane", Role: console.Viewer}, nil
		},
	})))
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, session := range []string{"", "of-jane"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/console/tenants", nil)
		if err != nil {
			panic(err)
		}
		req.AddCookie(&http.Cookie{Name: "session", Value: session})
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			panic(err)
		}
		_ = res.Body.Close()
		fmt.Println(res.StatusCode)
	}
	// Output:
	// 403
	// 200
}
