package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// node is a running service.
type node struct {
	t        *testing.T
	url, key string
	stop     func()
}

// startNode runs the service until the test ends.
func startNode(t *testing.T, cfg config) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, &cfg, out, io.Discard)
		out.CloseWithError(err)
		done <- err
	}()
	n := &node{t: t, stop: func() {
		cancel()
		must.Match(t, "the service ended with", <-done, nil)
		done <- nil // so that it can be stopped again
	}}
	t.Cleanup(func() { n.stop() })
	for lines := bufio.NewScanner(in); n.url == ""; {
		if !lines.Scan() {
			t.Fatalf("the service did not start: %v", lines.Err())
		}
		if key, ok := strings.CutPrefix(lines.Text(), "payroll key "); ok {
			n.key = key
		}
		n.url, _ = strings.CutPrefix(lines.Text(), "listening at ")
		if !strings.HasPrefix(n.url, "http") {
			n.url = ""
		}
	}
	return n
}

// send sends a request and returns status and body.
func (n *node) send(method, path, header, value, body string) (int, string) {
	n.t.Helper()
	req := must.Get(http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body)))(n.t)
	req.Header.Set(header, value)
	res := must.Get(http.DefaultClient.Do(req))(n.t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(n.t)
	return res.StatusCode, string(text)
}

func newConfig(t *testing.T) config {
	t.Helper()
	return config{addr: "127.0.0.1:0", db: pgtest.URL(t), masterKey: vault.NewKey().Text(), staffToken: "hello"}
}

func TestTwoNodesServeOneDirectory(t *testing.T) {
	t.Parallel()
	cfg := newConfig(t)
	first := startNode(t, cfg)
	second := startNode(t, cfg)
	if first.key == "" || second.key != "" {
		t.Errorf("keys were printed: %q, %q", first.key, second.key)
	}
	const staff = "Bearer hello"
	status, body := first.send("POST", "/employees", "Authorization", staff, `{"name":"Jane","ssn":"123-45-6789"}`)
	var jane employee
	if err := json.Unmarshal([]byte(body), &jane); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	status, body = second.send("GET", "/employees/"+jane.ID, "Authorization", staff, "")
	want := fmt.Sprintf(`{"id":%q,"name":"Jane","ssn":"XXX-XX-6789"}`+"\n", jane.ID)
	if diff := cmp.Diff(want, body); status != http.StatusOK || diff != "" {
		t.Errorf("the directory shows %d (-want +got):\n%s", status, diff)
	}
	status, body = second.send("GET", "/vault/tokens/"+jane.ID, "SVC-API-KEY", first.key, "")
	if status != http.StatusOK || !strings.Contains(body, `"data":"123-45-6789"`) {
		t.Errorf("payroll sees %d %s", status, body)
	}
	for name, c := range map[string]struct {
		method, path, header, value, body string
		status                            int
	}{
		"not signed in":   {"GET", "/employees/" + jane.ID, "Authorization", "Bearer guess", "", 401},
		"no number":       {"POST", "/employees", "Authorization", staff, `{"name":"Joe","ssn":"12"}`, 400},
		"not an employee": {"POST", "/employees", "Authorization", staff, `[]`, 400},
		"unknown":         {"GET", "/employees/unknown", "Authorization", staff, "", 404},
		"payroll writes":  {"POST", "/vault/tokens", "SVC-API-KEY", first.key, `{"type":"token","data":1}`, 403},
	} {
		if status, body := first.send(c.method, c.path, c.header, c.value, c.body); status != c.status || strings.Contains(body, "-6789") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if _, body := second.send("GET", "/metrics", "Accept", "application/json", ""); !strings.Contains(body, `"GET /tokens/{id} 200": 1`) {
		t.Errorf("metrics: %s", body)
	}
	first.stop()
	second.stop()
}

// TestMiddlewareSeesEveryRequest sends a request that net/http would
// handle itself.
func TestMiddlewareSeesEveryRequest(t *testing.T) {
	t.Parallel()
	n := startNode(t, newConfig(t))
	req := &http.Request{Method: http.MethodOptions, URL: &url.URL{Scheme: "http", Host: strings.TrimPrefix(n.url, "http://"), Opaque: "*"}}
	res := must.Get(http.DefaultClient.Do(req.WithContext(t.Context())))(t)
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest { // the response of the mux
		t.Errorf("OPTIONS *: %d", res.StatusCode)
	}
}

func TestRequiredConfiguration(t *testing.T) {
	t.Parallel()
	for _, cfg := range []config{
		{masterKey: "x", staffToken: "x"}, {db: "x", staffToken: "x"}, {db: "x", masterKey: "x"},
		{db: "postgres://localhost/x", masterKey: "not a key", staffToken: "x"},
	} {
		if err := run(t.Context(), &cfg, io.Discard, io.Discard); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
