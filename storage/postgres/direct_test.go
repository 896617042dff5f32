package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/long"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// pretended is a server with the tables and functions of Citus that direct
// statements need. It is its own worker. The tables of a shard are views.
type pretended struct {
	*pgtest.Cluster
	db    *sql.DB
	host  string
	shard atomic.Int64 // id of the last shard
}

func pretend(t *testing.T) *pretended {
	t.Helper()
	server, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &pretended{Cluster: server, db: database(t, server.URL)}
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.host = u.Query().Get("host")
	run(t, p.db, `SET allow_system_table_mods = on;
		CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text);
		CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, groupid int);
		CREATE TABLE pg_catalog.pg_dist_node (groupid int, nodename text, nodeport int, noderole text);
		INSERT INTO pg_catalog.pg_dist_node VALUES (1, '`+p.host+`', 5432, 'primary');
		CREATE FUNCTION pg_catalog.worker_hash(bytea) RETURNS int LANGUAGE sql AS 'SELECT `+strconv.Itoa(int(postgres.SampleHash))+`';
		CREATE FUNCTION pg_catalog.run_command_on_workers(text) RETURNS TABLE (nodename text, nodeport int, success bool, result text) LANGUAGE sql
			AS 'SELECT nodename, nodeport, true, system_identifier::text FROM pg_dist_node, pg_control_system()';
		CREATE FUNCTION pg_catalog.lock_shard_metadata(int, bigint[]) RETURNS void LANGUAGE sql
			AS 'SELECT pg_advisory_xact_lock_shared(s) FROM unnest($2) s'`)
	return p
}

// vault creates the tables of a vault, with two shards.
func (p *pretended) vault(tb testing.TB) (schema string) {
	tb.Helper()
	id := newID()
	schema = fmt.Sprintf("v%x", id[:])
	if _, err := postgres.OpenOptions(tb.Context(), p.URL, &postgres.Options{Schema: schema, Migrate: storage.MigrateOnly}); err != nil {
		tb.Fatal(err)
	}
	p.place(tb, schema)
	return schema
}

// place creates new shards of a vault. Tables of the old ones lead nowhere from then
// on, as after a move.
func (p *pretended) place(tb testing.TB, schema string) {
	tb.Helper()
	tx, err := p.db.Begin()
	if err != nil {
		tb.Fatal(err)
	}
	exec := func(format string, args ...any) {
		if _, err := tx.Exec(fmt.Sprintf(format, args...)); err != nil {
			tb.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
		}
	}
	exec(`SELECT pg_advisory_xact_lock(shardid) FROM pg_dist_shard s JOIN pg_class c ON c.oid = s.logicalrelid
		WHERE c.relnamespace = '%s'::regnamespace AND c.relname = 'vault_tokens' ORDER BY shardid`, schema)
	for _, table := range postgres.WrittenDirectly {
		name := schema + "." + table
		var old pq.Int64Array
		if err := tx.QueryRow("SELECT array_agg(shardid) FROM pg_dist_shard WHERE logicalrelid = $1::regclass", name).Scan(&old); err != nil {
			tb.Fatal(err)
		}
		for _, id := range old {
			exec("CREATE TABLE %s_old_%d (LIKE %s INCLUDING ALL)", name, id, name)
			exec("CREATE OR REPLACE VIEW %s_%d AS SELECT * FROM %s_old_%d", name, id, name, id)
			exec("DELETE FROM pg_dist_shard WHERE shardid = %d", id)
		}
		for _, first := range []int{-1 << 31, 0} {
			id := p.shard.Add(1)
			exec("CREATE VIEW %s_%d AS SELECT * FROM %s", name, id, name)
			exec("INSERT INTO pg_dist_shard VALUES ('%s', %d, '%d'); INSERT INTO pg_dist_placement VALUES (%d, 1)", name, id, first, id)
		}
	}
	if err := tx.Commit(); err != nil {
		tb.Fatal(err)
	}
}

// open opens a vault and waits until it has a pledge.
func (p *pretended) open(tb testing.TB, schema string) *postgres.Store {
	tb.Helper()
	s, err := postgres.OpenDirect(tb.Context(), p.URL, &postgres.Options{Schema: schema, MaxConns: 8})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := postgres.AwaitPledge(tb.Context(), s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// killPledges ends the sessions of pledges and returns how many there were.
func killPledges(t *testing.T, db *sql.DB) int {
	t.Helper()
	return number(t, db, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE state = 'idle in transaction' AND query IN ('SELECT', $1)`, postgres.PledgedText)
}

// awaitDirect waits until some more statements have gone straight to workers.
func awaitDirect(t *testing.T, s *postgres.Store, more int64) {
	t.Helper()
	for before := postgres.Directly(s); postgres.Directly(s) < before+more; {
		select {
		case <-t.Context().Done():
			t.Fatal("no statements go straight to workers")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestDirect(t *testing.T) {
	t.Parallel()
	p := pretend(t)
	t.Run("Storage", func(t *testing.T) {
		t.Parallel()
		var sent atomic.Int64
		var chapters []string
		if !long.Run { // the others use the same statements
			chapters = []string{"Conflicts", "Atomic", "Follow", "ReadLogger", "Claims", "Model", "Parallel"}
		}
		t.Cleanup(func() {
			if n := sent.Load(); n < 100 {
				t.Errorf("only %d statements went straight to workers", n)
			}
		})
		storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
			schema := p.vault(tb)
			return func(ctx context.Context) (storage.Storage, error) {
				s, err := postgres.OpenDirect(ctx, p.URL, &postgres.Options{Schema: schema, MaxConns: 6, Migrate: storage.MigrateCheck})
				if err != nil {
					return nil, err
				}
				tb.Cleanup(func() { sent.Add(postgres.Directly(s)) })
				return s, postgres.AwaitPledge(ctx, s)
			}
		}, Chapters: chapters})
	})
	// Without its confirmation, a statement would be acknowledged although its shard
	// has moved away.
	t.Run("pledges are lost while shards move", func(t *testing.T) {
		t.Parallel()
		schema := p.vault(t)
		s := p.open(t, schema)
		load(t, s, 0, func() {
			for range 4 {
				awaitDirect(t, s, 20)
				killPledges(t, p.db)
				p.place(t, schema)
			}
		})
	})
	t.Run("connections to workers are lost", func(t *testing.T) {
		t.Parallel()
		schema := p.vault(t)
		s := p.open(t, schema)
		load(t, s, 2*time.Second, func() {
			killed := 0
			for range 5 {
				awaitDirect(t, s, 20)
				killed += number(t, p.db, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
					WHERE query ~ ($1 || '"\.vault_[a-z]+_[0-9]')`, schema)
			}
			if killed == 0 {
				t.Error("no connection was lost")
			}
		})
	})
	t.Run("whoever waits for a lock gets it", func(t *testing.T) {
		t.Parallel()
		schema := p.vault(t)
		s := p.open(t, schema)
		load(t, s, 0, func() {
			for range 2 {
				awaitDirect(t, s, 20)
				p.place(t, schema)
			}
			awaitDirect(t, s, 1)
		})
	})
	t.Run("a worker refuses late statements", func(t *testing.T) {
		t.Parallel()
		s := p.open(t, p.vault(t))
		postgres.SetDirectLimit(s, -time.Hour)
		before := postgres.Directly(s)
		load(t, s, 0, func() { awaitDirect(t, s, 1) })
		if n := postgres.Directly(s) - before; n > 20 {
			t.Errorf("%d statements were sent to a worker that refuses them", n)
		}
	})
	t.Run("a panic does not keep a pledge open", func(t *testing.T) {
		t.Parallel()
		s := p.open(t, p.vault(t))
		if postgres.PanicDirectly(s, newID()) == nil {
			t.Fatal("no statement was sent to a worker")
		}
		for end := time.Now().Add(time.Minute); postgres.Unended(s) > 0; <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the pledge is still open after a minute")
			}
		}
	})
	t.Run("behind a pooler", func(t *testing.T) {
		t.Parallel()
		if _, err := postgres.OpenOptions(t.Context(), p.URL, &postgres.Options{DirectWorkers: true, TransactionPooler: true}); err == nil {
			t.Error("DirectWorkers and TransactionPooler were both accepted")
		}
	})
}
