package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// childWorks makes the child a node that runs jobs, instead of a writer. Its
// value is how far the node's clock is ahead.
const childWorks = "VAULT_FAULTS_WORKS"

// workUntilKilled runs asynchronous reactors until the process is killed.
func workUntilKilled(ctx context.Context, dsn string) error {
	ahead, err := time.ParseDuration(os.Getenv(childWorks))
	if err != nil {
		return err
	}
	_, err = openInChild(ctx, dsn, &vault.Config{
		Runtime: jsruntime.New(nil), WorkEvery: 100 * time.Millisecond, Now: func() time.Time { return time.Now().Add(ahead) },
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

// callbacks counts the callbacks that a receiver got, by the number of the run.
type callbacks struct {
	*httptest.Server
	mu      sync.Mutex
	got     map[int]int
	started chan struct{} // closed when a run has started on any node
	first   sync.Once
	all     chan struct{}
	want    int
}

func newCallbacks(t *testing.T, want int) *callbacks {
	t.Helper()
	c := &callbacks{got: map[int]int{}, started: make(chan struct{}), all: make(chan struct{}), want: want}
	mux := http.NewServeMux()
	mux.HandleFunc("/started", func(http.ResponseWriter, *http.Request) { c.first.Do(func() { close(c.started) }) })
	mux.HandleFunc("/hook", func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Raw struct{ N int } }
		text, _ := io.ReadAll(r.Body)
		if json.Unmarshal(text, &body) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.got[body.Raw.N]++; len(c.got) == c.want && c.all != nil {
			close(c.all)
			c.all = nil
		}
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

// slowCode tells the test that it has started, takes 300 ms, and responds.
const slowCode = `module.exports = async (req) => {
	await fetch(req.configuration.URL + '/started');
	await new Promise((done) => setTimeout(done, 300));
	return {raw: {N: req.args.n}};
}`

// TestEveryCallbackIsDeliveredAfterANodeIsKilled runs two nodes on one
// database and kills one in the middle of its runs. In the short run the other
// node's clock is ahead, so that the leases of the first have expired.
func TestEveryCallbackIsDeliveredAfterANodeIsKilled(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, _, dsn string) {
		deliverThoughKilled(t, dsn)
	})
}

func deliverThoughKilled(t *testing.T, dsn string) {
	t.Helper()
	count, ahead := long.Rounds(6, 24), time.Duration(long.Rounds(int(2*runs.JobLease), 0))
	key := vault.NewKey()
	v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	hooks := newCallbacks(t, count)
	all := hooks.all
	c := v.Tenant(tenant.ID)
	reactor := must.Get(c.CreateReactor(t.Context(), vault.ReactorParams{Name: "slow", Code: slowCode, Configuration: map[string]string{"URL": hooks.URL}}))(t)
	victim := startNode(t, dsn, key, 0)
	for n := range count {
		p := vault.ReactParams{Args: map[string]int{"n": n}, CallbackURL: hooks.URL + "/hook"}
		must.Get(c.ReactAsync(t.Context(), reactor.ID, p))(t)
	}
	<-hooks.started
	must.Do(t, victim.Process.Kill())
	_ = victim.Wait()
	startNode(t, dsn, key, ahead)
	<-all
}

// startNode starts a child that runs jobs, with its clock ahead by this much.
// The child ends with the test.
func startNode(t *testing.T, dsn string, key *vault.Key, ahead time.Duration) *child {
	t.Helper()
	node := startChild(t, dsn, key, childWorks+"="+ahead.String())
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	must.Get(node.out.ReadString('\n'))(t) // it has started
	return node
}
