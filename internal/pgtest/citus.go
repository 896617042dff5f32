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

// EnvCitus names the coordinator of a Citus cluster.
const EnvCitus = "VAULT_TEST_CITUS"

// ErrElsewhere means that a server does not run on this machine.
var ErrElsewhere = errors.New("the server runs on another machine")

// HasCitus reports whether there is a Citus cluster.
func HasCitus() bool { return os.Getenv(EnvCitus) != "" }

// Citus returns the address of an empty schema on the cluster, as URL does. A
// table that is distributed there has few shards, which takes less time.
func Citus(t testing.TB) string {
	t.Helper()
	server, err := withParameter(os.Getenv(EnvCitus), "citus.shard_count", "4")
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return emptySchema(t, server)
}

// CitusServers returns the addresses of the cluster's servers, that of the
// coordinator first.
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
	defer func() { _ = db.Close() }() // what it has read is read
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
