package httpserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A program that has a mux already mounts the API below a path of its own.
func ExampleHandler() {
	v := vaulttest.New(&testing.T{}) // a program opens its own with vault.Open
	defer v.Close()

	mux := http.NewServeMux()
	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v.Vault, nil)))

	req := httptest.NewRequest("POST", "/vault/tokenize", strings.NewReader(`{"type":"card_number","data":"4242424242424242"}`))
	req.Header.Set("SVC-API-KEY", v.PublicKey)
	res := httptest.NewRecorder()
	mux.ServeHTTP(res, req)
	fmt.Println(res.Code, strings.Contains(res.Body.String(), `"data":"XXXXXXXXXXXX4242"`))
	// Output: 200 true
}

// A browser form may tokenize with a public key, and each application may send
// fifty requests a second.
func ExampleOptions() {
	v := vaulttest.New(&testing.T{})
	defer v.Close()
	srv := &http.Server{Handler: httpserver.Handler(v.Vault, &httpserver.Options{
		Origins:   []string{"https://shop.example"},
		RateLimit: httpserver.EachApplication(50, 100),
	})}
	defer srv.Close()
}
