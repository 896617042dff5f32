package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // another driver that applications use

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// TestTxStorage runs every chapter through one driver. The other driver differs
// only in how it sends parameters and reads rows.
func TestTxStorage(t *testing.T) {
	t.Parallel()
	chapters := map[string][]string{}
	if !long.Run {
		chapters["pgx"] = []string{"Model"}
	}
	for _, driver := range []string{"postgres", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			storagetest.RunTx(t, storagetest.TxBackend{New: func(tb testing.TB) (storagetest.Opener, storagetest.Begin) {
				address := postgres.Vaults.URL(tb)
				open := func(ctx context.Context) (storage.Storage, error) {
					return postgres.OpenOptions(ctx, address, &postgres.Options{MaxConns: 6})
				}
				return open, storagetest.BeginOn(application(tb, driver, address))
			}, Others: func(tb testing.TB) map[string]storagetest.Begin { return others(tb, driver) }, Chapters: chapters[driver]})
		})
	}
}

// others returns databases that are not the vault's. The second has a vault in
// a schema of the same name.
func others(tb testing.TB, driver string) map[string]storagetest.Begin {
	tb.Helper()
	address := pgtest.URL(tb)
	all := map[string]storagetest.Begin{}
	for _, name := range []string{"empty", "another vault"} {
		db := database(tb, address)
		var own string
		must.Do(tb, db.QueryRow("SELECT current_schema() || '_"+name[:5]+"'").Scan(&own))
		must.Get(db.Exec(`CREATE DATABASE "` + own + `"`))(tb)
		tb.Cleanup(func() {
			must.Match(tb, "Exec", must.Err(db.Exec(`DROP DATABASE "`+own+`" WITH (FORCE)`)), nil)
		})
		u := must.Get(url.Parse(address))(tb)
		u.Path = "/" + own
		if name != "empty" {
			s, err := postgres.OpenOptions(tb.Context(), u.String(), &postgres.Options{Schema: strings.TrimSuffix(own, "_"+name[:5])})
			if err != nil || s.Close() != nil {
				tb.Fatal(err)
			}
		}
		all[name] = storagetest.BeginOn(application(tb, driver, u.String()))
	}
	return all
}

// TestTxWithOtherConnectionSettings writes parameters of every kind on connections that
// send them in other ways.
func TestTxWithOtherConnectionSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ driver, parameter, value string }{
		"lib/pq, binary":   {"postgres", "binary_parameters", "yes"},
		"pgx, unprepared":  {"pgx", "default_query_exec_mode", "exec"},
		"pgx, other path":  {"pgx", "search_path", "pg_catalog"},
		"pgx, simple":      {"pgx", "default_query_exec_mode", "simple_protocol"},
		"lib/pq, bytea":    {"postgres", "bytea_output", "escape"},
		"lib/pq, standard": {"postgres", "application_name", `o'brien`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := postgres.Vaults.URL(t)
			s := openAt(t, address, nil)
			tx := must.Get(application(t, c.driver, with(t, address, c.parameter, c.value)).Begin())(t)
			in := must.Get(s.InTx(t.Context(), tx))(t)
			tenant := newID()
			one, many := sample(tenant, 1), sample(tenant, 3)
			many.InsertTokens[1].ID = `a"\{},\' NULL`
			many.InsertRecords = []storage.Record{{Kind: "application", ID: newID(), Name: "It's", Key: storage.Key{1}, Body: []byte{0, 255}, CreatedAt: many.Now, Rev: 1}}
			many.InsertJobs = []storage.Job{{ID: newID(), Kind: "a", RunAt: many.Now, Dead: true}, {ID: newID(), Kind: "b", RunAt: many.Now}}
			for _, change := range []*storage.Change{one, many} {
				must.Do(t, in.Write(t.Context(), change))
			}
			var conflict *storage.Conflict
			if err := in.Write(t.Context(), many); !errors.As(err, &conflict) || conflict.Kind != storage.TokenIDTaken {
				t.Errorf("the same again: got %v", err)
			}
			want := many.InsertTokens[1]
			found, err := in.Tokens(t.Context(), tenant, []string{want.ID, one.InsertTokens[0].ID})
			if err != nil || len(found) != 2 || !slices.ContainsFunc(found, func(t storage.Token) bool { return t.ID == want.ID && bytes.Equal(t.Body, want.Body) }) {
				t.Errorf("got %d tokens (%v), want 2 as they were written", len(found), err)
			}
			if r, err := in.Lookup(t.Context(), storage.Key{1}); err != nil || r.Name != "It's" || !bytes.Equal(r.Body, []byte{0, 255}) {
				t.Errorf("got record %q (%v)", r.Name, err)
			}
			must.Do(t, tx.Commit())
			if _, total, err := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant, Limit: 1, Count: true}); err != nil || total != 4 {
				t.Errorf("%d tokens after the commit (%v), want 4", total, err)
			}
		})
	}
}

// TestTxConflictKeepsTheDriverError checks that the application gets its own driver's error
// for a conflict between transactions.
func TestTxConflictKeepsTheDriverError(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenant := openAt(t, address, nil), newID()
	c := sample(tenant, 1)
	must.Do(t, s.Write(t.Context(), c))
	token := c.InsertTokens[0]
	for _, driver := range []string{"postgres", "pgx"} {
		tx := must.Get(application(t, driver, address).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead}))(t)
		in := must.Get(s.InTx(t.Context(), tx))(t)
		if _, err := in.Tokens(t.Context(), tenant, []string{token.ID}); err != nil { // its snapshot starts here
			t.Fatal(err)
		}
		update := &storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{{Rev: token.Rev, OldSet: token.Set, Token: token}}}
		must.Do(t, s.Write(t.Context(), update))
		err := in.Write(t.Context(), update)
		var state interface{ SQLState() string }
		if !errors.As(err, &state) || state.SQLState() != "40001" {
			t.Errorf("%s: got %v, want an error of the driver with SQLSTATE 40001", driver, err)
		}
		token.Rev++
		must.Do(t, tx.Rollback())
	}
}

// TestLockedChangesDoNotBlockOthers makes a batch of creates meet an id that an open
// transaction holds. Only the creates that want the id wait.
func TestLockedChangesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenant := openAt(t, address, &postgres.Options{MaxConns: 4, RetryFor: time.Hour}), newID()
	tx := must.Get(application(t, "postgres", address).Begin())(t)
	in := must.Get(s.InTx(t.Context(), tx))(t)
	taken := sample(tenant, 1)
	must.Do(t, in.Write(t.Context(), taken))
	waiting := make(chan error, 8)
	for range cap(waiting) {
		go func() {
			c := sample(tenant, 1)
			c.InsertTokens[0].ID = taken.InsertTokens[0].ID
			waiting <- s.Write(t.Context(), c)
		}()
	}
	var strangers sync.WaitGroup
	for range 16 {
		strangers.Go(func() {
			for range 10 {
				must.Match(t, "Write", s.Write(t.Context(), sample(tenant, 1)), nil)
			}
		})
	}
	strangers.Wait()
	if len(waiting) > 0 {
		t.Errorf("%d changes that want the id did not wait", len(waiting))
	}
	must.Do(t, tx.Commit())
	for range cap(waiting) {
		var conflict *storage.Conflict
		if err := <-waiting; !errors.As(err, &conflict) || conflict.Kind != storage.TokenIDTaken {
			t.Errorf("after the commit: got %v, want a taken id", err)
		}
	}
}

// TestOtherWritersDoNotWaitForATransaction creates tokens beside an open transaction that has
// also created some. They belong to another tenant, to the same tenant and set
// of containers, and to a set that both use for the first time. None of them
// meets a lock.
func TestOtherWritersDoNotWaitForATransaction(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, own, other := openAt(t, address, nil), newID(), newID()
	must.Do(t, s.Write(t.Context(), sample(own, 1)))
	tx := must.Get(application(t, "postgres", address).Begin())(t)
	defer func() { _ = tx.Rollback() }()
	in := must.Get(s.InTx(t.Context(), tx))(t)
	for i := range byte(5) {
		mine, first := sample(own, 1), sample(own, 1)
		mine.InsertTokens[0].Set, first.InsertTokens[0].Set = storage.Hash{7, i}, storage.Hash{7, i}
		for _, c := range []*storage.Change{mine, sample(own, 1)} {
			must.Do(t, in.Write(t.Context(), c))
		}
		for what, c := range map[string]*storage.Change{"first of a set": first, "same set": sample(own, 1), "other tenant": sample(other, 1)} {
			if err := s.Write(storage.NoWait(t.Context()), c); err != nil { // a lock would be an error at once
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestChangeGivesUpOnALastingLock checks that a change gives up when its caller stops
// waiting.
func TestChangeGivesUpOnALastingLock(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenant := openAt(t, address, nil), newID()
	tx := must.Get(application(t, "postgres", address).Begin())(t)
	defer func() { _ = tx.Rollback() }()
	in := must.Get(s.InTx(t.Context(), tx))(t)
	c := sample(tenant, 1)
	must.Do(t, in.Write(t.Context(), c))
	must.Match(t, "a locked id", s.Write(storage.NoWait(t.Context()), c), storage.ErrUnavailable)
}

// TestCountsOfTransactionsAreMerged checks that the rows that transactions add to counts and sets are
// merged automatically after a while, and by a sweep.
func TestCountsOfTransactionsAreMerged(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	s, tenant, db := openAt(t, address, nil), newID(), database(t, address)
	app := application(t, "postgres", address)
	for range 3 {
		tx := must.Get(app.Begin())(t)
		in := must.Get(s.InTx(t.Context(), tx))(t)
		must.Do(t, in.Write(t.Context(), sample(tenant, 2)))
		must.Do(t, tx.Commit())
	}
	apart := func() int {
		return number(t, db, "SELECT count(*) FROM vault_token_counts WHERE shard < 0") + number(t, db, "SELECT count(*) FROM vault_container_sets WHERE shard < 0")
	}
	must.Same(t, "separate rows", 4, apart())
	must.Get(s.Sweep(t.Context(), time.Now(), 10))(t)
	must.Same(t, "rows are still separate after a sweep", 0, apart())
	must.Same(t, "the counts say", 6, number(t, db, "SELECT sum(n) FROM vault_token_counts"))
	must.Same(t, "container sets", 1, number(t, db, "SELECT count(*) FROM vault_container_sets"))
}

// application opens a database as an application does.
func application(tb testing.TB, driver, address string) *sql.DB {
	tb.Helper()
	db := must.Get(sql.Open(driver, address))(tb)
	db.SetMaxOpenConns(4)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
