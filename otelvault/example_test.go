package otelvault_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/otelvault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A program sends the spans and metrics of its vault to OpenTelemetry.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter() // yours sends them to a collector
	t, err := otelvault.New(&otelvault.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Observer: t})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	t.Watch(v)

	api := t.Handler(httpserver.Handler(v, &httpserver.Options{Observer: t}))
	api.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/tokens/7", nil))
	all := spans.GetSpans()
	fmt.Println(all[len(all)-1].Name)
	// Output: GET /tokens/{id}
}
