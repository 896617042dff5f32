package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func TestLogSinkFlags(t *testing.T) {
	t.Parallel()
	var l sinkList
	for _, good := range []string{"a=stdout", "b=file:/var/log/audit.jsonl,ocsf c=https://siem.example.com/x?a=1,2,otlp", "d=http://127.0.0.1:4318"} {
		must.Match(t, good, l.set(good), nil)
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
	for _, bad := range []string{"a", "=stdout", "a=", "a=stderr", "a=file:", "a=stdout,cef", "a=ftp://x"} {
		must.Match(t, bad+" is not refused", new(sinkList).set(bad), must.Text("must be NAME=DEST[,FORMAT]"))
	}
}

// The headers of a file are sent with each batch. Errors about the file do not
// repeat its text.
func TestSinkHeaders(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headers")
	write := func(text string) {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	got := make(chan http.Header, 1)
	siem := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer siem.Close()
	args := []string{"-log-sink", "siem=" + siem.URL + ",otlp", "-log-sink-headers", "siem=" + file}
	write("Authorization: Splunk s3cret\r\n\nX-Scope:  a\nX-Scope:b: c\n")
	c := must.Get(parseFlags(args, io.Discard))(t)
	sinks := must.Get(c.sinkConfig())(t)
	must.Do(t, sinks[0].Sender.Send(t.Context(), []byte("{}"), "application/json"))
	if h := <-got; h.Get("Authorization") != "Splunk s3cret" || strings.Join(h.Values("X-Scope"), "|") != "a|b: c" {
		t.Errorf("%v", h)
	}
	for _, bad := range []string{"s3cret", ": s3cret", "X s3cret: a", "X:", "X: a\x00s3cret"} {
		write("A: b\n" + bad)
		if _, err := parseFlags(args, io.Discard); err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	write("A: b")
	const noSink = "no --log-sink with a URL has the name siem"
	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"-log-sink-headers", "siem=" + file}, noSink},
		{[]string{"-log-sink", "siem=stdout", "-log-sink-headers", "siem=" + file}, noSink},
		{[]string{"-log-sink-headers", "siem="}, "must be NAME=FILE"},
	} {
		must.Fail(parseFlags(bad.args, io.Discard))(t, fmt.Sprintf("%v was accepted", bad.args), must.Text(bad.want))
	}
}

// Plain http to another machine is an explicit choice.
func TestHTTPSinksNeedAFlag(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		c := must.Get(parseFlags([]string{"-log-sink", "collector=http://collector.example:4318,otlp", "-allow-http-sinks=" + strconv.FormatBool(allowed)}, io.Discard))(t)
		sinks := must.Get(c.sinkConfig())(t)
		store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
		v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Sinks: sinks, WorkEvery: -1, SweepEvery: -1})
		if (err == nil) != allowed {
			t.Errorf("allowed %t: %v", allowed, err)
		}
		if err == nil {
			_ = v.Close()
		}
	}
}

func scrape(t *testing.T, m *metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return rec.Body.String()
}
