package console_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
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

// The page of a tenant shows its own key. If the key is denied, this page and the pages
// about all tenants still work.
func TestTenantWithItsOwnKey(t *testing.T) {
	t.Parallel()
	key := &customerKey{AEAD: vault.NewKey()}
	w := newConsoleVaultOn(t, jsruntime.NewInProcess(nil), func(c *vault.Config) {
		c.KeyAge = 20 * time.Millisecond
		c.OpenKey = func(context.Context, string) (vault.AEAD, error) { return key, nil }
	})
	must.Do(t, w.Vault.SetTenantKey(t.Context(), w.Owner.TenantID(), "test://k?token=hunter2"))
	v := w.as("owner")
	for _, state := range []vault.TenantKeyState{vault.TenantKeyOK, vault.TenantKeyDenied} {
		key.denied.Store(state == vault.TenantKeyDenied)
		for w.Vault.TenantKeyStates()[state] != 1 {
			<-time.After(10 * time.Millisecond)
		}
		for _, path := range []string{"", "tenants", "tenants/" + w.Owner.TenantID().String()} {
			status, body := v.get(w.console(path))
			shown := strings.Contains(body, "test://k?token=xxxxx") && strings.Contains(body, ">"+string(state)+"<")
			if status != http.StatusOK || shown != strings.HasPrefix(path, "tenants/") || strings.Contains(body, "hunter2") {
				t.Errorf("%s: the page %q is a %d and shows the key: %v", state, path, status, shown)
			}
		}
	}
}
