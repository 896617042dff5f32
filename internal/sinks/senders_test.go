package sinks_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// sent opens a vault with a sink in a format, adds entries, and returns when they
// are sent.
func sent(t *testing.T, sender vault.LogSender, format string) *vaulttest.Vault {
	t.Helper()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Sinks: []vault.Sink{{Name: "siem", Sender: sender, Format: format, FromStart: true}}})
	tok := must.Get(v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret-value"}))(t)
	must.Get(v.Owner.AsUser("jane").GetToken(t.Context(), tok.ID))(t)
	must.Do(t, v.SendLogs(t.Context()))
	return v
}

// entriesOf returns the log of a vault, oldest first.
func entriesOf(t *testing.T, v *vaulttest.Vault) []vault.LogEntry {
	t.Helper()
	batch := must.Get(v.Owner.NextLogs(t.Context(), vault.LogsSince(time.Unix(1, 0)), 0))(t)
	return batch.Data
}

func TestNativeLinesAreEntries(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	v := sent(t, vault.LogWriter(&out), "")
	var want bytes.Buffer
	for _, e := range entriesOf(t, v) {
		line := must.Get(json.Marshal(e))(t)
		want.Write(append(line, '\n'))
	}
	if out.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", &out, &want)
	}
}

// at returns a value in nested objects.
func at(doc any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		object, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = object[name]
	}
	return doc
}

// A file that was moved is created again.
func TestFileIsReopened(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	v := sent(t, vault.LogFile(path), "")
	must.Do(t, os.Rename(path, path+".1"))
	must.Get(v.Owner.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Do(t, v.SendLogs(t.Context()))
	for name, want := range map[string]int{path + ".1": len(entriesOf(t, v)) - 1, path: 1} {
		must.Same(t, filepath.Base(name), want, strings.Count(string(must.Get(os.ReadFile(name))(t)), "\n"))
		must.Same(t, "others may read "+filepath.Base(name), fs.FileMode(0o600), must.Get(os.Stat(name))(t).Mode().Perm())
	}
}

// A batch over HTTP is signed and compressed, and has the operator's headers.
func TestHTTPRequests(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + strings.Repeat("QUJD", 10)
	hook := must.Get(standardwebhooks.NewWebhook(secret))(t)
	seen := make(chan error, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			seen <- err
			return
		}
		body, err := io.ReadAll(z)
		if err == nil {
			err = hook.Verify(body, r.Header)
		}
		if r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("Content-Type") != "application/json" || r.URL.Path != "/v1/logs" {
			err = fmt.Errorf("%s %v", r.URL.Path, r.Header)
		}
		seen <- err
	}))
	defer srv.Close()
	sent(t, vault.LogHTTP(srv.URL, &vault.LogHTTPOptions{
		Secret: secret, Gzip: true, Header: http.Header{"authorization": {"Bearer token"}},
	}), vault.FormatOTLP)
	must.Match(t, "the request", <-seen, nil)
}

// The user and password of a URL are sent as basic auth, and appear in no error.
func TestHTTPCredentials(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "vault" || password != "s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	url := strings.Replace(srv.URL, "http://", "http://vault:s3cret@", 1)
	must.Do(t, vault.LogHTTP(url, nil).Send(t.Context(), []byte("{}"), "application/json"))
	srv.Close()
	if err := vault.LogHTTP(url, nil).Send(t.Context(), []byte("{}"), "application/json"); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("connection refused: got %v", err)
	}
}

// The response decides whether a batch is accepted, retried or refused.
func TestHTTPResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status         int
		header, body   string
		taken, refused bool
		after          time.Duration
	}{
		"200":               {status: 200, taken: true},
		"204":               {status: 204, taken: true},
		"200, all accepted": {status: 200, body: `{"partialSuccess":{}}`, taken: true},
		"200, none":         {status: 200, body: `{"partialSuccess":{"rejectedLogRecords":"0"}}`, taken: true},
		"200, a warning":    {status: 200, body: `{"partialSuccess":{"errorMessage":"slow"}}`, taken: true},
		"200, some":         {status: 200, body: `{"partialSuccess":{"rejectedLogRecords":"2"}}`, refused: true},
		"200, as a number":  {status: 200, body: `{"partialSuccess":{"rejectedLogRecords":2}}`, refused: true},
		"200, not JSON":     {status: 200, body: `<html>`, taken: true},
		"301":               {status: 301},
		"400":               {status: 400, refused: true},
		"401":               {status: 401},
		"404":               {status: 404},
		"413":               {status: 413, refused: true},
		"429":               {status: 429, header: "7", after: 7 * time.Second},
		"500":               {status: 500},
		"503":               {status: 503, header: "120", after: 2 * time.Minute},
		"503, nonsense":     {status: 503, header: "-1"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		err := vault.LogHTTP(srv.URL, nil).Send(t.Context(), []byte("{}"), "application/json")
		srv.Close()
		var refusal interface{ Refused() bool }
		var later interface{ RetryAfter() time.Duration }
		switch {
		case (err == nil) != c.taken:
			t.Errorf("%s: %v", name, err)
		case err != nil && (!errors.As(err, &refusal) || refusal.Refused() != c.refused):
			t.Errorf("%s: refused or not: %v", name, err)
		case err != nil && (!errors.As(err, &later) || later.RetryAfter() != c.after):
			t.Errorf("%s: wait for another time", name)
		}
	}
	err := vault.LogHTTP("http://127.0.0.1:1/?token=secret", nil).Send(t.Context(), []byte("{}"), "application/json")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("connection refused: got %v", err)
	}
}

// A hanging writer does not block its caller, and the next batch waits for it.
func TestHangingWriter(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	sender := vault.LogWriter(w)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	for range 2 {
		must.Match(t, "a write that hangs", sender.Send(ctx, []byte("one\n"), ""), context.Canceled)
	}
	got := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		got <- string(all)
	}()
	must.Do(t, sender.Send(t.Context(), []byte("two\n"), ""))
	_ = w.Close()
	must.Same(t, "the lines", "one\ntwo\n", <-got)
}
