package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/latertest"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// shards is the setting for the number of shards of a table.
const shards = "citus.shard_count"

// onCitus returns the address of the cluster and the options of a vault in an
// empty schema, which is not in the search path.
func onCitus(tb testing.TB) (address string, o *postgres.Options) {
	tb.Helper()
	own := pgtest.Citus(tb)
	u := must.Get(url.Parse(own))(tb)
	return with(tb, own, "search_path", "public"), &postgres.Options{Schema: u.Query().Get("search_path")}
}

// distributed is like onCitus, for a distributed vault.
func distributed(tb testing.TB) (address string, o *postgres.Options) {
	tb.Helper()
	address, o = onCitus(tb)
	must.Do(tb, postgres.Distribute(tb.Context(), address, o))
	return address, o
}

// citusBackend is a vault on Citus whose statements are explained.
func citusBackend(x *explained) storagetest.Backend {
	return storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
		open, _ := x.distributed(tb)
		return open
	}}
}

func citusTxBackend(x *explained) storagetest.TxBackend {
	return storagetest.TxBackend{New: func(tb testing.TB) (storagetest.Opener, storagetest.Begin) {
		open, address := x.distributed(tb)
		return open, storagetest.BeginOn(application(tb, "postgres", address))
	}, Others: func(tb testing.TB) map[string]storagetest.Begin { return others(tb, "postgres") }}
}

// distributed creates a vault on Citus whose statements are explained. It
// returns an opener and the address.
func (x *explained) distributed(tb testing.TB) (storagetest.Opener, string) {
	tb.Helper()
	address, o := distributed(tb)
	c := newProxy(tb, address)
	x.collected(tb, c, address, o.Schema)
	return func(ctx context.Context) (storage.Storage, error) { return postgres.OpenSettled(ctx, c.address, o) }, c.address
}

var (
	taskCount = regexp.MustCompile(`Task Count: (\d+)`)
	subPlan   = regexp.MustCompile(`Distributed Subplan|Citus INSERT \.\.\. SELECT`)
)

// oneTask makes Citus explain a statement. It returns an error if Citus does
// not send the statement unchanged to the worker of its tenant.
func oneTask(db *sql.DB, text string, parameters sent) error {
	rows, err := db.Query("EXPLAIN (COSTS OFF) "+text, parameters...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		plan.WriteString(line + "\n")
	}
	found := taskCount.FindAllStringSubmatch(plan.String(), -1)
	if len(found) != 1 || found[0][1] != "1" || subPlan.MatchString(plan.String()) {
		return fmt.Errorf("it is not one task:\n%s", plan.String())
	}
	return rows.Err()
}

// tenantOf is a tenant with one of its tokens.
type tenantOf struct {
	id    storage.ID
	token string
}

func TestDistributeWithoutCitus(t *testing.T) {
	t.Parallel()
	err := postgres.Distribute(t.Context(), postgres.Vaults.URL(t), nil)
	must.Match(t, "without Citus", err, must.Text("CREATE EXTENSION citus"))
}

// PostgreSQL hashes text as it hashes bytes.
func TestTenantHash(t *testing.T) {
	t.Parallel()
	db := database(t, pgtest.URL(t))
	for range 50 {
		id := newID()
		for i := range id {
			id[i] = 1 + id[i]%127
		}
		if want := number(t, db, "SELECT hashtext($1)", string(id[:])); postgres.TenantHash(id) != int32(want) {
			t.Errorf("the hash of %q is %d, want %d", id[:], postgres.TenantHash(id), want)
		}
	}
}

// citusTests run if Citus is available.
var citusTests = map[string]func(*testing.T){
	"a vault in use is distributed": func(t *testing.T) {
		address, o := onCitus(t)
		address = with(t, address, shards, "32")
		s := openAt(t, address, o)
		own := database(t, address)
		must.Get(own.Exec("CREATE TABLE " + o.Schema + ".orders (id int PRIMARY KEY)"))(t)
		load(t, s, time.Second, nil) // so that there is something to move
		load(t, s, 6*time.Second, func() {
			for range 2 { // the second call changes nothing
				must.Match(t, "Distribute", postgres.Distribute(t.Context(), address, o), nil)
			}
		})
		wantDistributed(t, own, o.Schema)
	},
	"later migrations run on distributed tables": func(t *testing.T) {
		address, o := distributed(t)
		latertest.Run(t, later(t, address, o.Schema, postgres.OpenSettled))
		wantDistributed(t, database(t, address), o.Schema)
	},
	// TestPartitioned relies on this where Citus is not available.
	"updates and deletes may be part of a statement, and inserts may not": func(t *testing.T) {
		address, o := distributed(t)
		db := database(t, with(t, address, "search_path", o.Schema))
		tenant := newID()
		for part, want := range map[string]bool{
			"UPDATE vault_jobs SET dead = true WHERE tenant_id = $1::bytea RETURNING 1":      true,
			"DELETE FROM vault_claims WHERE tenant_id = $1::bytea RETURNING 1":               true,
			"DELETE FROM vault_lookups WHERE tenant_id = $1::bytea RETURNING 1":              false,
			"INSERT INTO vault_log_marks (tenant_id, xid) VALUES ($1::bytea, 1) RETURNING 1": false,
		} {
			err := oneTask(db, "WITH part AS ("+part+") SELECT count(*) FROM part, vault_tokens t WHERE t.tenant_id = $1::bytea", sent{tenant[:]})
			if (err == nil) != want {
				t.Errorf("%s is one task: %v, want %v", part, err, want)
			}
		}
	},
	"nothing is lost or doubled when connections are": func(t *testing.T) {
		address, o := distributed(t)
		db := database(t, address)
		var killed atomic.Int64
		load(t, openAt(t, with(t, address, "application_name", o.Schema), o), 6*time.Second, func() {
			for range 100 {
				killed.Add(int64(number(t, db, `SELECT count(pg_terminate_backend(pid)) FROM (
					SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY random() LIMIT 1) a`, o.Schema)))
				// Also kill connections of workers while the coordinator uses
				// them.
				if _, err := db.Exec(`SELECT run_command_on_workers($$SELECT count(pg_terminate_backend(pid)) FROM (
					SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'citus_internal%' AND state <> 'idle'
					ORDER BY random() LIMIT 1) a$$)`); err != nil {
					t.Error(err)
				}
			}
		})
		if killed.Load() == 0 {
			t.Error("no connection was killed")
		}
	},
	// The coordinator checks for conflicts of serializable transactions after Citus
	// has prepared or committed on the workers.
	"a transaction that fails in COMMIT leaves no token": func(t *testing.T) {
		address, o := distributed(t)
		s, db := openAt(t, address, o), database(t, address)
		must.Get(db.Exec("CREATE TABLE " + o.Schema + ".orders (tenant_id bytea, token text)"))(t)
		var changes []*storage.Change
		var txs []*sql.Tx
		for range 2 {
			tx := must.Get(application(t, "postgres", address).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable}))(t)
			c := sample(newID(), 1)
			var n int
			err := tx.QueryRow("SELECT count(*) FROM " + o.Schema + ".orders").Scan(&n)
			must.Do(t, errors.Join(err, orderIn(t.Context(), tx, s, o.Schema+".orders", c)))
			txs, changes = append(txs, tx), append(changes, c)
		}
		must.Do(t, txs[0].Commit())
		if err := txs[1].Commit(); err == nil {
			t.Error("the second transaction was committed")
		}
		for i, c := range changes {
			found, err := s.Tokens(t.Context(), c.Tenant, []string{c.InsertTokens[0].ID})
			if want := 1 - i; err != nil || len(found) != want {
				t.Errorf("transaction %d: %d tokens (%v), want %d", i, len(found), err, want)
			}
		}
	},
	"no statement scans the rows of a tenant":                         touchedOnCitus,
	"a transaction with a table of the coordinator is all or nothing": allOrNothing(false),
	"a transaction with a colocated table is all or nothing":          allOrNothing(true),
}

// A transaction of the application has both its own rows and the vault's rows, or
// none, although the servers are killed while it commits.
func allOrNothing(distribute bool) func(*testing.T) {
	return func(t *testing.T) {
		servers := adopted(t)
		address, o := distributed(t)
		s, db := openAt(t, address, o), database(t, address)
		orders := o.Schema + ".orders"
		must.Get(db.Exec("CREATE TABLE " + orders + " (tenant_id bytea, token text, PRIMARY KEY (tenant_id, token))"))(t)
		if distribute {
			must.Get(db.Exec("SELECT create_distributed_table($1, 'tenant_id', colocate_with => $2)", orders, o.Schema+".vault_tokens"))(t)
		}
		app := application(t, "postgres", with(t, address, "application_name", o.Schema))
		var kept sync.Map // token of each order that was committed
		var ended, failures atomic.Int64
		var busy sync.WaitGroup
		for range 8 {
			tenant := newID()
			busy.Go(func() {
				for ended.Load() == 0 {
					c := sample(tenant, 1)
					if err := order(t.Context(), app, s, orders, c); err != nil {
						failures.Add(1)
						continue
					}
					kept.Store(c.InsertTokens[0].ID, true)
				}
			})
		}
		for i := range 3 * len(servers) {
			<-time.After(time.Second)
			server := servers[i%len(servers)]
			must.Match(t, "restart", errors.Join(server.Control("stop", "-m", "immediate"), server.Control("start")), nil)
		}
		ended.Store(1)
		busy.Wait()
		must.Get(db.Exec("SELECT recover_prepared_transactions()"))(t)
		const missing = " WHERE NOT EXISTS (SELECT FROM %s b WHERE b.tenant_id = a.tenant_id AND b.%s = a.%s)"
		without := number(t, db, "SELECT count(*) FROM (SELECT tenant_id, token FROM "+orders+" OFFSET 0) a"+
			fmt.Sprintf(missing, "(SELECT tenant_id, id FROM "+o.Schema+".vault_tokens OFFSET 0)", "id", "token"))
		alone := number(t, db, "SELECT count(*) FROM (SELECT tenant_id, id FROM "+o.Schema+".vault_tokens OFFSET 0) a"+
			fmt.Sprintf(missing, "(SELECT tenant_id, token FROM "+orders+" OFFSET 0)", "token", "id"))
		n, there := 0, tokensOf(t, db, orders)
		kept.Range(func(token, _ any) bool {
			n++
			if !there[token.(string)] {
				t.Errorf("the order of token %s is lost", token)
			}
			return true
		})
		t.Logf("%d transactions were committed and %d failed", n, failures.Load())
		if without+alone > 0 || failures.Load() == 0 || n == 0 {
			t.Errorf("%d orders without a token, and %d tokens without an order", without, alone)
		}
	}
}

// adopted returns the servers of the cluster, if they are on this machine.
func adopted(t *testing.T) (servers []*pgtest.Cluster) {
	t.Helper()
	for _, address := range pgtest.CitusServers(t) {
		server, err := pgtest.Adopt(t, address)
		if errors.Is(err, pgtest.ErrElsewhere) {
			t.Skip(err)
		}
		must.Do(t, err)
		servers = append(servers, server)
	}
	return servers
}

func tokensOf(t *testing.T, db *sql.DB, table string) map[string]bool {
	t.Helper()
	rows := must.Get(db.Query("SELECT token FROM " + table))(t)
	defer rows.Close()
	found := map[string]bool{}
	for rows.Next() {
		var token string
		must.Do(t, rows.Scan(&token))
		found[token] = true
	}
	must.Do(t, rows.Err())
	return found
}

// order creates a token and a row of the application in one transaction.
func order(ctx context.Context, app *sql.DB, s *postgres.Store, table string, c *storage.Change) error {
	tx, err := app.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := orderIn(ctx, tx, s, table, c); err != nil {
		return err
	}
	return tx.Commit()
}

func orderIn(ctx context.Context, tx *sql.Tx, s *postgres.Store, table string, c *storage.Change) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", c.Tenant[:], c.InsertTokens[0].ID); err != nil {
		return err
	}
	in, err := s.InTx(ctx, tx)
	if err != nil {
		return err
	}
	return in.Write(ctx, c)
}

// TestCitus is not parallel, because it kills connections of the whole cluster.
func TestCitus(t *testing.T) { //nolint:paralleltest // as it says
	if !pgtest.HasCitus() {
		return
	}
	for name, test := range citusTests {
		t.Run(name, test)
	}
}

// load creates and reads tokens of several tenants for a while, and at least
// until meanwhile returns. It then checks that each acknowledged write exists
// exactly once.
func load(t *testing.T, s *postgres.Store, d time.Duration, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type tenant struct {
		id      storage.ID
		created []string
		reads   int
	}
	tenants := make([]tenant, 8)
	var busy sync.WaitGroup
	for i := range tenants {
		own := &tenants[i]
		own.id = newID()
		busy.Go(func() {
			for ctx.Err() == nil {
				c := sample(own.id, 1)
				if err := s.Write(t.Context(), c); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				token := c.InsertTokens[0].ID
				own.created = append(own.created, token)
				_, err := s.ReadToken(t.Context(), storage.Reading{Tenant: own.id, ID: token, Entry: storage.Log{
					ID: newID(), CreatedAt: time.Now(), ActorType: "application", Operation: "read", Message: "Token read",
				}})
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				own.reads++
			}
		})
	}
	atLeast := time.After(d)
	if meanwhile != nil {
		meanwhile()
	}
	<-atLeast
	cancel()
	busy.Wait()
	all := 0
	for i := range tenants {
		own := &tenants[i]
		found, err := s.Tokens(t.Context(), own.id, own.created)
		_, tokens, listed := s.ListTokens(t.Context(), storage.TokenFilter{Tenant: own.id, Limit: 1, Count: true})
		_, entries, logged := s.ListLogs(t.Context(), storage.LogFilter{Tenant: own.id, Limit: 1})
		must.Do(t, errors.Join(err, listed, logged))
		n := len(own.created)
		all += n
		if n == 0 || len(found) != n || tokens != n || entries != n+own.reads {
			t.Errorf("created %d and read %d: found %d, counted %d, %d entries", n, own.reads, len(found), tokens, entries)
		}
	}
	t.Logf("%d tokens were created and read", all)
}

// wantDistributed checks that all tables of a vault are distributed as they
// should be, and that no other table is.
func wantDistributed(t *testing.T, db *sql.DB, schema string) {
	t.Helper()
	rows := must.Get(db.Query(`SELECT c.relname, COALESCE(p.partmethod::text, ''), COALESCE(p.colocationid, 0)
		FROM pg_class c LEFT JOIN pg_dist_partition p ON p.logicalrelid = c.oid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r'`, schema))(t)
	defer rows.Close()
	groups := map[int]bool{}
	for rows.Next() {
		var table, method string
		var group int
		must.Do(t, rows.Scan(&table, &method, &group))
		want := "h"
		switch {
		case table == "vault_lookups":
			want = "n"
		case table == "vault_migrations" || !strings.HasPrefix(table, "vault_"):
			want = ""
		}
		if regexp.MustCompile(`_\d+$`).MatchString(table) {
			continue // a shard
		}
		must.Same(t, table+" is distributed as", want, method)
		if want == "h" {
			groups[group] = true
		}
	}
	if err := rows.Err(); err != nil || len(groups) != 1 {
		t.Errorf("%d groups of tables, %v", len(groups), err)
	}
}
