package vaultclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// keysSeen is a server that keeps the API keys of its requests. It responds with 503
// to every second request.
type keysSeen struct {
	mu   sync.Mutex
	keys []string
}

func (s *keysSeen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, r.Header.Get("SVC-API-KEY"))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("SVC-TRACE-ID", "t")
	if len(s.keys)%2 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("[]"))
}

// Options.Key is called for each attempt, also through a proxy.
func TestKeyOfEachRequest(t *testing.T) {
	t.Parallel()
	seen := &keysSeen{}
	srv := httptest.NewServer(seen)
	t.Cleanup(srv.Close)
	n := 0
	c := must.Get(vaultclient.New(srv.URL, "", &vaultclient.Options{
		Retry: vaultclient.Retry{MinDelay: 1, MaxDelay: 1},
		Key: func(context.Context) (string, error) {
			n++
			return "key" + string(rune('0'+n)), nil
		},
	}))(t)
	must.Get(c.ListPermissions(t.Context()))(t)
	_, _ = c.InvokeProxy(t.Context(), vault.ProxyCall{Key: "proxy", Method: http.MethodGet}) // a 503
	must.Same(t, "keys", []string{"key1", "key2", "key3"}, seen.keys)
}

func TestKeyFails(t *testing.T) {
	t.Parallel()
	cause := errors.New("the file is gone")
	for what, key := range map[string]func(context.Context) (string, error){
		"an error":    func(context.Context) (string, error) { return "", cause },
		"no key":      func(context.Context) (string, error) { return "", nil },
		"two lines":   func(context.Context) (string, error) { return "hunter2\nX: y", nil },
		"a long JWT":  func(context.Context) (string, error) { return "id:" + strings.Repeat("x", 8<<10+1), nil },
		"a long key":  func(context.Context) (string, error) { return strings.Repeat("x", 1001), nil },
		"other bytes": func(context.Context) (string, error) { return "schlüssel", nil },
	} {
		c := must.Get(vaultclient.New("http://127.0.0.1:1", "", &vaultclient.Options{Key: key}))(t)
		_, err := c.ListPermissions(t.Context())
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "127.0.0.1") || what == "an error" && !errors.Is(err, cause) {
			t.Errorf("%s: %v", what, err)
		}
		_, proxied := c.InvokeProxy(t.Context(), vault.ProxyCall{Key: "k"})
		must.Same(t, what+", through a proxy", err.Error(), proxied.Error())
	}
	key := func(context.Context) (string, error) { return "k", nil }
	must.Match(t, "two keys", must.Err(vaultclient.New("https://vault.example", "k", &vaultclient.Options{Key: key})), must.Text("two ways"))
	must.Match(t, "anonymous", must.Err(vaultclient.NewAnonymous("https://vault.example", &vaultclient.Options{Key: key})), must.Text("takes no Options.Key"))
}

// The platform replaces the JWT in the file. While it writes, the previous JWT is used.
func TestIdentityFile(t *testing.T) {
	t.Parallel()
	id, file := uuid.New(), filepath.Join(t.TempDir(), "token")
	key := vaultclient.IdentityFile(id, file)
	must.Match(t, "no file", must.Err(key(t.Context())), os.ErrNotExist)
	for _, step := range []struct{ text, want string }{
		{"", ""}, {"not a JWT", ""}, {"a.b.", ""}, {strings.Repeat("a", 8<<10) + ".b.c", ""},
		{"a.b.c\n", "a.b.c"}, {"d.e.f", "d.e.f"}, {"", "d.e.f"}, {"g.h", "d.e.f"}, {"i.j.k\n", "i.j.k"},
	} {
		must.Do(t, os.WriteFile(file, []byte(step.text), 0o600))
		got, err := key(t.Context())
		if step.want == "" {
			must.Match(t, "a file without a JWT", err, must.Text("no JWT"))
			must.Lack(t, "the error", err.Error(), "not a JWT")
			continue
		}
		must.Match(t, "error", err, nil)
		must.Same(t, "key", id.String()+":"+step.want, got)
	}
	must.Do(t, os.Remove(file))
	must.Same(t, "without the file", id.String()+":i.j.k", must.Get(key(t.Context()))(t))
	must.Do(t, os.WriteFile(file, []byte("l.m.n"), 0o600))
	must.Same(t, "an id as text", id.String()+":l.m.n", must.Get(vaultclient.IdentityFile(id.String(), file)(t.Context()))(t))
}
