package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestLargeBodiesDoNotFillTheMemory sends many bodies of 5 MiB at once, whose
// JSON takes as much memory as JSON of that size can. Each is stored or
// refused, and the process stays below 1.5 GiB.
func TestLargeBodiesDoNotFillTheMemory(t *testing.T) {
	const most = 3 << 29
	t.Setenv("GOGC", "") // as an operator starts the process
	requests := long.Rounds(20, 32)
	p := start(t, t.TempDir())
	creds := p.credentials()
	piece := "[],"
	body := `{"type":"token","data":[` + strings.Repeat(piece, (5<<20-100)/len(piece)) + `[]]}`
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			status, _ := call(t, "POST", creds.BaseURL+"/tokens", creds.PrivateKey, body)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	all.Wait()
	peak := p.peak()
	t.Logf("peak %d MiB, statuses %v", peak>>20, statuses)
	if statuses[201] == 0 || statuses[201]+statuses[503] != requests {
		t.Errorf("statuses %v, want 201 or 503", statuses)
	}
	if peak > most {
		t.Errorf("the process took %d MiB, want at most %d", peak>>20, most>>20)
	}
	wants(t, 201, "POST", creds.BaseURL+"/tokens", creds.PrivateKey, `{"type":"token","data":1}`)
	p.stop()
}

// peak returns the peak memory of the process.
func (p *process) peak() int64 {
	p.t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid)))(p.t)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb := must.Get(strconv.ParseInt(strings.Fields(rest)[0], 10, 64))(p.t)
	return kb << 10
}
