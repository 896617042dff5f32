package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestCitusHungWorker freezes a worker under 40 callers. The tenants of the other
// worker must still be served. It is not parallel, because all tests share the
// worker.
func TestCitusHungWorker(t *testing.T) { //nolint:paralleltest // as it says
	if !pgtest.HasCitus() {
		return
	}
	worker := adopted(t)[1]
	address, o := distributed(t)
	o.HangTimeout, o.RetryFor = 2*time.Second, 4*time.Second
	s := openAt(t, address, o)
	hung, well := tenantsOf(t, database(t, address), o.Schema, s, 10)
	var frozen atomic.Bool
	refused, served, stop := callAll(t, s, hung, 40, &frozen), callAll(t, s, well, 4, nil), make(chan struct{})
	defer close(stop)
	for _, c := range []*calls{refused, served} {
		c.start(stop)
	}
	rate := func(d time.Duration) (hung, well float64) {
		h, w := refused.done.Load(), served.done.Load()
		<-time.After(d)
		return float64(refused.done.Load()-h) / d.Seconds(), float64(served.done.Load()-w) / d.Seconds()
	}
	h, w := rate(3 * time.Second)
	t.Logf("before: %.0f calls a second of one worker, %.0f of the other", h, w)
	if err := worker.Freeze(); err != nil {
		t.Skip(err)
	}
	frozen.Store(true)
	thaw := sync.OnceFunc(func() {
		must.Match(t, "Thaw", worker.Thaw(), nil)
	})
	defer thaw()
	for range 4 {
		h, w = rate(3 * time.Second)
		t.Logf("while the first hangs: %.0f and %.0f; it refused %d", h, w, refused.failed.Load())
		if w == 0 {
			t.Error("the tenants of the other worker are not served")
		}
		must.Match(t, "ping", s.Ping(t.Context()), nil)
	}
	if refused.failed.Load() == 0 {
		t.Error("no call of the hung worker failed")
	}
	thaw()
	for end := time.Now().Add(30 * time.Second); ; {
		if h, w = rate(time.Second); h > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the worker is not used again")
		}
	}
	t.Logf("afterwards: %.0f and %.0f", h, w)
}

// tenantsOf creates tenants, each with a token, until there are n on the first
// worker and n on another.
func tenantsOf(t *testing.T, db *sql.DB, schema string, s *postgres.Store, n int) (first, other []tenantOf) {
	t.Helper()
	workers := number(t, db, "SELECT min(groupid) FROM pg_dist_node WHERE groupid > 0 AND isactive")
	for len(first) < n || len(other) < n {
		id := newID()
		worker := number(t, db, `SELECT p.groupid FROM pg_dist_placement p
			WHERE p.shardid = get_shard_id_for_distribution_column($1, $2::bytea)`, schema+".vault_tokens", id[:])
		list := &other
		if worker == workers {
			list = &first
		}
		if len(*list) == n {
			continue
		}
		c := sample(id, 1)
		must.Do(t, s.Write(t.Context(), c))
		*list = append(*list, tenantOf{id, c.InsertTokens[0].ID})
	}
	return first, other
}

// calls are callers that create, read and list tokens of some tenants.
type calls struct {
	t            *testing.T
	s            *postgres.Store
	tenants      []tenantOf
	callers      int
	mayFail      *atomic.Bool // nil if no call may fail
	done, failed atomic.Int64
}

func callAll(t *testing.T, s *postgres.Store, tenants []tenantOf, callers int, mayFail *atomic.Bool) *calls {
	t.Helper()
	return &calls{t: t, s: s, tenants: tenants, callers: callers, mayFail: mayFail}
}

func (c *calls) start(stop chan struct{}) {
	var busy sync.WaitGroup
	c.t.Cleanup(busy.Wait)
	for i := range c.callers {
		busy.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				switch err := c.call(c.tenants[i%len(c.tenants)], n); {
				case err == nil:
					c.done.Add(1)
				case c.mayFail != nil && c.mayFail.Load() && errors.Is(err, storage.ErrUnavailable):
					c.failed.Add(1)
					<-time.After(100 * time.Millisecond) // as a client that tries again
				default:
					c.t.Errorf("call %d: %v", n, err)
					return
				}
			}
		})
	}
}

func (c *calls) call(tenant tenantOf, n int) (err error) {
	ctx := context.Background()
	switch n % 3 {
	case 0:
		err = c.s.Write(ctx, sample(tenant.id, 1))
	case 1:
		_, err = c.s.ReadToken(ctx, storage.Reading{Tenant: tenant.id, ID: tenant.token, Entry: storage.Log{
			ID: newID(), CreatedAt: time.Now(), ActorType: "application", Operation: "read", Message: "Token read",
		}})
	default:
		_, _, err = c.s.ListTokens(ctx, storage.TokenFilter{Tenant: tenant.id, Limit: 1})
	}
	return err
}
