//go:build unix

package jsruntime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

const noop = `module.exports = async (req) => ({ raw: req.args })`

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

// BenchmarkNoopAgainstNode compares CPU time, including the worker's.
func BenchmarkNoopAgainstNode(b *testing.B) {
	node, w := nodePath(b), newWorkers(b, nil)
	run := func(calls int) {
		for range calls {
			must.Get(w.Run(context.Background(), script.Program{Tenant: "t", Source: noop}, input1K, &fakeHost{}))(b)
		}
	}
	run(50)
	const rounds, calls = 9, 500
	var ratios []float64
	for range rounds {
		before := cpuTime(b)
		run(calls)
		ours := float64((cpuTime(b) - before).Microseconds()) / calls
		ratios = append(ratios, ours/nodeTime(b, node))
	}
	for b.Loop() { // a fixed number of rounds is enough
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[rounds/2], "ratio")
	b.ReportMetric(0, "ns/op")
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
