package hashivault

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// fake is the transit engine. A ciphertext has the path of the key.
type fake struct {
	mu     sync.Mutex
	status int // 0: it works
	body   string
}

func (f *fake) set(status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.body = status, body
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.status != 0 {
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
		return
	}
	var in map[string]string
	_ = json.NewDecoder(r.Body).Decode(&in)
	path := strings.Split(r.URL.Path, "/") // /v1/ENGINE/OP/KEY
	mark := "vault:v1:" + path[2] + "." + path[4] + ":"
	switch {
	case path[3] == "encrypt":
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"ciphertext": mark + in["plaintext"]}})
	case !strings.HasPrefix(in["ciphertext"], mark):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"errors": ["invalid ciphertext"]}`)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"plaintext": strings.TrimPrefix(in["ciphertext"], mark)}})
	}
}

func TestTransit(t *testing.T) {
	f := &fake{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"VAULT_SERVER_URL": server.URL, "VAULT_TOKEN": "x", "VAULT_MAX_RETRIES": "0"} {
		t.Setenv(name, value)
	}
	key := must.Get(Open(t.Context(), "hashivault://vault", nil))(t)
	sealed := must.Get(key.Encrypt([]byte("root"), nil))(t)
	must.Same(t, "opened", "root", string(must.Get(key.Decrypt(sealed, nil))(t)))
	for _, uri := range []string{"hashivault://other", "hashivault://vault?engine=second"} {
		foreign := must.Get(must.Get(Open(t.Context(), uri, nil))(t).Encrypt([]byte("root"), nil))(t)
		must.Fail(key.Decrypt(foreign, nil))(t, "a ciphertext of "+uri, must.Text("invalid ciphertext"))
	}
	for body, a := range map[string]struct {
		status int
		denied bool
	}{
		`{"errors": ["permission denied"]}`:        {403, true},
		`{"errors": []}`:                           {404, true},
		`{"errors": ["encryption key not found"]}`: {400, true},
		`{"errors": ["ciphertext or signature version is disallowed by policy (too old)"]}`: {400, true},
		`{"errors": ["Vault is sealed"]}`:    {503, false},
		`{"errors": ["invalid ciphertext"]}`: {400, false},
		`{"data": {}}`:                       {200, false},
	} {
		f.set(a.status, body)
		if _, err := key.Decrypt(sealed, nil); err == nil || errors.Is(err, vault.ErrKeyDenied) != a.denied {
			t.Errorf("%s: %v, want a denial: %v", body, err, a.denied)
		}
	}
	for n, want := range map[int]bool{92: false, 104: false, 250: true, 255: true, 256: true, 384: true, 512: true} {
		text := "vault:v1:" + base64.StdEncoding.EncodeToString(make([]byte, n))
		must.Same(t, "public", want, key.Public([]byte(text)))
	}
	must.Same(t, "public", true, key.Public([]byte("\x00\x01"))) // it has no form that is known
}
