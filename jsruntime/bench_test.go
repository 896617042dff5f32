//go:build unix

package jsruntime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// The benchmarks report the ratio of two ways to do the same, measured in turns
// in one run, so that the ratio means the same on every machine.

const noop = `module.exports = async (req) => ({ raw: req.args })`

// busy takes about two milliseconds of JavaScript.
const busy = `module.exports = async (req) => { let n = 0; for (let i = 0; i < 10000; i++) n = (n + i * 7) % 1000003; return { raw: req.args, n } }`

// input1K is an input of about one kilobyte.
var input1K = func() json.RawMessage {
	type item struct {
		Name   string `json:"name"`
		Number string `json:"number"`
		Amount int    `json:"amount"`
		Ok     bool   `json:"ok"`
	}
	var items []item
	for i := range 14 {
		items = append(items, item{"customer " + strconv.Itoa(i), "4242424242424242", i * 1000, i%2 == 0})
	}
	out, _ := json.Marshal(map[string]any{"args": items, "configuration": map[string]string{"key": "value"}}) // cannot fail
	return out
}()

// ratio runs two functions in turns and reports the ratio of their typical
// times by a clock. A turn calls each function several times. prepare runs before
// each turn and is not measured.
func ratio(b *testing.B, limit float64, clock func(*testing.B) time.Duration, calls int, prepare, measured, reference func()) {
	b.Helper()
	timed := func(f func()) time.Duration {
		start := clock(b)
		for range calls {
			f()
		}
		return (clock(b) - start) / time.Duration(calls)
	}
	for range 20 {
		prepare()
		measured()
		reference()
	}
	var a, c []time.Duration
	for b.Loop() {
		prepare()
		a, c = append(a, timed(measured)), append(c, timed(reference))
	}
	report(b, limit, typical(a).Seconds()/typical(c).Seconds())
	b.ReportMetric(float64(typical(a).Microseconds()), "us/measured")
	b.ReportMetric(float64(typical(c).Microseconds()), "us/reference")
}

var began = time.Now()

// wallTime returns the time since the program began.
func wallTime(*testing.B) time.Duration { return time.Since(began) }

// report reports a ratio and its limit. A ratio above the limit is not a
// failure, because a busy machine changes it.
func report(b *testing.B, limit, x float64) {
	b.Helper()
	b.ReportMetric(x, "ratio")
	b.ReportMetric(limit, "limit")
	b.ReportMetric(0, "ns/op")
}

// typical returns the lower quartile, which noise hardly changes.
func typical(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/4]
}

func mustRun(b *testing.B, r script.Runtime, tenant, source string) {
	b.Helper()
	must.Get(r.Run(context.Background(), script.Program{Tenant: tenant, Source: source}, input1K, &fakeHost{}))(b)
}

// BenchmarkTenants compares tenants with separate workers to tenants that share
// workers, taking turns. In one case each turn starts as soon as the previous
// one ends, so that all but the first few must wait for a process. In the
// other, spare processes are always available.
func BenchmarkTenants(b *testing.B) {
	for _, c := range []struct {
		tenants int
		limit   float64 // if spare processes are available
		pressed float64 // if not
	}{{1, 1.3, 1.3}, {10, 10, 60}, {100, 10, 60}} {
		own, shared := newWorkers(b, nil), newWorkers(b, &jsruntime.Options{ShareWorkers: true})
		take := func(r *jsruntime.Workers) func() {
			turn := 0
			return func() {
				turn++
				mustRun(b, r, strconv.Itoa(turn%c.tenants), noop)
			}
		}
		b.Run(strconv.Itoa(c.tenants)+" tenants", func(b *testing.B) {
			ratio(b, c.limit, wallTime, 1, func() { awaitSpares(own) }, take(own), take(shared))
		})
		b.Run(strconv.Itoa(c.tenants)+" tenants without a pause", func(b *testing.B) {
			ratio(b, c.pressed, wallTime, 1, func() {}, take(own), take(shared))
		})
	}
}

// awaitSpares returns when the runtime has its two spare processes.
func awaitSpares(w *jsruntime.Workers) {
	for w.Stats().Spare < 2 {
		runtime.Gosched()
	}
}

// BenchmarkWorkerAgainstInProcess compares CPU time, including the worker's. On
// a busy machine, elapsed time would say more about other processes.
func BenchmarkWorkerAgainstInProcess(b *testing.B) {
	w, in := newWorkers(b, nil), jsruntime.NewInProcess(nil)
	for _, c := range []struct {
		name, source string
		limit        float64
	}{{"noop 1KB", noop, 1.3}, {"2ms of JavaScript", busy, 1.2}} {
		b.Run(c.name, func(b *testing.B) {
			ratio(b, c.limit, cpuTime, 20, func() {}, func() { mustRun(b, w, "t", c.source) }, func() { mustRun(b, in, "t", c.source) })
		})
	}
}

// BenchmarkNoopAgainstNode compares CPU time, including the worker's.
func BenchmarkNoopAgainstNode(b *testing.B) {
	node := nodePath(b)
	w := newWorkers(b, nil)
	for range 50 {
		mustRun(b, w, "t", noop)
	}
	const rounds, calls = 9, 500
	var ratios []float64
	for range rounds {
		before := cpuTime(b)
		for range calls {
			mustRun(b, w, "t", noop)
		}
		ours := float64((cpuTime(b) - before).Microseconds()) / calls
		ratios = append(ratios, ours/nodeTime(b, node))
	}
	for b.Loop() { // a fixed number of rounds is enough
	}
	slices.Sort(ratios)
	report(b, 1.0/3, ratios[rounds/2])
}

// nodeTime returns the CPU time of a call in Node, in microseconds.
func nodeTime(b *testing.B, node string) float64 {
	b.Helper()
	out := must.Get(exec.Command(node, "testdata/node/loop.js", noop, string(input1K)).Output())(b)
	return must.Get(strconv.ParseFloat(strings.TrimSpace(string(out)), 64))(b)
}

// cpuTime returns the CPU time of this process and of its running children.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var self syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended
		}
		for _, pid := range bytes.Fields(pids) {
			tasks, _ := filepath.Glob("/proc/" + string(pid) + "/task/*/schedstat")
			for _, task := range tasks {
				if sched, err := os.ReadFile(task); err == nil {
					ns, _ := strconv.ParseInt(string(bytes.Fields(sched)[0]), 10, 64)
					total += time.Duration(ns)
				}
			}
		}
	}
	return total
}
