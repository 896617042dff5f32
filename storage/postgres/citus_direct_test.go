package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// TestCitusDirect sends creates and reads straight to workers. It is not parallel,
// because its tests move shards and freeze servers.
func TestCitusDirect(t *testing.T) { //nolint:paralleltest // as it says
	if !pgtest.HasCitus() {
		return
	}
	for name, test := range citusDirectTests {
		t.Run(name, test)
	}
}

var citusDirectTests = map[string]func(*testing.T){
	"the suite of all backends": func(t *testing.T) {
		storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
			tb.Helper()
			address, o := distributed(tb)
			o.DirectWorkers = true
			return func(ctx context.Context) (storage.Storage, error) {
				s, err := postgres.OpenSettled(ctx, address, o)
				if err != nil {
					return nil, err
				}
				return s, postgres.AwaitPledge(ctx, s)
			}
		}})
	},
	// Without its confirmation, a statement would be acknowledged although its shard
	// has moved away.
	"pledges are lost while shards move": func(t *testing.T) {
		address, o := onCitus(t)
		if err := postgres.Distribute(t.Context(), with(t, address, shards, "2"), o); err != nil {
			t.Fatal(err)
		}
		o.DirectWorkers = true
		s, db := openAt(t, address, o), database(t, address)
		killed := 0
		load(t, s, time.Second, func() {
			for i := range 20 {
				awaitDirect(t, s, 50)
				killed += killPledges(t, db)
				moveShard(t, db, o.Schema, "block_writes", i%2)
			}
		})
		t.Logf("%d statements went straight to workers, and %d pledges were lost", postgres.Directly(s), killed)
		if killed < 10 {
			t.Error("too few pledges were lost")
		}
	},
	// A query through the coordinator reads the old tables of a shard until its move
	// is committed. It must not count as proof that a write is there.
	"a pledge is lost, and a move takes long": func(t *testing.T) {
		address, o := onCitus(t)
		if err := postgres.Distribute(t.Context(), with(t, address, shards, "1"), o); err != nil {
			t.Fatal(err)
		}
		o.DirectWorkers = true
		s, db, tested := openAt(t, address, o), database(t, address), 0
		for range 10 {
			if err := postgres.AwaitPledge(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			killPledges(t, db)
			if _, err := tx.Exec(moveText, o.Schema+".vault_tokens", "block_writes", 0); err != nil {
				t.Fatal(err)
			}
			before, written := postgres.Directly(s), make(chan error, 1)
			c := sample(newID(), 1)
			go func() { written <- s.Write(t.Context(), c) }()
			<-time.After(300 * time.Millisecond)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			tested += int(postgres.Directly(s) - before)
			if found, err := s.Tokens(t.Context(), c.Tenant, []string{c.InsertTokens[0].ID}); err != nil || len(found) != 1 {
				t.Errorf("%d of 1 acknowledged tokens are there (%v)", len(found), err)
			}
		}
		if tested == 0 {
			t.Error("no write went to a shard that was being moved")
		}
	},
	// The followers do not hold back anything here, so only the number of the pledge
	// keeps them from passing an entry that is not there yet.
	"followers miss no entry": func(t *testing.T) {
		address, o := distributed(t)
		o.DirectWorkers = true
		s, err := postgres.OpenSettled(t.Context(), address, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		tenant := newID()
		follow := storage.LogFollowing{Tenant: tenant, Limit: 100}
		if _, follow.After, err = s.FollowLogs(t.Context(), follow); err != nil {
			t.Fatal(err)
		}
		const callers, each = 4, 500
		var writers sync.WaitGroup
		for range callers {
			writers.Go(func() {
				for range each {
					if err := s.Write(t.Context(), sample(tenant, 1)); err != nil {
						t.Errorf("create: %v", err)
						return
					}
				}
			})
		}
		seen := map[storage.ID]bool{}
		for end := time.Now().Add(time.Minute); len(seen) < callers*each; {
			page, next, err := s.FollowLogs(t.Context(), follow)
			if err != nil || time.Now().After(end) {
				t.Fatalf("followed %d of %d entries (%v)", len(seen), callers*each, err)
			}
			follow.After = next
			for i := range page {
				if seen[page[i].ID] {
					t.Errorf("entry %x came twice", page[i].ID)
				}
				seen[page[i].ID] = true
			}
		}
		writers.Wait()
		if postgres.Directly(s) == 0 {
			t.Error("no statement went straight to a worker")
		}
	},
	"a worker hangs and runs statements late": func(t *testing.T) {
		worker := adopted(t)[1]
		address, o := distributed(t)
		o.DirectWorkers, o.HangTimeout, o.RetryFor = true, time.Second, 2*time.Second
		s := openAt(t, address, o)
		hung, _ := tenantsOf(t, database(t, address), o.Schema, s, 8)
		created := make([][]string, len(hung))
		var frozen atomic.Bool
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for i, tenant := range hung {
			created[i] = []string{tenant.token}
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					c := sample(tenant.id, 1)
					switch err := s.Write(t.Context(), c); {
					case err == nil:
						created[i] = append(created[i], c.InsertTokens[0].ID)
					case !frozen.Load() || !errors.Is(err, storage.ErrUnavailable):
						t.Errorf("create: %v", err)
						return
					}
				}
			})
		}
		for range 3 {
			<-time.After(2 * time.Second)
			frozen.Store(true)
			if err := worker.Freeze(); err != nil {
				t.Skip(err)
			}
			<-time.After(6 * time.Second) // longer than any statement may be late
			if err := worker.Thaw(); err != nil {
				t.Error(err)
			}
		}
		<-time.After(5 * time.Second)
		frozen.Store(false)
		<-time.After(3 * time.Second)
		close(stop)
		writers.Wait()
		for i, tenant := range hung {
			found, err := s.Tokens(t.Context(), tenant.id, created[i])
			if err != nil || len(found) != len(created[i]) {
				t.Errorf("%d of %d acknowledged tokens are there (%v)", len(found), len(created[i]), err)
			}
			_, tokens, listed := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant.id, Limit: 1, Count: true})
			_, entries, logged := s.ListLogs(t.Context(), storage.LogFilter{Tenant: tenant.id, Limit: 1})
			if err := errors.Join(listed, logged); err != nil || tokens != entries {
				t.Errorf("%d tokens, but %d entries (%v)", tokens, entries, err)
			}
		}
		t.Logf("%d statements went straight to workers", postgres.Directly(s))
	},
}
