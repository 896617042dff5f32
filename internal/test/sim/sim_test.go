//go:build !race

package sim

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

var (
	oneSeed = flag.Int64("seed", -1, "run the history of this seed alone; with -v print its trace")
	runFor  = flag.Duration("for", 0, "run histories of new seeds for this long")
	first   = flag.Bool("first", false, "end with the first failure, as it is")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// With one processor, goroutines that become ready at the same moment run in the
	// same order each time.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	egress.Intercept = func(t *http.Transport) { t.RegisterProtocol("https", receiver{}) }
	os.Exit(m.Run())
}

const (
	nodes    = 3
	clients  = 4
	requests = 40 // of each client
)

// result is the outcome of a history.
type result struct {
	steps    int
	sum      uint64
	took     time.Duration // in the history
	struck   []strike
	failures []string
}

// history runs a history.
func history(t *testing.T, p plan) (r result) {
	t.Helper()
	runtime.GC()
	t.Run(fmt.Sprint("seed ", p.seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.seed)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, p)
			pace.Woke = w.woke
			go w.play()
			w.drive()
			close(w.over)
			w.bury()
			r = result{w.step, w.sum, time.Since(w.began), w.struck, w.failures}
		})
	})
	return r
}

func newWorld(t *testing.T, p plan) *world {
	w := &world{
		TB: t, plan: p, db: model.New(), key: vault.NewKey(), own: vault.NewKey(), has: p.features(), outside: newOutside(), erased: map[storage.ID]int{}, began: time.Now(),
		arrived: make(chan struct{}, 1), over: make(chan struct{}), calm: true, slots: make([]*node, nodes), passed: map[int]int{},
	}
	w.book.reset()
	return w
}

// play is the script of a history.
func (w *world) play() {
	defer w.finish()
	ctx, stop := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	for slot := range nodes {
		kept.Go(func() { w.keep(ctx, slot) })
	}
	w.await(nodes)
	var all []*client
	for n := range clients {
		all = append(all, &client{w: w, n: n, made: map[string]string{}})
	}
	if err := w.prepare(ctx, w.live()[0].v, all); err != nil {
		w.failf("prepare: %v", err)
	} else {
		w.storm(all)
		w.settle()
	}
	stop()
	kept.Wait()
	for _, n := range w.live() {
		if err := w.end(n); err != nil {
			w.failf("close: %v", err)
		}
	}
	w.check()
}

// storm lets clients make requests while faults happen.
func (w *world) storm(all []*client) {
	w.setStorm()
	var work sync.WaitGroup
	for _, c := range all {
		work.Go(func() { c.run(requests) })
	}
	work.Wait()
	w.logf("the storm is over")
	w.setCalm()
	w.await(nodes)
}

// settle lets everything come to its end, and reads what is there.
func (w *world) settle() {
	w.outside.deny(false)
	w.woke()                    // after the last jump of time
	time.Sleep(3 * time.Minute) // longer than any hang, pause or lease
	last := &client{w: w, n: clients, tenants: w.tenants}
	last.must(last.endTenant(request{}))
	time.Sleep(15 * time.Second) // no node has the keys of the deleted tenant any more
	for _, tenant := range w.tenants {
		q := request{tenant: tenant}
		last.must(last.sweep(q))
		last.must(last.rotate(q)) // perhaps it ends an interrupted rotation
		last.must(last.rotate(q))
		for n := range 3 {
			last.must(last.once(q, fmt.Sprintf("once-%d-%d", slices.Index(w.tenants, tenant), n), 0))
		}
		for n := range 2 {
			last.must(last.once(q, fmt.Sprintf("leased-%d-%d", slices.Index(w.tenants, tenant), n), time.Minute))
		}
		for n := range 4 {
			for t := range w.tenants {
				last.must(last.get(q, fmt.Sprintf("token-%d-%d", t, n)))
			}
		}
	}
	w.drain()
	w.checkLive(context.Background(), w.live()[0].v)
}

// drain waits until no job is left and the sink has each entry, for half an hour at
// most.
func (w *world) drain() {
	for range 30 {
		if w.db.Open().Unfinished(time.Now()) == 0 && len(w.unsent()) == 0 {
			return
		}
		time.Sleep(time.Minute)
	}
}

// must makes a request that must not fail.
func (c *client) must(q request) {
	out := c.request(q, c.w.draw("last", 0))
	if out.unknown || out.value == noEffect {
		c.w.failf("%s failed in the calm", q)
	}
}

// await waits until n nodes are live.
func (w *world) await(n int) {
	for len(w.live()) < n {
		time.Sleep(100 * time.Millisecond)
	}
}

// bury ends the processes that died, whose goroutines were kept until now.
func (w *world) bury() {
	for _, n := range w.ghosts {
		if n.v != nil {
			_ = w.end(n)
		}
	}
}

// end closes the vault of a node. The goroutines of one that does not end would keep
// the bubble alive for ever, so it ends the test.
func (w *world) end(n *node) error {
	tooLong := time.AfterFunc(10*time.Minute, func() {
		panic(fmt.Sprintf("seed %d: %s does not end: a goroutine, slot or lease is left", w.seed, n.name()))
	})
	defer tooLong.Stop()
	return n.v.Close()
}

// shrink leaves out faults of a history that fails, as long as it still fails.
func shrink(t *testing.T, p plan, r result) (plan, result) {
	t.Helper()
	p.print = false
	for size := len(r.struck); size > 0; size /= 2 {
		for from := 0; from < len(r.struck); {
			try := plan{seed: p.seed, leave: maps.Clone(p.leave)}
			if try.leave == nil {
				try.leave = map[int]bool{}
			}
			for _, s := range r.struck[from:min(from+size, len(r.struck))] {
				try.leave[s.step] = true
			}
			if without := history(t, try); len(without.failures) > 0 {
				p, r = try, without
			} else {
				from += size
			}
		}
	}
	return p, r
}

// explain describes how to repeat a failure, and lists the faults that it takes.
func explain(p plan, r result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d failed; repeat it with go test ./internal/test/sim -run TestHistory -seed %d -v\n", p.seed, p.seed)
	for _, f := range r.failures {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	fmt.Fprintf(&b, "%d of its faults are enough, in %d steps:\n", len(r.struck), r.steps)
	for _, s := range r.struck {
		fmt.Fprintln(&b, " ", s.line)
	}
	return b.String()
}

// totals sums up histories.
type totals struct {
	histories, steps, faults, failed int
	took                             time.Duration
}

func (sum *totals) String() string {
	return fmt.Sprintf("%d histories of %s, %d steps, %d faults, %d failed", sum.histories, sum.took.Round(time.Minute), sum.steps, sum.faults, sum.failed)
}

// one runs a history, and reports its failures with as few faults as possible.
func (sum *totals) one(t *testing.T, p plan) {
	t.Helper()
	r := history(t, p)
	sum.histories, sum.steps, sum.faults, sum.took = sum.histories+1, sum.steps+r.steps, sum.faults+len(r.struck), sum.took+r.took
	if len(r.failures) > 0 {
		sum.failed++
		if *first {
			t.Fatal(explain(p, r))
		}
		text := explain(shrink(t, p, r))
		if *runFor > 0 {
			fmt.Println(text) // at once
		}
		t.Error(text)
	}
}

// TestHistory runs histories with random faults. The flag -seed runs one, and -for
// runs new ones for a time.
func TestHistory(t *testing.T) {
	var sum totals
	switch {
	case *oneSeed >= 0:
		sum.one(t, plan{seed: uint64(*oneSeed), print: testing.Verbose()})
	case *runFor > 0:
		report := time.Now().Add(time.Minute)
		for end, seed := time.Now().Add(*runFor), uint64(time.Now().UnixNano()); time.Now().Before(end) && sum.failed < 10; seed++ {
			sum.one(t, plan{seed: seed})
			if time.Now().After(report) {
				report = time.Now().Add(time.Minute)
				fmt.Println(&sum)
			}
		}
	default:
		for seed := range uint64(shortRun) {
			sum.one(t, plan{seed: seed})
		}
	}
	t.Log(&sum)
}

// found are seeds whose histories showed defects of the vault, with the mutants that
// bring the defects back. A change of the simulator changes what a seed means: then look
// for a seed that notices the mutant, with TestMutants.
var found = []struct {
	seed           uint64
	defect, mutant string
}{
	{4, "a node that had not read of the deletion of a tenant raised an alarm about its log", "sequence: deleted is tampered"},
}

// TestFound runs the histories that showed defects.
func TestFound(t *testing.T) {
	var sum totals
	for _, f := range found {
		sum.one(t, plan{seed: f.seed})
	}
	t.Log(&sum)
}

// shortRun is the number of histories without a flag. They take 20 s of CPU time.
const shortRun = 36
