package vaultprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultprom"
)

// A program serves the metrics of its vault beside its own.
func Example() {
	ctx := context.Background()
	metrics := vaultprom.New(nil)
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Observer: metrics})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	metrics.Watch(v)

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(metrics)
	mux := http.NewServeMux()
	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, &httpserver.Options{Observer: metrics})))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	get := func(path string) string {
		res := httptest.NewRecorder()
		mux.ServeHTTP(res, httptest.NewRequest(http.MethodGet, path, nil))
		return res.Body.String()
	}
	get("/vault/tokens") // without a key
	for line := range strings.Lines(get("/metrics")) {
		if strings.HasPrefix(line, "vault_http_requests_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// vault_http_requests_total{method="GET",route="/tokens",status="401"} 1
}
