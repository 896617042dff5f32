package azurekeyvault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/security/keyvault/azkeys"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// fake responds like Azure Key Vault, which requires a token with a challenge, as the
// documentation of its REST API says. The ciphertext is the plaintext.
type fake struct {
	mu      sync.Mutex
	status  int // 0: it works
	body    string
	version string // the newest one
}

func (f *fake) set(status int, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.body = status, body
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer token" {
		w.Header().Set("WWW-Authenticate", `Bearer authorization="https://login.example/tenant", resource="https://vault.azure.net"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.status != 0 {
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
		return
	}
	var in map[string]string
	_ = json.NewDecoder(r.Body).Decode(&in)
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/keys/k"), "/") // VERSION, which may be missing, and OP
	version, op := strings.Join(path[:len(path)-1], ""), path[len(path)-1]
	if op == "decrypt" && version != "1" || in["alg"] != "RSA-OAEP-256" || r.URL.Query().Get("api-version") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kid": "https://acme.vault.azure.net/keys/k/" + f.version, "value": in["value"]})
}

type token struct{}

func (token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func TestAzure(t *testing.T) {
	t.Parallel()
	f := &fake{version: "1"}
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	client := must.Get(azkeys.NewClient(server.URL, token{}, &azkeys.ClientOptions{
		DisableChallengeResourceVerification: true,
		ClientOptions:                        policy.ClientOptions{Transport: server.Client(), Retry: policy.RetryOptions{MaxRetries: -1}},
	}))(t)
	open := func(uri string) (vault.AEAD, error) { return Open(t.Context(), uri, &Options{Client: client}) }
	key := must.Get(open("azurekeyvault://acme.vault.azure.net/keys/k?root=abc"))(t)
	pinned := key.(vault.PinnedKey)
	if !pinned.Public(nil) || pinned.Root() != "abc" {
		t.Errorf("public %v, root %s", pinned.Public(nil), pinned.Root())
	}
	sealed := must.Get(key.Encrypt([]byte("root"), nil))(t)
	f.version = "2" // the key is rotated
	must.Same(t, "opened", "root", string(must.Get(key.Decrypt(sealed, nil))(t)))
	must.Fail(must.Get(open("azurekeyvault://acme.vault.azure.net/keys/k/2"))(t).Decrypt(sealed, nil))(t, "another version", errFormat)
	for _, answer := range []struct {
		status int
		code   string
		denied bool
	}{
		{http.StatusForbidden, "Forbidden", true},
		{http.StatusNotFound, "KeyNotFound", true},
		{http.StatusTooManyRequests, "Throttled", false},
		{http.StatusInternalServerError, "InternalServerError", false},
		{http.StatusServiceUnavailable, "ServiceUnavailable", false},
	} {
		f.set(answer.status, fmt.Sprintf(`{"error": {"code": %q, "message": "no"}}`, answer.code))
		if _, err := key.Decrypt(sealed, nil); err == nil || errors.Is(err, vault.ErrKeyDenied) != answer.denied {
			t.Errorf("%s: %v, want a denial: %v", answer.code, err, answer.denied)
		}
		f.set(0, "")
	}
	server.Close()
	if _, err := key.Decrypt(sealed, nil); err == nil || errors.Is(err, vault.ErrKeyDenied) {
		t.Errorf("no connection: %v", err)
	}
	for _, uri := range []string{"azurekeyvault://acme.vault.azure.net/k", "azurekeyvault://acme.vault.azure.net/keys/", "azurekeyvault://example.com/keys/k"} {
		must.Fail(open(uri))(t, uri, must.Text("NAME.vault.azure.net"))
	}
}
