//go:build unix

package faults

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// citusOutages are the outages of one server of a Citus cluster, coordinator or
// worker, while callers use the vault.
var citusOutages = map[string]func(*testing.T, *site){
	"is stopped":         stopped,
	"stays away":         away,
	"hangs":              frozen,
	"is read-only":       readOnly,
	"loses its sessions": sessionsEnd,
	"stops under keys":   keysLast,
}

// TestCitusOutages is not parallel: all tests share these servers.
func TestCitusOutages(t *testing.T) { //nolint:paralleltest // shared servers
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
	t.Run("linearizable", func(t *testing.T) { linearizable(t, distributed(t), someRounds(t), servers...) })
}

// placedOn returns a function that reports whether the worker has a tenant's
// rows.
func placedOn(t *testing.T, s *site) func(uuid.UUID) bool {
	t.Helper()
	worker := must.Get(url.Parse(s.server.URL))(t)
	db := must.Get(sql.Open("postgres", s.address))(t)
	t.Cleanup(func() { db.Close() })
	return func(tenant uuid.UUID) (placed bool) {
		must.Do(t, db.QueryRow(`SELECT n.nodename || ':' || n.nodeport = $2
			FROM pg_dist_placement p JOIN pg_dist_node n USING (groupid)
			WHERE p.shardid = get_shard_id_for_distribution_column('vault_tokens', $1::bytea)`, tenant[:], worker.Host).Scan(&placed))
		return placed
	}
}

// citusServers returns the cluster's servers. Tests can stop and start them.
func citusServers(t *testing.T) []*pgtest.Cluster {
	t.Helper()
	var servers []*pgtest.Cluster
	for _, address := range pgtest.CitusServers(t) {
		c, err := pgtest.Adopt(t, address)
		if errors.Is(err, pgtest.ErrElsewhere) {
			t.Skipf("a test can stop only servers on its own machine: %v", err)
		}
		must.Do(t, err)
		servers = append(servers, c)
	}
	return servers
}

// sessionsEnd ends all sessions of a server several times.
func sessionsEnd(t *testing.T, s *site) {
	t.Helper()
	l := s.nodes(t, 2, nil).start()
	for range 50 {
		l.wait(t, 2)
		must.Do(t, execOn(s.server, endSessions))
	}
	l.wait(t, 20)
	l.check(t)
	l.served(t)
}

// keysLast creates API keys while one server stops several times. Each key is
// written to all servers. Recovery then finishes the transactions that were
// prepared but not committed. After that, every acknowledged key must work.
func keysLast(t *testing.T, s *site) {
	t.Helper()
	n := s.nodes(t, 2, nil)
	var made sync.Map // name by key
	var work sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 * len(n.vaults) {
		c := n.vaults[i%len(n.vaults)].Tenant(n.tenantID)
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				name := uuid.NewString()
				app, err := c.CreateApplication(t.Context(), vault.ApplicationParams{
					Name: name, Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
				if err == nil {
					made.Store(app.Key, name)
				} else if !errors.Is(err, vault.ErrUnavailable) {
					t.Errorf("create: %v", err)
				}
			}
		})
	}
	for range 5 {
		<-time.After(time.Second)
		must.Do(t, s.server.Control("stop", "-m", "immediate"))
		must.Do(t, s.server.Control("start"))
	}
	<-time.After(time.Second)
	close(stop)
	work.Wait()
	n.wantKeys(t, s, &made)
}

// wantKeys checks that all keys work and that no application was created twice.
func (n *nodes) wantKeys(t *testing.T, s *site, made *sync.Map) {
	t.Helper()
	db := must.Get(sql.Open("postgres", s.address))(t)
	defer db.Close()
	must.Get(db.Exec("SELECT recover_prepared_transactions()"))(t)
	names, keys := map[string]int{}, 0
	for app, err := range n.tenant.AllApplications(t.Context(), vault.ListApplicationsParams{}) {
		must.Do(t, err)
		names[app.Name]++
	}
	made.Range(func(key, name any) bool {
		keys++
		if _, err := n.vaults[0].Authenticate(t.Context(), key.(string)); err != nil || names[name.(string)] != 1 {
			t.Errorf("acknowledged key: error %v, %d applications, want 1", err, names[name.(string)])
		}
		return true
	})
	for name, count := range names {
		if count > 1 {
			t.Errorf("%d applications named %s", count, name)
		}
	}
	t.Logf("%d keys were acknowledged, and %d applications are there", keys, len(names))
	if keys < 20 {
		t.Error("too few keys were created for a result")
	}
}
