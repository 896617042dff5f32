//go:build unix

package faults

import (
	"database/sql"
	"fmt"
	"net/url"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
)

// citusOutages are what happens to a server of a Citus cluster, the coordinator
// or a worker, while callers use the vault.
var citusOutages = map[string]func(*testing.T, *site){
	"is stopped":         stopped,
	"stays away":         away,
	"hangs":              frozen,
	"is read-only":       readOnly,
	"loses its sessions": sessionsEnd,
}

// TestCitusOutages is not parallel: the servers are those of all tests.
func TestCitusOutages(t *testing.T) { //nolint:paralleltest // as it says
	if !pgtest.HasCitus() {
		return
	}
	servers := citusServers(t)
	for i, c := range servers {
		name := "the coordinator"
		if i > 0 {
			name = fmt.Sprintf("worker %d", i)
		}
		for outage, happens := range citusOutages {
			t.Run(name+" "+outage, func(t *testing.T) {
				s := &site{address: distributed(t), server: c, worker: i > 0}
				if s.worker {
					s.has = placedOn(t, s)
				}
				happens(t, s)
			})
		}
	}
	t.Run("linearizable", func(t *testing.T) { linearizable(t, distributed(t), servers...) })
}

// placedOn returns what tells whether a worker has the rows of a tenant.
func placedOn(t *testing.T, s *site) func(uuid.UUID) bool {
	t.Helper()
	worker, err := url.Parse(s.server.URL)
	must(t, err)
	db, err := sql.Open("postgres", s.address)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return func(tenant uuid.UUID) (placed bool) {
		must(t, db.QueryRow(`SELECT n.nodename || ':' || n.nodeport = $2
			FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid)
			WHERE p.shardid = get_shard_id_for_distribution_column('vault_tokens', $1::bytea)`, tenant[:], worker.Host).Scan(&placed))
		return placed
	}
}

// citusServers are those of the cluster, as tests can stop and start them.
func citusServers(t *testing.T) []*pgtest.Cluster {
	t.Helper()
	var servers []*pgtest.Cluster
	for _, address := range pgtest.CitusServers(t) {
		c, err := pgtest.Adopt(t, address)
		if err != nil {
			t.Skipf("servers that a test may stop have to run on its machine: %v", err)
		}
		servers = append(servers, c)
	}
	return servers
}

// sessionsEnd ends all sessions of a server again and again.
func sessionsEnd(t *testing.T, s *site) {
	t.Helper()
	l := s.nodes(t, 2, nil).start()
	for range 50 {
		l.wait(t, 2)
		must(t, execOn(s.server, endSessions))
	}
	l.wait(t, 20)
	l.check(t)
	l.served(t)
}
