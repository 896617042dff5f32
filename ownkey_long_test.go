//go:build long

package vault_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestManyTenantKeys reports what 1,000 tenants with their own keys cost a node that
// starts.
func TestManyTenantKeys(t *testing.T) {
	o := newOwned(t)
	o.change = func(c *vault.Config) { c.KeyAge, c.OpenKey = time.Minute, nil }
	v := o.node(t)
	const tenants = 1000
	ids := make([]uuid.UUID, tenants)
	for i := range ids {
		ids[i] = tenantOf(t, v).TenantID()
	}
	v.Close()
	measure := func(what string) {
		began, before := time.Now(), heap()
		v := o.node(t)
		defer v.Close()
		opened, asked := time.Since(began), o.asked()
		began = time.Now()
		for _, id := range ids {
			must.Get(v.Tenant(id).ListTokens(t.Context(), vault.ListTokensParams{}))(t)
		}
		t.Logf("%s: opened in %s; all tenants called in %s with %d calls to their keys; %d kB of heap",
			what, opened.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), o.asked()-asked, (heap()-before)/1024)
	}
	measure("without own keys")
	o.change = func(c *vault.Config) {
		c.KeyAge = time.Minute
		c.OpenKey = func(_ context.Context, uri string) (vault.AEAD, error) { return o.keys[uri], nil }
	}
	v = o.node(t)
	for i, id := range ids {
		uri := fmt.Sprintf("test://%d", i)
		o.keys[uri] = &remoteKey{AEAD: vault.NewKey()}
		must.Do(t, v.SetTenantKey(t.Context(), id, uri))
	}
	v.Close()
	measure("with own keys")
}

// asked returns the number of calls to the keys of tenants.
func (o *owned) asked() (n int64) {
	for _, k := range o.keys {
		n += k.asked.Load()
	}
	return n
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
