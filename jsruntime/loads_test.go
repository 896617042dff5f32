//go:build unix

package jsruntime_test

import (
	"context"
	"os/exec"
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

// BenchmarkLoads compares CPU time with Node's. It uses no workers, because
// their processes come and go. Put the Node to compare with first in PATH.
func BenchmarkLoads(b *testing.B) {
	node := nodePath(b)
	in := jsruntime.NewInProcess(nil)
	for name, body := range readParts(b, "testdata/node/loads.js") {
		b.Run(name, func(b *testing.B) {
			once := func() float64 {
				before := cpuTime(b)
				must.Get(in.Run(context.Background(), script.Program{Tenant: "t", Source: asFunction(body)}, nil, &fakeHost{}))(b)
				return float64((cpuTime(b) - before).Microseconds())
			}
			once()
			ours := []float64{once(), once(), once()}
			for b.Loop() { // a fixed number of rounds is enough
			}
			out := must.Get(exec.Command(node, "testdata/node/load.js", body).Output())(b)
			theirs := must.Get(strconv.ParseFloat(strings.TrimSpace(string(out)), 64))(b)
			b.ReportMetric(slices.Min(ours)/1000, "ms/ours")
			b.ReportMetric(theirs/1000, "ms/node")
			b.ReportMetric(slices.Min(ours)/theirs, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var self syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	return time.Duration(self.Utime.Nano() + self.Stime.Nano())
}
