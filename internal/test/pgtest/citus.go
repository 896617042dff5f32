package pgtest

import (
	"database/sql"
	"errors"
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"
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
	server, err := withParameter(os.Getenv(EnvCitus), "citus.shard_count", "4")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return emptySchema(t, server)
}

// CitusServers returns the addresses of the cluster's servers, the
// coordinator's address first.
func CitusServers(t testing.TB) []string {
	t.Helper()
	coordinator := os.Getenv(EnvCitus)
	u, err := url.Parse(coordinator)
	if err != nil {
		t.Fatalf("pgtest: %s is not a URL", EnvCitus)
	}
	db, err := sql.Open("postgres", coordinator)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // reading is over by then
	rows, err := db.QueryContext(t.Context(), "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND isactive ORDER BY groupid")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	servers := []string{coordinator}
	for rows.Next() {
		var host string
		var port int
		if err := rows.Scan(&host, &port); err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort(host, strconv.Itoa(port))
		servers = append(servers, u.String())
	}
	if err := rows.Err(); err != nil || len(servers) < 2 {
		t.Fatalf("pgtest: the cluster has %d workers (%v)", len(servers)-1, err)
	}
	return servers
}
