package otelvault_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/otelvault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaultmetrics"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const (
	traceID     = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent = "00-" + traceID + "-00f067aa0ba902b7-01"
)

// runtime runs no code; every run returns the same result.
type runtime struct{}

func (runtime) Check(context.Context, script.Program) error { return nil }
func (runtime) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	return json.RawMessage(`{"raw":1}`), nil
}
func (runtime) Close() error        { return nil }
func (runtime) Stats() script.Stats { return script.Stats{} }

// observedVault is a vault behind HTTP whose spans and metrics are kept in memory.
type observedVault struct {
	*vaulttest.Vault
	*otelvault.Telemetry
	spans  *tracetest.InMemoryExporter
	reader *metric.ManualReader
	api    *httptest.Server
	dest   *httptest.Server

	mu  sync.Mutex
	got []http.Header // received by the destination
}

func newObservedVault(t *testing.T) *observedVault {
	t.Helper()
	w := &observedVault{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	var err error
	if w.Telemetry, err = otelvault.New(&otelvault.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans)),
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(w.reader)),
		Metrics:        vaultmetrics.Options{CertificateExpiry: func() time.Time { return time.Now().Add(time.Hour) }},
	}); err != nil {
		t.Fatal(err)
	}
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	w.Vault = vaulttest.OpenStorage(t, store, &vault.Config{
		Observer: w.Telemetry, Runtime: runtime{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Evidence: &vault.EvidenceConfig{Every: -1}, Sinks: []vault.Sink{{Name: "log", Sender: vault.LogWriter(io.Discard)}},
	})
	w.Watch(w.Vault.Vault)
	w.dest = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, r.Header)
	}))
	t.Cleanup(w.dest.Close)
	w.api = httptest.NewServer(w.Handler(httpserver.Handler(w.Vault.Vault, &httpserver.Options{Observer: w.Telemetry})))
	t.Cleanup(w.api.Close)
	return w
}

// do sends a request that belongs to a trace.
func (w *observedVault) do(t *testing.T, method, path, key, body string, header ...string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, w.api.URL+path, strings.NewReader(body)))(t)
	req.Header.Set("SVC-API-KEY", key)
	req.Header.Set("traceparent", traceparent)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res := must.Get(w.api.Client().Do(req))(t)
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
}

// span returns the last span with a name. The server ends spans after it has
// responded, so it is closed first to wait for them.
func (w *observedVault) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	w.api.Close()
	all := w.spans.GetSpans()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == name {
			return all[i]
		}
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	t.Fatalf("no span %q among %q", name, names)
	return tracetest.SpanStub{}
}

func attributes(s tracetest.SpanStub) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, kv := range s.Attributes {
		all[kv.Key] = kv.Value.String()
	}
	return all
}

// The span of a request is in the trace of its caller, has the name of its
// route and the ids of tenant and application. The metrics have its duration.
func TestRequest(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	w.do(t, "POST", "/tokens", w.PrivateKey, `{"type":"token","data":"4242"}`)
	s := w.span(t, "POST /tokens")
	got := attributes(s)
	for name, want := range map[attribute.Key]string{
		"vault.tenant_id": w.Acme.ID.String(), "vault.application_id": w.Private.ApplicationID().String(),
		"vault.trace_id": traceID, "http.route": "/tokens", "http.response.status_code": "201",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if s.SpanContext.TraceID().String() != traceID || s.Parent.SpanID().String() != traceparent[36:52] {
		t.Errorf("the span is in trace %s, with the parent %s", s.SpanContext.TraceID(), s.Parent.SpanID())
	}
	if w.metrics(t)["http.server.request.duration"] == 0 {
		t.Error("the request is not counted")
	}
}

// metrics returns the number of data points of each metric.
func (w *observedVault) metrics(t *testing.T) map[string]int {
	t.Helper()
	var all metricdata.ResourceMetrics
	must.Do(t, w.reader.Collect(context.WithoutCancel(t.Context()), &all))
	points := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			points[m.Name] = reflect.ValueOf(m.Data).FieldByName("DataPoints").Len()
		}
	}
	return points
}

// deployed matches the vault's metrics in alerts and dashboards.
var deployed = regexp.MustCompile(`vault_[a-z_]+`)

// The alerts and the dashboard of examples/deploy name only metrics that have figures
// here too. Prometheus adds the suffix _bucket to the name of a histogram.
func TestDeployedNames(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	w.do(t, http.MethodPost, "/tokens", w.PrivateKey, `{"type":"token","data":"x"}`)
	if res, err := http.Get(w.api.URL + "/tokens"); err != nil || res.StatusCode != http.StatusUnauthorized || res.Body.Close() != nil {
		t.Fatal(res, err)
	}
	w.api.Close() // the metrics have all requests
	must.Get(w.VerifyLogs(t.Context(), nil))(t)
	must.Do(t, w.SendLogs(t.Context()))
	got := w.metrics(t)
	names := 0
	for _, file := range []string{"alerts.yaml", "grafana.json"} {
		for _, name := range deployed.FindAllString(string(must.Get(os.ReadFile("../examples/deploy/"+file))(t)), -1) {
			names++
			if got[strings.TrimSuffix(name, "_bucket")] == 0 {
				t.Errorf("%s uses %s, which has no figure", file, name)
			}
		}
	}
	if names < 30 {
		t.Errorf("found only %d names", names)
	}
}

// Durations have buckets in fractions of a second.
func TestDurationsAreInFractionsOfASecond(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	w.do(t, http.MethodPost, "/tokens", w.PrivateKey, `{"type":"token","data":"x"}`)
	w.api.Close()
	var all metricdata.ResourceMetrics
	must.Do(t, w.reader.Collect(t.Context(), &all))
	histograms := 0
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
				histograms++
				must.Same(t, "the bounds of "+m.Name, vaultmetrics.Bounds(), h.DataPoints[0].Bounds)
			}
		}
	}
	must.Same(t, "histograms", 4, histograms)
}

// A request to a destination has a span below the span of its operation. The
// operation's span is below the span of its request. The destination gets the
// same trace.
func TestEgress(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	w.do(t, "GET", "/proxy", w.PrivateKey, "", "SVC-PROXY-URL", w.dest.URL)
	out := w.span(t, "vault.egress GET")
	call, in := w.span(t, "vault.InvokeProxy"), w.span(t, "GET /proxy")
	if out.Parent.SpanID() != call.SpanContext.SpanID() || attributes(out)["vault.tenant_id"] != w.Acme.ID.String() {
		t.Errorf("the egress span has the parent %s, want %s; %v", out.Parent.SpanID(), call.SpanContext.SpanID(), out.Attributes)
	}
	if call.Parent.SpanID() != in.SpanContext.SpanID() {
		t.Errorf("the span of the operation has the parent %s, want %s", call.Parent.SpanID(), in.SpanContext.SpanID())
	}
	want := "00-" + traceID + "-" + out.SpanContext.SpanID().String() + "-01"
	if got := w.got[0].Get("traceparent"); got != want {
		t.Errorf("the destination got %q, want %q", got, want)
	}
}

// The run of an asynchronous request, and its callback, are in the trace of
// the request.
func TestJob(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	r := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}}))(t)
	w.do(t, "POST", "/reactors/"+r.ID.String()+"/react", w.PrivateKey, `{"callback_url":"`+w.dest.URL+`"}`)
	must.Do(t, w.Work(t.Context()))
	for _, name := range []string{"vault.job run", "vault.job deliver", "vault.egress POST"} {
		if s := w.span(t, name); s.SpanContext.TraceID().String() != traceID || attributes(s)["vault.trace_id"] != traceID {
			t.Errorf("%s is in trace %s: %v", name, s.SpanContext.TraceID(), s.Attributes)
		}
	}
	if got := w.got[0].Get("traceparent"); !strings.HasPrefix(got, "00-"+traceID) {
		t.Errorf("the callback has the traceparent %q", got)
	}
}

// TestSweepKeysAndPools checks work without a caller: sweeps, calls of the
// master key, and connection pools.
func TestSweepKeysAndPools(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	must.Get(w.Sweep(t.Context()))(t)
	for _, name := range []string{"vault.sweep sweep", "vault.key encrypt", "vault.key decrypt"} {
		w.span(t, name)
	}
	got := w.metrics(t)
	for _, name := range []string{"vault.work.duration", "vault_db_connections", "vault_db_connections_max", "vault_db_wait_seconds_total"} {
		if got[name] == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(w.Sweep(canceled))(t, "a canceled sweep", context.Canceled)
	if s := w.span(t, "vault.sweep sweep"); s.Status.Code != codes.Error || strings.Contains(s.Status.Description, "cancel") {
		t.Errorf("the span of a failed sweep: %+v", s.Status)
	}
}

// failing is a transport whose requests all fail.
type failing struct{}

var errFailing = errors.New("4242")

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errFailing }

// remote returns a client over HTTP whose requests fail.
func remote(t *testing.T, o vault.Observer) *vaultclient.Client {
	t.Helper()
	c := must.Get(vaultclient.New("https://vault.example", "key", &vaultclient.Options{Transport: failing{}, Observer: o, Retry: vaultclient.Retry{Attempts: 1}}))(t)
	return c
}

// Operations have a span in process and over HTTP. The span of a failed
// operation does not contain the error.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	if s := w.span(t, "vault.CreateToken"); attributes(s)["vault.tenant_id"] != w.Acme.ID.String() || attributes(s)["vault.operation"] != "CreateToken" {
		t.Errorf("%v", s.Attributes)
	}
	c := remote(t, w.Telemetry)
	must.Fail(c.GetToken(t.Context(), "x"))(t, "GetToken", errFailing)
	must.Match(t, "DeleteToken", c.DeleteToken(t.Context(), "x"), errFailing)
	for _, name := range []string{"vault.GetToken", "vault.DeleteToken"} {
		if s := w.span(t, name); s.Status.Code != codes.Error || strings.Contains(s.Status.Description, "4242") || len(s.Events) != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if w.metrics(t)["vault.operation.duration"] == 0 {
		t.Error("the metrics have no operations")
	}
}

// The server continues the trace of a client over HTTP.
func TestRemoteTrace(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	c := must.Get(vaultclient.New(w.api.URL, w.PrivateKey, &vaultclient.Options{Observer: w.Telemetry}))(t)
	must.Get(c.Tokenize(t.Context(), "x"))(t)
	var spans []tracetest.SpanStub // in the order in which they ended
	for _, s := range w.spans.GetSpans() {
		if s.Name == "vault.Tokenize" || s.Name == "POST /tokenize" {
			spans = append(spans, s)
		}
	}
	if len(spans) != 3 {
		t.Fatalf("got %d spans, want 3", len(spans))
	}
	inside, request, outside := spans[0], spans[1], spans[2]
	if inside.Parent.SpanID() != request.SpanContext.SpanID() || request.Parent.SpanID() != outside.SpanContext.SpanID() {
		t.Errorf("%s has the parent %s, and %s has the parent %s", inside.Name, inside.Parent.SpanID(), request.Name, request.Parent.SpanID())
	}
}

// Every operation of a client over HTTP has a span. Package vault has the same
// test for operations in process.
func TestEveryOperationHasASpan(t *testing.T) {
	t.Parallel()
	w := newObservedVault(t)
	c := reflect.ValueOf(remote(t, w.Telemetry))
	for m := range reflect.TypeFor[vault.API]().Methods() {
		args := []reflect.Value{reflect.ValueOf(t.Context())}
		for i := 1; i < m.Type.NumIn(); i++ {
			args = append(args, reflect.Zero(m.Type.In(i)))
			switch {
			case m.Type.In(i) == reflect.TypeFor[vault.TokenSelection]():
				args[i] = reflect.ValueOf(vault.ListTokensParams{})
			case m.Type.In(i).Kind() == reflect.Interface:
				args[i] = reflect.ValueOf("x") // a document or a patch
			}
		}
		if m.Name == "ReactAsync" {
			args[2] = reflect.ValueOf(vault.ReactParams{CallbackURL: "https://example.com"})
		}
		out := c.MethodByName(m.Name).Call(args)
		if out[0].Kind() == reflect.Func { // an iterator
			for range out[0].Seq2() {
			}
		}
		w.span(t, "vault."+m.Name)
	}
}
