package pgtest

import (
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// EnvCitus is the environment variable with the URL of a Citus cluster's
// coordinator.
const EnvCitus = "VAULT_TEST_CITUS"

// ErrElsewhere means that the server runs on another machine.
var ErrElsewhere = errors.New("the server runs on another machine")

// HasCitus reports whether [EnvCitus] names a Citus cluster.
func HasCitus() bool { return os.Getenv(EnvCitus) != "" }

// Citus returns the address of an empty schema on the Citus cluster, like
// [URL]. Distributed tables get only four shards there, to save time.
func Citus(t testing.TB) string {
	t.Helper()
	return emptySchema(t, must.Get(withParameter(os.Getenv(EnvCitus), "citus.shard_count", "4"))(t))
}

// CitusServers returns the addresses of the cluster's servers, the
// coordinator's address first.
func CitusServers(t testing.TB) []string {
	t.Helper()
	coordinator := os.Getenv(EnvCitus)
	u := must.Get(url.Parse(coordinator))(t)
	db := must.Get(sql.Open("postgres", coordinator))(t)
	defer func() { _ = db.Close() }() // reading is over by then
	const active = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND isactive ORDER BY groupid"
	rows := must.Get(db.QueryContext(t.Context(), active))(t)
	defer rows.Close()
	servers := []string{coordinator}
	for rows.Next() {
		var host string
		var port int
		must.Do(t, rows.Scan(&host, &port))
		u.Host = net.JoinHostPort(host, strconv.Itoa(port))
		servers = append(servers, u.String())
	}
	if err := rows.Err(); err != nil || len(servers) < 2 {
		t.Fatalf("pgtest: the cluster has %d workers (%v)", len(servers)-1, err)
	}
	return servers
}
