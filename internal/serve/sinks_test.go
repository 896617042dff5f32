package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestLogSinkFlags(t *testing.T) {
	t.Parallel()
	var l sinkList
	for _, good := range []string{"a=stdout", "b=file:/var/log/audit.jsonl,ocsf c=https://siem.example.com/x?a=1,2,otlp", "d=http://127.0.0.1:4318"} {
		if err := l.Set(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	want := sinkList{{"a", "stdout", ""}, {"b", "file:/var/log/audit.jsonl", "ocsf"}, {"c", "https://siem.example.com/x?a=1,2", "otlp"}, {"d", "http://127.0.0.1:4318", ""}}
	if len(l) != len(want) {
		t.Fatalf("%v", l)
	}
	for i := range want {
		if l[i] != want[i] {
			t.Errorf("%v, want %v", l[i], want[i])
		}
	}
	if l.String() != "a b c d" {
		t.Errorf("%s", l.String())
	}
	for _, bad := range []string{"a", "=stdout", "a=", "a=stderr", "a=file:", "a=stdout,cef", "a=ftp://x"} {
		if err := new(sinkList).Set(bad); err == nil {
			t.Errorf("%s is not refused", bad)
		}
	}
}

// The metrics report how far behind a sink is.
func TestSinkMetrics(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	c := &Config{sinks: sinkList{{"file", "file:" + path, ""}}}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Sinks: c.sinkConfig()})
	if err := v.SendLogs(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := newMetrics(func() script.Stats { return script.Stats{} })
	m.watch(v.Vault)
	text := scrape(t, m)
	for _, want := range []string{`vault_sink_lag_seconds{sink="file"} 0`, `vault_sink_lag_entries{sink="file"} 0`, `vault_sink_failures_total{sink="file"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}
