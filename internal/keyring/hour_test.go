package keyring

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// counted is a key that counts its calls for all keys of a test.
type counted struct {
	seal.AEAD
	calls *atomic.Int64
}

func (c counted) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	c.calls.Add(1)
	return c.AEAD.Decrypt(ciphertext, associatedData)
}

// rows are the records of tenants.
type rows map[uuid.UUID]map[string]storage.Record

func (r rows) Records(_ context.Context, tenant storage.ID, kind string, _ []storage.ID) ([]storage.Record, error) {
	return []storage.Record{r[uuid.UUID(tenant)][kind]}, nil
}

// add adds the ring of a tenant, and a record that it seals.
func (r rows) add(t *testing.T, root seal.AEAD, ring *seal.Ring, tenant uuid.UUID) {
	t.Helper()
	rec := storage.Record{Kind: KindTenant, ID: storage.ID(tenant), KeyVersion: ring.Version()}
	location := seal.RecordLocation(&rec)
	location.Tenant = tenant
	rec.Body = must.Get(ring.Seal(&location, nil))(t)
	r[tenant] = map[string]storage.Record{KindTenant: rec, KindRing: {Kind: KindRing, ID: storage.ID(tenant), Body: must.Get(ring.Wrap(root, tenant))(t)}}
}

// A node calls the service of each key twice per age of keys and once at its start,
// however many tenants use the key.
func TestCallsOfAnHour(t *testing.T) {
	t.Parallel()
	many := long.Rounds(1000, 10_000)
	for _, c := range []struct {
		tenants, keys int // keys of tenants
	}{{1, 0}, {many, 0}, {many / 10, many / 10}} {
		t.Run(fmt.Sprintf("%d tenants with %d keys", c.tenants, c.keys), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { callsOfAnHour(t, c.tenants, c.keys) })
		})
	}
}

func callsOfAnHour(t *testing.T, tenants, keys int) {
	t.Helper()
	var calls atomic.Int64
	key := counted{newAEAD(t), &calls}
	db := &database{}
	db.open(t, key)
	calls.Store(0)
	root := db.open(t, key) // of a node that starts now
	logger, age, grace := slog.New(slog.DiscardHandler), time.Minute, 5*time.Minute
	watch := NewWatch(WatchConfig{
		Age: age, Grace: grace, Now: time.Now, Logger: logger, Drop: func() {}, Check: root.Holds,
		Changed: func(context.Context, KeyChange) error { return nil },
	})
	own := NewOwnKeys(OwnConfig{
		Open: func(context.Context, string) (seal.AEAD, error) { return key, nil },
		Age:  age, Grace: grace, Now: time.Now, Logger: logger, Drop: func([]uuid.UUID) {},
		Changed: func(context.Context, []uuid.UUID, KeyChange) error { return nil },
	})
	defer own.Close()
	started, store, ring := calls.Load(), rows{}, must.Get(seal.NewRing(time.Now()))(t)
	for i := range tenants {
		tenant, wrapped := uuid.New(), ring
		if i < keys {
			wrapped = must.Get(ring.WithOwn(must.Get(own.Make(t.Context(), tenant, fmt.Sprint(i)))(t)))(t)
		}
		store.add(t, root, wrapped, tenant)
	}
	calls.Store(started)
	cache := New(Config[string]{
		Store: store, Root: root, Age: time.Second, Usable: watch.Usable, Own: own,
		Bad:    func(_ context.Context, _ uuid.UUID, _ string, _ bool, err error) error { return err },
		Decode: func(*storage.Record, []byte) (string, error) { return "", nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go watch.Run(ctx)
	for range 2 {
		for tenant := range store {
			must.Get(cache.Get(ctx, tenant))(t)
		}
		<-time.After(30 * time.Minute)
	}
	// The first check of a tenant's key and its first use are one call each.
	t.Logf("%d tenants with %d keys of their own: %d calls in an hour", tenants, keys, calls.Load())
	if got, most := calls.Load(), int64(1+120+keys*(2+120)); got > most {
		t.Errorf("%d calls, want at most %d", got, most)
	}
}
