package httpserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// customerKey is the key of a customer, who can take it away.
type customerKey struct {
	vault.AEAD
	denied atomic.Bool
}

func (k *customerKey) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if k.denied.Load() {
		return nil, vault.ErrKeyDenied
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

// A tenant reads the state of its key, and cannot change the key. While the key is
// denied, the tenant, the log and the evidence respond, and other routes are a 503.
func TestTenantWithItsOwnKey(t *testing.T) {
	t.Parallel()
	key := &customerKey{AEAD: vault.NewKey()}
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{
		KeyAge: 20 * time.Millisecond, Evidence: &vault.EvidenceConfig{},
		OpenKey: func(context.Context, string) (vault.AEAD, error) { return key, nil },
	}), nil)
	self := func() map[string]any { return w.do("GET", "/tenants/self", w.ManagementKey, "").want(t, 200).decode(t) }
	if shown, ok := self()["key"]; ok {
		t.Errorf("a tenant without its own key has the key %v", shown)
	}
	token := w.create(card)
	must.Do(t, w.SetTenantKey(t.Context(), w.Acme.ID, "test://k?token=hunter2"))
	want := map[string]any{"uri": "test://k?token=xxxxx", "state": "ok", "checked_at": vaulttest.Start.Format(time.RFC3339)}
	before := self()
	if diff := cmp.Diff(any(want), before["key"]); diff != "" || before["webhook_secret"] == nil {
		t.Errorf("the key (-want +got):\n%s", diff)
	}
	w.do("PUT", "/tenants/self", w.ManagementKey, `{"name":"Acme","key":{"uri":"test://other"}}`).want(t, 200)
	same(t, "the key after a PUT", self()["key"], any(want))

	key.denied.Store(true)
	for w.TenantKeyStates()[vault.TenantKeyDenied] != 1 {
		<-time.After(5 * time.Millisecond)
	}
	want["state"] = "denied"
	denied := self()
	if diff := cmp.Diff(any(want), denied["key"]); diff != "" || denied["webhook_secret"] != nil {
		t.Errorf("the denied key (-want +got):\n%s", diff)
	}
	for _, path := range []string{"/logs", "/logs/checkpoint", "/logs/consistency?from=1"} {
		w.do("GET", path, w.ManagementKey, "").want(t, 200)
	}
	for _, call := range [][4]string{
		{"GET", "/tokens/" + token, w.PrivateKey}, {"POST", "/tokens", w.PrivateKey, card}, {"DELETE", "/tokens/" + token, w.PrivateKey},
		{"POST", "/tokens/erase", w.PrivateKey, `{"ids":["` + token + `"],"reason":"case 1"}`},
		{"GET", "/reactors", w.ManagementKey}, {"PUT", "/tenants/self", w.ManagementKey, `{"name":"x"}`},
	} {
		res := w.do(call[0], call[1], call[2], call[3])
		if got := res.wantError(t, 503)["detail"]; got != "The key of this tenant is not available." || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %v, %v", call[0], call[1], got, res.Header)
		}
	}
}

// While the node may not use the master key, /readyz is a 503, unless the program says
// otherwise. The probe does not call the key, and a tenant's own key does not count.
func TestReadyWithoutTheMasterKey(t *testing.T) {
	t.Parallel()
	key := &switched{AEAD: vault.NewKey()}
	open := func(age time.Duration) (*vault.Vault, func(*Options) int) {
		store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
		v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{KeyAge: age, KeyGrace: time.Hour}))(t)
		t.Cleanup(func() { must.Do(t, v.Close()) })
		return v, func(opts *Options) int {
			w := httptest.NewRecorder()
			Handler(v, opts).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			return w.Code
		}
	}
	_, probe := open(time.Hour)
	calls := key.calls.Load()
	for range 10 {
		must.Same(t, "a probe", http.StatusOK, probe(nil))
	}
	must.Same(t, "calls of the key by probes", calls, key.calls.Load())

	v, status := open(20 * time.Millisecond)
	must.Same(t, "before", http.StatusOK, status(nil))
	key.denied.Store(true)
	for v.KeyUsable() == nil {
		<-time.After(5 * time.Millisecond)
	}
	must.Same(t, "denied", http.StatusServiceUnavailable, status(nil))
	must.Same(t, "denied, and ready without the key", http.StatusOK, status(&Options{ReadyWithoutKey: true}))
	key.denied.Store(false)
	for v.KeyUsable() != nil {
		<-time.After(5 * time.Millisecond)
	}
	must.Same(t, "after", http.StatusOK, status(nil))
}

// switched is a master key whose holder may deny its use.
type switched struct {
	vault.AEAD
	denied atomic.Bool
	calls  atomic.Int64
}

func (k *switched) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	k.calls.Add(1)
	return k.AEAD.Encrypt(plaintext, associatedData)
}

func (k *switched) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	k.calls.Add(1)
	if k.denied.Load() {
		return nil, vault.ErrKeyDenied
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}
