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

	"github.com/seed-72ea4aab/vault/internal/long"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

// partitions returns over how many partitions the tables are spread. Every
// connection reads the definition of each partition and its indexes.
func partitions() int { return long.Rounds(2, 4) }

// global are the tables that are not under tenants.
var global = []string{"vault_lookups", "vault_migrations"}

// TestPartitioned runs the suite with the statements for distributed tables, on
// tables that are partitioned by the hash of the tenant, as Citus places them.
// The server explains every statement: one that is given a tenant must touch one
// partition.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	x := explain(t, onePartition)
	world := func(tb testing.TB) (storagetest.Opener, string) {
		address := partitioned.URL(tb)
		c := collect(tb, address)
		x.collected(tb, c, address, pgtest.SchemaOf(tb, address))
		return func(ctx context.Context) (storage.Storage, error) {
			return postgres.OpenRouted(ctx, c.address, &postgres.Options{MaxConns: 6, Migrate: storage.MigrateCheck})
		}, c.address
	}
	var all, inTx []string
	if !long.Run {
		// Other chapters have no statements of their own, and reads in transactions
		// are the same statements as outside.
		all = []string{
			"Isolation", "Tokens", "Conflicts", "Atomic", "Records", "Logs", "Follow", "Count", "ReadLogger", "Prune", "Trees",
			"Claims", "Jobs", "Sealed", "Expiry", "Paging", "Filters", "Model", "Counts", "Parallel", "Big",
		}
		inTx = []string{"Conflicts", "Atomic", "Model"}
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

// partitioned are schemas with the tables of a vault in partitions.
var partitioned = pgtest.Schemas{Fill: partition, Keep: "vault_migrations"}

var createTable = regexp.MustCompile(`(?s)CREATE TABLE (vault_\w+) \(.*?\n\)[^;]*;`)

// partition makes the tables of a vault, each in partitions. The server refuses
// a unique key that lacks the tenant.
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

// explained are the statements that the server has explained, with how many
// parameters.
type explained struct {
	// judge has the server explain a statement that is given a tenant, and returns
	// what is wrong about the plan.
	judge func(db *sql.DB, text string, parameters sent) error

	mu   sync.Mutex
	seen map[string]int
}

// explain has statements explained and judged, of which there must be many when
// the test ends.
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

// spans are statements that no tenant is given to: the vault's own work over all
// tenants.
var spans = []string{
	"FROM vault_tokens t WHERE t.expires_at <=", "FROM vault_tokens t WHERE t.cvc_expires_at <=", "FROM vault_records r WHERE r.expires_at <=",
	"SELECT tenant_id, key FROM vault_claims WHERE expires_at <=", "SELECT tenant_id, id FROM vault_jobs WHERE dead",
	"SELECT EXISTS (SELECT 1 FROM vault_claims", "SELECT EXISTS (SELECT 1 FROM vault_jobs",
	"SELECT tenant_id FROM vault_log_marks WHERE xid >", "SELECT DISTINCT tenant_id FROM", "SELECT DISTINCT j.tenant_id FROM", "SELECT DISTINCT l.tenant_id FROM",
	"FROM vault_records r WHERE 1 = 1 AND r.kind =", "FROM vault_records r WHERE 1 = 1",
	"FROM vault_log_trees t WHERE t.tenant_id >", "FROM vault_log_trees t WHERE t.tenant_id = ANY",
}

// onlyGlobal reports whether a statement is about nothing but tables that are not
// under tenants, those of the server included.
func onlyGlobal(text string) bool {
	return !slices.ContainsFunc(vaultTable.FindAllString(literal.ReplaceAllString(text, "''"), -1), func(name string) bool { return !slices.Contains(global, name) })
}

var explainable = regexp.MustCompile(`^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b`)

var (
	vaultTable = regexp.MustCompile(`\bvault_\w+`)
	literal    = regexp.MustCompile(`'[^']*'`) // which may have the name of a schema in it
)

// collected has what a collector gets until the end of a test explained, unless it
// has been before. The statements name the schema.
func (x *explained) collected(tb testing.TB, c *collector, address, schema string) {
	tb.Helper()
	tb.Cleanup(func() {
		x.check(tb, c, database(tb, with(tb, address, "binary_parameters", "yes")), fmt.Sprintf("%q.", schema))
	})
}

func (x *explained) check(tb testing.TB, c *collector, db *sql.DB, schema string) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, named := range slices.Sorted(maps.Keys(c.sent)) {
		text := strings.ReplaceAll(named, schema, "")
		if onlyGlobal(text) || !explainable.MatchString(text) || slices.ContainsFunc(spans, func(s string) bool { return strings.Contains(text, s) }) {
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

// known counts a statement, and reports whether it was counted often enough.
func (x *explained) known(text string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen[text]++
	return x.seen[text] > 2*maxSent
}

// plan is a node of what the server explains.
type plan struct {
	Kind      string `json:"Node Type"`
	Operation string
	Relation  string `json:"Relation Name"`
	Output    []string
	Plans     []plan
}

// onePartition has the server explain a statement, and returns what keeps an
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

// ofFirst reports whether a statement lists rows that are all of the tenant in its
// first parameter, which the plan does not show.
func ofFirst(text string) bool {
	_, rows, listed := strings.Cut(text, ") VALUES (")
	return listed && strings.HasPrefix(text, "INSERT ") && strings.Count(rows, "), ($1::bytea, ") == strings.Count(rows, "), (") && strings.HasPrefix(rows, "$1::bytea, ")
}

var partitionName = regexp.MustCompile(`^vault_\w+_(p\d+)$`)

// walk notes the partitions that a plan touches. What it inserts has to be the
// whole statement, and of one tenant, and so has what it writes to a table that is
// not under tenants. To update and delete by a part of a statement is as good as by
// the whole of it: what Citus makes of either is a test of TestCitus.
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

// TestUniqueKeys reads the unique keys of a vault: no two tenants meet in one, but
// in that of the keys by which a tenant is found.
func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	address := postgres.Vaults.URL(t)
	openAt(t, address, nil)
	rows, err := database(t, address).Query(`SELECT t.relname, i.relname,
		EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum = ANY (x.indkey) AND a.attname = 'tenant_id')
		FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
		WHERE x.indisunique AND t.relnamespace = current_schema()::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := 0
	for rows.Next() {
		var table, key string
		var tenant bool
		if err := rows.Scan(&table, &key, &tenant); err != nil {
			t.Fatal(err)
		}
		if found++; tenant == slices.Contains(global, table) {
			t.Errorf("%s of %s: has the tenant: %v", key, table, tenant)
		}
	}
	if err := rows.Err(); err != nil || found < 10 {
		t.Errorf("%d keys, %v", found, err)
	}
}
