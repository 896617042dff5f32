package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// partitions returns the number of partitions of each table. It is small,
// because every connection reads the definition of each partition and its
// indexes.
func partitions() int { return long.Rounds(2, 4) }

// global lists the tables that are not keyed by tenant.
var global = []string{"vault_lookups", "vault_migrations"}

// TestPartitioned runs the suite with the statements for distributed tables.
// The tables are partitioned by the hash of the tenant, like Citus shards. The
// server explains every statement, and a statement for a tenant must touch one
// partition.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	x := explain(t, onePartition)
	world := func(tb testing.TB) (storagetest.Opener, string) {
		address := partitioned.URL(tb)
		c := newProxy(tb, address)
		x.collected(tb, c, address, pgtest.SchemaOf(tb, address))
		return func(ctx context.Context) (storage.Storage, error) {
			return postgres.OpenRouted(ctx, c.address, &postgres.Options{MaxConns: 6, Migrate: storage.MigrateCheck})
		}, c.address
	}
	var all, inTx []string
	if !long.Run {
		// Other chapters use the same statements, and reads in transactions are
		// the same as outside.
		all = []string{
			"Isolation", "Conflicts", "Follow", "Count", "ReadLogger", "Prune", "Trees",
			"Queue", "Expiry", "Lists", "Model", "Parallel", "Big",
		}
		inTx = []string{"Conflicts", "Model"}
	}
	t.Run("Storage", func(t *testing.T) {
		t.Parallel()
		storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
			open, _ := world(tb)
			return open
		}, Chapters: all})
	})
	t.Run("Tx", func(t *testing.T) {
		t.Parallel()
		storagetest.RunTx(t, storagetest.TxBackend{New: func(tb testing.TB) (storagetest.Opener, storagetest.Begin) {
			open, address := world(tb)
			return open, storagetest.BeginOn(application(tb, "postgres", address))
		}, Others: func(tb testing.TB) map[string]storagetest.Begin { return others(tb, "postgres") }, Chapters: inTx})
	})
}

// partitioned provides schemas with the tables of a vault in partitions.
var partitioned = pgtest.Schemas{Fill: partition, Keep: "vault_migrations"}

var createTable = regexp.MustCompile(`(?s)CREATE TABLE (vault_\w+) \(.*?\n\)[^;]*;`)

// partition creates the tables of a vault, each in partitions. The server
// rejects a unique key without the tenant.
func partition(tb testing.TB, address string) {
	tb.Helper()
	db := database(tb, address)
	for _, m := range postgres.Migrations("") {
		script := createTable.ReplaceAllStringFunc(m.SQL, func(statement string) string {
			name := createTable.FindStringSubmatch(statement)[1]
			if slices.Contains(global, name) {
				return statement
			}
			statement = statement[:strings.LastIndex(statement, "\n)")] + "\n) PARTITION BY HASH (tenant_id);"
			for i := range partitions() {
				statement += fmt.Sprintf("\nCREATE TABLE %s_p%d PARTITION OF %s FOR VALUES WITH (MODULUS %d, REMAINDER %d);",
					name, i, name, partitions(), i)
			}
			return statement
		})
		if _, err := db.Exec(script); err != nil {
			tb.Fatalf("migration %d: %v", m.Version, err)
		}
	}
}

// explained counts the statements that the server has explained.
type explained struct {
	// judge makes the server explain a statement for a tenant, and returns what
	// is wrong with the plan.
	judge func(db *sql.DB, text string, parameters sent) error

	mu   sync.Mutex
	seen map[string]int
}

// explain returns a collection of explained statements. At the end of the test
// there must be many.
func explain(t *testing.T, judge func(*sql.DB, string, sent) error) *explained {
	t.Helper()
	x := &explained{judge: judge, seen: map[string]int{}}
	t.Cleanup(func() {
		if len(x.seen) < 100 {
			t.Errorf("only %d statements were explained", len(x.seen))
		}
	})
	return x
}

// spans lists statements without a tenant, which do the vault's own work over
// all tenants.
var spans = []string{
	"FROM vault_tokens t WHERE t.expires_at >=", "FROM vault_tokens t WHERE t.cvc_expires_at >=", "FROM vault_records r WHERE r.expires_at >=",
	"SELECT tenant_id, key FROM vault_claims WHERE expires_at <=", "SELECT tenant_id, id FROM vault_jobs WHERE dead",
	"SELECT EXISTS (SELECT 1 FROM vault_claims", "SELECT EXISTS (SELECT 1 FROM vault_jobs",
	"SELECT tenant_id FROM vault_log_marks WHERE xid >", "SELECT DISTINCT tenant_id FROM", "SELECT DISTINCT j.tenant_id FROM", "SELECT DISTINCT l.tenant_id FROM",
	"FROM vault_log_trees t WHERE t.tenant_id >", "FROM vault_log_trees t WHERE t.tenant_id = ANY",
	"INSERT INTO vault_claims (tenant_id, key, owner, key_version) SELECT", // of no rows, in transactions of the application
}

// ofAllTenants finds lists of records whose conditions begin with no tenant.
var ofAllTenants = regexp.MustCompile(`FROM vault_records r WHERE length\(r\.id\) = 16 AND length\(r\.tenant_id\) = 16(?: AND r\.(?:kind|id|name_fold)\b| ORDER BY|$)`)

// onlyGlobal reports whether a statement uses only tables that are not keyed by
// tenant, including catalogs.
func onlyGlobal(text string) bool {
	return !slices.ContainsFunc(vaultTable.FindAllString(literal.ReplaceAllString(text, "''"), -1), func(name string) bool { return !slices.Contains(global, name) })
}

var explainable = regexp.MustCompile(`^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b`)

var (
	vaultTable = regexp.MustCompile(`\bvault_\w+`)
	literal    = regexp.MustCompile(`'[^']*'`) // which may contain the name of a schema
)

// collected explains the statements of a collector at the end of a test, unless
// they have been explained before. The statements name the schema.
func (x *explained) collected(tb testing.TB, c *proxy, address, schema string) {
	tb.Helper()
	tb.Cleanup(func() {
		x.check(tb, c, database(tb, with(tb, address, "binary_parameters", "yes")), fmt.Sprintf("%q.", schema))
	})
}

func (x *explained) check(tb testing.TB, c *proxy, db *sql.DB, schema string) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, named := range slices.Sorted(maps.Keys(c.sent)) {
		text := strings.ReplaceAll(named, schema, "")
		if onlyGlobal(text) || !explainable.MatchString(text) || ofAllTenants.MatchString(text) || slices.ContainsFunc(spans, func(s string) bool { return strings.Contains(text, s) }) {
			continue
		}
		for _, parameters := range c.sent[named] {
			if x.known(text) {
				break
			}
			if err := x.judge(db, named, parameters); err != nil {
				tb.Errorf("%v\nof %s", err, text)
			}
		}
	}
}

// known counts a statement and reports whether it was counted often enough.
func (x *explained) known(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen[text]++
	return x.seen[text] > 2*maxSent
}

// plan is a node of a query plan.
type plan struct {
	Kind      string `json:"Node Type"`
	Operation string
	Relation  string `json:"Relation Name"`
	Output    []string
	Plans     []plan
}

// onePartition makes the server explain a statement. It returns what keeps an
// engine from sending it to the one place of its tenant.
func onePartition(db *sql.DB, text string, parameters sent) error {
	var raw []byte
	if err := db.QueryRow("EXPLAIN (FORMAT JSON, VERBOSE) "+text, parameters...).Scan(&raw); err != nil {
		return err
	}
	var all []struct{ Plan plan }
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	touched := map[string]bool{}
	if err := all[0].Plan.walk(touched, 0); err != nil && !ofFirst(text) {
		return err
	}
	if len(touched) > 1 {
		return fmt.Errorf("it touches partitions %v", slices.Sorted(maps.Keys(touched)))
	}
	return nil
}

// ofFirst reports whether a statement lists rows that all belong to the tenant
// in its first parameter, which the plan does not show.
func ofFirst(text string) bool {
	_, rows, listed := strings.Cut(text, ") VALUES (")
	return listed && strings.HasPrefix(text, "INSERT ") && strings.Count(rows, "), ($1::bytea, ") == strings.Count(rows, "), (") && strings.HasPrefix(rows, "$1::bytea, ")
}

var partitionName = regexp.MustCompile(`^vault_\w+_(p\d+)$`)

// walk records the partitions that a plan touches. An insert must be the whole
// statement and for one tenant. A write to a table that is not keyed by tenant
// must also be the whole statement. An update or delete may be a part of a
// statement; TestCitus checks how Citus treats both.
func (p *plan) walk(touched map[string]bool, depth int) error {
	if part := partitionName.FindStringSubmatch(p.Relation); part != nil {
		touched[part[1]] = true
	}
	if p.Kind == "ModifyTable" {
		inserts, everywhere := p.Operation == "Insert", slices.Contains(global, p.Relation)
		if depth > 0 && (inserts || everywhere) {
			return fmt.Errorf("%s of %s is a part of it, and has to be a statement", p.Operation, p.Relation)
		}
		if tenant := p.Plans[0].Output; inserts && !everywhere && !strings.HasPrefix(tenant[0], `'\x`) {
			return fmt.Errorf("it inserts into %s for the tenants %s", p.Relation, tenant[0])
		}
	}
	for i := range p.Plans {
		if err := p.Plans[i].walk(touched, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// TestUniqueKeysIncludeTheTenant reads the unique keys of a vault. Each of them includes the
// tenant, except the key that finds a tenant.
func TestUniqueKeysIncludeTheTenant(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	openAt(t, address, nil)
	rows := must.Get(database(t, address).Query(`SELECT t.relname, i.relname,
		EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum = ANY (x.indkey) AND a.attname = 'tenant_id')
		FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
		WHERE x.indisunique AND t.relnamespace = current_schema()::regnamespace`))(t)
	defer rows.Close()
	found := 0
	for rows.Next() {
		var table, key string
		var tenant bool
		must.Do(t, rows.Scan(&table, &key, &tenant))
		if found++; tenant == slices.Contains(global, table) {
			t.Errorf("%s of %s: has the tenant: %v", key, table, tenant)
		}
	}
	if err := rows.Err(); err != nil || found < 10 {
		t.Errorf("%d keys, %v", found, err)
	}
}
