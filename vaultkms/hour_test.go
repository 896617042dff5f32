package vaultkms

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// rows are the records of tenants, by kind.
type rows map[uuid.UUID]map[string]storage.Record

func (r rows) Records(_ context.Context, tenant storage.ID, kind string, _ []storage.ID) ([]storage.Record, error) {
	return []storage.Record{r[uuid.UUID(tenant)][kind]}, nil
}

func (r rows) Write(context.Context, *storage.Change) error { return nil }

// add adds the ring of a tenant, and a record that it seals. If own is not nil, it is
// the tenant's own key.
func (r rows) add(t *testing.T, master seal.AEAD, ring *seal.Ring, tenant uuid.UUID, own *seal.OwnKey) {
	t.Helper()
	var err error
	if own != nil {
		if ring, err = ring.WithOwn(own); err != nil {
			t.Fatal(err)
		}
	}
	wrapped := must.Get(keyring.Wrap(t.Context(), master, ring, storage.ID(tenant)))(t)
	rec := storage.Record{Kind: keyring.KindTenant, ID: storage.ID(tenant), KeyVersion: ring.Version()}
	location := seal.RecordLocation(&rec)
	location.Tenant = tenant
	if rec.Body, err = ring.Seal(&location, nil); err != nil {
		t.Fatal(err)
	}
	r[tenant] = map[string]storage.Record{keyring.KindTenant: rec, keyring.KindRing: {Kind: keyring.KindRing, ID: storage.ID(tenant), Body: wrapped}}
}

// A node calls the service of each key twice per age of keys and once at its start,
// however many tenants use the key.
func TestCallsOfAnHour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tenants, keys int // keys of tenants
	}{{1, 0}, {10_000, 0}, {1000, 1000}} {
		t.Run(fmt.Sprintf("%d tenants with %d keys", c.tenants, c.keys), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { callsOfAnHour(t, c.tenants, c.keys) })
		})
	}
}

func callsOfAnHour(t *testing.T, tenants, keys int) {
	t.Helper()
	var service counted
	open := func(context.Context, string) (seal.AEAD, error) { return newEnvelope(service.call), nil }
	store, first := rows{}, newEnvelope(service.call)
	ring := must.Get(seal.NewRing(time.Now()))(t)
	store.add(t, first, ring, uuid.UUID{}, nil)
	for i := range tenants {
		var own *seal.OwnKey
		if i < keys {
			own = &seal.OwnKey{URI: fmt.Sprint(i), AEAD: newEnvelope(service.call)}
		}
		store.add(t, first, ring, uuid.New(), own)
	}
	var cache *keyring.Cache[string]
	master := newEnvelope(service.call) // of a node that starts now
	logger, age, grace := slog.New(slog.DiscardHandler), time.Minute, 5*time.Minute
	watch := keyring.NewWatch(keyring.WatchConfig{
		Age: age, Grace: grace, Now: time.Now, Logger: logger, Drop: func() {},
		Check:   (&keyring.Check{Store: store, Master: master, Now: time.Now}).Holds,
		Changed: func(context.Context, keyring.KeyChange) error { return nil },
	})
	own := keyring.NewOwnKeys(keyring.OwnConfig{
		Open: open, Age: age, Grace: grace, Now: time.Now, Logger: logger, Drop: func([]uuid.UUID) {},
		Changed: func(context.Context, []uuid.UUID, keyring.KeyChange) error { return nil },
	})
	defer own.Close()
	cache = keyring.New(keyring.Config[string]{
		Store: store, Master: master, Age: time.Second, Usable: watch.Usable, Own: own,
		Bad:    func(_ context.Context, _ uuid.UUID, _ string, _ bool, err error) error { return err },
		Decode: func(*storage.Record, []byte) (string, error) { return "", nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go watch.Run(ctx)
	service.calls.Store(0)
	for range 2 {
		for tenant := range store {
			if _, err := cache.Get(ctx, tenant); err != nil && tenant != (uuid.UUID{}) {
				t.Fatal(err)
			}
		}
		<-time.After(30 * time.Minute)
	}
	const perKey = 1 + 120
	t.Logf("%d tenants with %d keys of their own: %d calls in an hour", tenants, keys, service.calls.Load())
	if got, most := service.calls.Load(), int64(1+keys)*perKey; got > most {
		t.Errorf("%d calls, want at most %d", got, most)
	}
}
