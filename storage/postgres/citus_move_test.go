package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// TestCitusMovedShards creates and reads tokens while Citus moves the shards of
// their tenants. It is not parallel, because it changes the nodes of the whole
// cluster.
func TestCitusMovedShards(t *testing.T) { //nolint:paralleltest // as it says
	if !pgtest.HasCitus() {
		return
	}
	for name, move := range shardMoves {
		t.Run(name, func(t *testing.T) {
			address, o := distributed(t)
			db := database(t, address)
			if len(placements(t, db, o.Schema)) < 2 {
				t.Fatal("the cluster needs two workers")
			}
			load(t, openAt(t, address, o), 2*time.Second, func() { move(t, db, o.Schema) })
		})
	}
}

// shardMoves move the shards of a vault in use.
var shardMoves = map[string]func(t *testing.T, db *sql.DB, schema string){
	"single shards, blocking writes":     eachShardTwice("block_writes"),
	"single shards, by logical decoding": eachShardTwice("force_logical"),
	"some tenants into their own shards": func(t *testing.T, db *sql.DB, schema string) {
		t.Helper()
		const shards = "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = $1::regclass"
		tokens := schema + ".vault_tokens"
		before := number(t, db, shards, tokens)
		for _, tenant := range someTenants(t, db, tokens, 3) {
			run(t, db, "SELECT isolate_tenant_to_new_shard($1, $2::bytea, 'CASCADE', 'block_writes')", tokens, tenant)
		}
		if after := number(t, db, shards, tokens); after <= before {
			t.Errorf("there are %d shards, %d before", after, before)
		}
	},
	"off a removed worker, and back to an added one": func(t *testing.T, db *sql.DB, schema string) {
		t.Helper()
		host, port := lastWorker(t, db)
		t.Cleanup(func() { run(t, db, addNode, host, port) }) // if a statement below failed
		run(t, db, "SELECT citus_drain_node($1, $2, 'block_writes')", host, port)
		if n := placements(t, db, schema); len(n) != 1 {
			t.Errorf("the shards are on workers %v after one of two was drained", n)
		}
		cleanUp(t, db, port)
		run(t, db, "SELECT citus_remove_node($1, $2)", host, port)
		run(t, db, addNode, host, port)
		run(t, db, "SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes')")
		if n := placements(t, db, schema); len(n) < 2 {
			t.Errorf("the shards are on worker %v after rebalancing", n)
		}
	},
}

// addNode adds a worker, unless the cluster has it, and lets it have shards.
const addNode = `SELECT citus_set_node_property(n.host, n.port, 'shouldhaveshards', true)
	FROM (SELECT $1::text AS host, $2::int AS port, citus_add_node($1, $2) OFFSET 0) n`

// moveShard moves one of the shards to another worker.
func moveShard(t *testing.T, db *sql.DB, schema, mode string, shard int) {
	t.Helper()
	run(t, db, moveText, schema+".vault_tokens", mode, shard)
}

// moveText moves a shard of a table to another worker.
const moveText = `SELECT citus_move_shard_placement(s.shardid, a.nodename, a.nodeport, b.nodename, b.nodeport, $2::citus.shard_transfer_mode)
		FROM (SELECT shardid FROM pg_dist_shard WHERE logicalrelid = $1::regclass ORDER BY shardid OFFSET $3 LIMIT 1) s
		JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node a USING (groupid)
		JOIN LATERAL (SELECT * FROM pg_dist_node n WHERE n.shouldhaveshards AND n.groupid <> a.groupid ORDER BY groupid LIMIT 1) b ON true`

// eachShardTwice moves each shard to another worker and back.
func eachShardTwice(mode string) func(*testing.T, *sql.DB, string) {
	return func(t *testing.T, db *sql.DB, schema string) {
		t.Helper()
		shards := number(t, db, "SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = $1::regclass", schema+".vault_tokens")
		for i := range 2 * shards {
			moveShard(t, db, schema, mode, i/2)
		}
		if shards == 0 {
			t.Error("there are no shards")
		}
	}
}

// someTenants waits until n tenants have tokens, and returns them.
func someTenants(t *testing.T, db *sql.DB, tokens string, n int) (tenants pq.ByteaArray) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(tenants) < n; {
		err := db.QueryRow("SELECT array_agg(DISTINCT tenant_id) FROM " + tokens).Scan(&tenants)
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d tenants after a minute, want %d (%v)", len(tenants), n, err)
		}
	}
	return tenants
}

// cleanUp drops the old tables of shards that were moved from a worker. Citus
// forgets them when the worker is removed, and then refuses to move the shards
// back.
func cleanUp(t *testing.T, db *sql.DB, port int) {
	t.Helper()
	const left = "SELECT count(*) FROM pg_dist_cleanup c JOIN pg_dist_node n ON n.groupid = c.node_group_id WHERE n.nodeport = $1"
	for end := time.Now().Add(time.Minute); number(t, db, left, port) > 0; {
		if time.Now().After(end) {
			t.Fatal("the old tables of moved shards are still there after a minute")
		}
		run(t, db, "CALL citus_cleanup_orphaned_resources()")
	}
}

func run(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	must.Match(t, text, must.Err(db.Exec(text, args...)), nil)
}

// lastWorker returns the address of the worker that was added last.
func lastWorker(t *testing.T, db *sql.DB) (host string, port int) {
	t.Helper()
	err := db.QueryRow("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND isactive ORDER BY groupid DESC LIMIT 1").Scan(&host, &port)
	must.Do(t, err)
	return host, port
}

// placements returns the group numbers of the workers with shards of a vault,
// and how many each of them has.
func placements(t *testing.T, db *sql.DB, schema string) map[int]int {
	t.Helper()
	rows := must.Get(db.Query(`SELECT p.groupid, count(*) FROM pg_dist_placement p JOIN pg_dist_shard s USING (shardid)
		WHERE s.logicalrelid = $1::regclass GROUP BY 1`, schema+".vault_tokens"))(t)
	defer rows.Close()
	n := map[int]int{}
	for rows.Next() {
		var group, shards int
		must.Do(t, rows.Scan(&group, &shards))
		n[group] = shards
	}
	must.Do(t, rows.Err())
	return n
}
