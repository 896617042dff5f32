//go:build unix

package faults

import (
	"context"
	"database/sql"
	"net/http"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// soak returns how long tests with rounds continue, or zero if their number of
// rounds is enough. VAULT_SOAK=10m sets it.
func soak(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("VAULT_SOAK")
	if text == "" {
		return 0
	}
	d := must.Get(time.ParseDuration(text))(t)
	return d
}

// cluster starts a server for one test.
func cluster(t *testing.T, settings ...string) *pgtest.Cluster {
	t.Helper()
	pgtest.URL(t) // skips, or fails, where there is no server
	c, err := pgtest.Start(settings...)
	if err != nil {
		t.Skipf("only a server that runs elsewhere is available: %v", err)
	}
	t.Cleanup(func() {
		must.Match(t, "Stop", c.Stop(), nil)
	})
	return c
}

// site is a database and the server that an outage hits.
type site struct {
	address string
	server  *pgtest.Cluster
	master  *vault.Key           // the vault's master key; nil before the first vault
	worker  bool                 // a Citus worker: has only some tenants, and callers connect elsewhere
	has     func(uuid.UUID) bool // reports whether the server has a tenant's rows; nil if it has all
}

// alone returns a database on a single server.
func alone(c *pgtest.Cluster) *site { return &site{address: c.URL, server: c} }

// nodes opens vaults whose tenant has its rows on the server.
func (s *site) nodes(t *testing.T, count int, o *postgres.Options) *nodes {
	t.Helper()
	if s.master == nil {
		s.master = vault.NewKey()
	}
	return openNodesFor(t, count, opener(t, s.address, o), s.master, s.has)
}

// ready waits for a status of /readyz. An outage of a worker does not change
// that status.
func (s *site) ready(t *testing.T, n *nodes, want int) {
	t.Helper()
	if s.worker {
		want = http.StatusOK
	}
	n.ready(t, want)
}

func opener(t *testing.T, address string, o *postgres.Options) func() (vault.Storage, error) {
	t.Helper()
	return func() (vault.Storage, error) { return postgres.OpenOptions(t.Context(), address, o) }
}

// All callers wait for a server that loses power and comes back: also callers
// whose keys must be read again, and callers that arrive during the outage.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	stopped(t, alone(cluster(t)))
}

func stopped(t *testing.T, s *site) {
	t.Helper()
	c, l := s.server, s.nodes(t, 2, &postgres.Options{RetryFor: time.Hour}).start()
	l.wait(t, 20)
	id := l.create(0)
	must.Do(t, c.Control("stop", "-m", "immediate"))
	<-time.After(1200 * time.Millisecond) // keys are cached for a second
	latecomers := l.come(id)
	must.Do(t, c.Control("start"))
	latecomers.Wait()
	l.wait(t, 20)
	l.check(t)
	l.served(t)
}

// come starts requests on each node and returns when they have begun: creates
// with and without an idempotency key, and a read. served reports whether any
// of them had to be sent again.
func (l *load) come(id string) (ended *sync.WaitGroup) {
	var begun sync.WaitGroup
	ended = &sync.WaitGroup{}
	for node := range l.handlers {
		for _, request := range []func(){
			func() { l.create(node) },
			func() { l.createAtRisk(node) },
			func() { l.read(node, id) },
		} {
			begun.Add(1)
			ended.Go(func() {
				begun.Done()
				request()
			})
		}
	}
	begun.Wait()
	return ended
}

// Callers get a 503 if an outage is longer than their wait.
func TestServerDownForLong(t *testing.T) {
	t.Parallel()
	away(t, alone(cluster(t)))
}

func away(t *testing.T, s *site) {
	t.Helper()
	c, n := s.server, s.nodes(t, 2, &postgres.Options{RetryFor: time.Second})
	l := n.start()
	l.wait(t, 20)
	must.Do(t, c.Control("stop", "-m", "immediate"))
	l.waitForRefusal(t)
	s.ready(t, n, http.StatusServiceUnavailable)
	must.Do(t, c.Control("start"))
	l.wait(t, 20)
	l.check(t)
	l.refused(t, 6*time.Second)
	n.ready(t, http.StatusOK)
}

// A frozen server keeps its connections open but does not respond. Callers
// succeed if it thaws before their wait ends, and are refused otherwise.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	frozen(t, alone(cluster(t)))
}

func frozen(t *testing.T, s *site) {
	t.Helper()
	freezable(t, s.server)
	const hang = time.Second
	freeze := func(wait time.Duration, hold func(*nodes, *load)) *load {
		n := s.nodes(t, 2, &postgres.Options{RetryFor: wait, HangTimeout: hang})
		l := n.start()
		l.wait(t, 20)
		must.Do(t, s.server.Freeze())
		hold(n, l)
		must.Do(t, s.server.Thaw())
		l.wait(t, 20)
		l.check(t)
		return l
	}
	freeze(time.Hour, func(*nodes, *load) { <-time.After(2 * hang) }).served(t)
	freeze(time.Second, func(n *nodes, l *load) {
		l.waitForRefusal(t)
		s.ready(t, n, http.StatusServiceUnavailable)
	}).refused(t, 10*time.Second)
}

// freezable skips the test if a server cannot be frozen.
func freezable(t *testing.T, c *pgtest.Cluster) {
	t.Helper()
	if err := c.Freeze(); err != nil {
		t.Skip(err)
	}
	must.Do(t, c.Thaw())
}

// A primary fails, its synchronous standby takes over, and the old primary
// becomes the new standby. This happens several times.
func TestFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	n := openNodes(t, 2, opener(t, p.address, &postgres.Options{RetryFor: time.Hour}))
	rounds, end := long.Rounds(1, 5), time.Now().Add(soak(t))
	for round := 0; round < rounds || time.Now().Before(end); round++ {
		l := n.start()
		l.wait(t, 20)
		p.fail(t)
		l.wait(t, 20)
		l.check(t)
		l.served(t)
	}
}

// pair is a server with a synchronous standby.
type pair struct {
	primary, standby *pgtest.Cluster
	address          string // of both
}

func newPair(t *testing.T) *pair {
	t.Helper()
	const setting = "synchronous_standby_names = '*'"
	p := &pair{primary: cluster(t, setting), standby: cluster(t, setting)}
	must.Do(t, p.standby.Control("stop", "-m", "immediate"))
	follow(t, p.standby, p.primary)
	p.address = "postgres:///postgres?" + url.Values{
		"host": {p.primary.Dir + "," + p.standby.Dir}, "user": {"postgres"}, "sslmode": {"disable"},
	}.Encode()
	return p
}

// fail stops the primary as a power cut would, promotes the standby, and makes the
// old primary the new standby.
func (p *pair) fail(t *testing.T) {
	t.Helper()
	must.Do(t, p.primary.Control("stop", "-m", "immediate"))
	must.Do(t, p.standby.Control("promote"))
	p.primary, p.standby = p.standby, p.primary
	follow(t, p.standby, p.primary)
}

// follow makes a server a standby and waits until its primary knows it.
func follow(t *testing.T, standby, primary *pgtest.Cluster) {
	t.Helper()
	must.Do(t, standby.Follow(primary))
	db := must.Get(sql.Open("postgres", primary.URL))(t)
	defer db.Close()
	for connected := 0; connected == 0; {
		must.Do(t, db.QueryRow("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&connected))
	}
}

// execOn runs a statement on a server.
func execOn(c *pgtest.Cluster, statement string) error {
	db, err := sql.Open("postgres", c.URL)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(statement)
	return err
}

// Callers wait if the server has no free connection.
func TestServerWithoutFreeConnections(t *testing.T) {
	t.Parallel()
	c := cluster(t, "max_connections = 30", "superuser_reserved_connections = 0")
	held := func(schema string, wait time.Duration, hold func(*load)) *load {
		t.Logf("all connections are taken %s, and callers wait for %s", schema, wait)
		l := openNodes(t, 1, opener(t, c.URL, &postgres.Options{MaxConns: 5, RetryFor: wait, Schema: schema})).start()
		l.wait(t, 20)
		release := hog(t, c)
		hold(l)
		release()
		l.wait(t, 20)
		l.check(t)
		return l
	}
	held("for a moment", time.Hour, func(*load) { <-time.After(500 * time.Millisecond) }).served(t)
	held("for long", time.Second, func(l *load) { l.waitForRefusal(t) }).refused(t, 6*time.Second)
}

// hog takes all connections of a server that allows 30, including the vault's.
func hog(t *testing.T, c *pgtest.Cluster) (release func()) {
	t.Helper()
	db := must.Get(sql.Open("postgres", c.URL))(t)
	db.SetMaxIdleConns(1000)
	var held []*sql.Conn
	for misses := 0; misses < 20 || len(held) < 25; {
		conn, err := db.Conn(context.Background())
		if err != nil {
			misses++
		} else {
			held, misses = append(held, conn), 0
		}
		if len(held) > 0 {
			_, _ = held[0].ExecContext(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'vault'")
		}
	}
	return func() {
		for _, conn := range held {
			_ = conn.Close()
		}
		must.Do(t, db.Close())
	}
}

// A server that accepts no writes is a 503 and not ready. This holds for reads
// too, because they write log entries.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	readOnly(t, alone(cluster(t)))
}

func readOnly(t *testing.T, s *site) {
	t.Helper()
	c, n := s.server, s.nodes(t, 1, &postgres.Options{RetryFor: time.Second})
	l := n.start()
	l.wait(t, 20)
	set := func(value string) {
		must.Do(t, execOn(c, "ALTER SYSTEM SET default_transaction_read_only = "+value))
		must.Do(t, execOn(c, "SELECT pg_reload_conf()"))
	}
	set("on")
	l.waitForRefusal(t)
	s.ready(t, n, http.StatusServiceUnavailable)
	set("off")
	l.wait(t, 20)
	l.check(t)
	l.refused(t, 6*time.Second)
}
