package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// ranIn runs code of a tenant and returns the process in which it ran.
func ranIn(t *testing.T, r *Pool, tenant string) int {
	t.Helper()
	p := script.Program{Tenant: tenant, Source: "module.exports = () => 1"}
	must.Get(r.Run(t.Context(), p, nil, noHost{}))(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle[len(r.idle)-1].cmd.Process.Pid
}

// TestTenantsHaveTheirOwnWorkers lets tenants take turns. Processes are
// numbered in the order in which they first appear. With two places, the third
// tenant takes the place of the first, which then gets a new process.
func TestTenantsHaveTheirOwnWorkers(t *testing.T) {
	t.Parallel()
	turns := []string{"a", "b", "a", "b", "c", "c", "a"}
	for name, c := range map[string]struct {
		options Options
		want    []int
	}{
		"own":       {Options{Workers: 2}, []int{1, 2, 1, 2, 3, 3, 4}},
		"one place": {Options{Workers: 1}, []int{1, 2, 3, 4, 5, 5, 6}},
		"shared":    {Options{Workers: 1, ShareWorkers: true}, []int{1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New(&c.options)
			t.Cleanup(func() { _ = r.Close() })
			seen, got := map[int]int{}, []int{}
			for _, tenant := range turns {
				pid := ranIn(t, r, tenant)
				if seen[pid] == 0 {
					seen[pid] = len(seen) + 1
				}
				got = append(got, seen[pid])
			}
			must.Same(t, "processes", c.want, got)
		})
	}
}

// TestProcessesAreBounded has many tenants whose runs wait for runs of other
// tenants, three deep. None of them blocks, and there are never more processes
// than Options.Workers allows.
func TestProcessesAreBounded(t *testing.T) {
	t.Parallel()
	const workers, most = 2, 3*2 + maxSpare
	r := New(&Options{Workers: workers, TenantWorkers: 1, Queue: 100})
	t.Cleanup(func() { _ = r.Close() })
	const source = `module.exports = async ({ args, bt }) => args < 3 ? 1 + await bt.reactors.react(String(args + 1)) : 1`
	run := func(ctx context.Context, tenant string, depth int, host script.Host) (json.RawMessage, error) {
		input := fmt.Appendf(nil, `{"args":%d,"application":true}`, depth)
		return r.Run(ctx, script.Program{Tenant: tenant, Source: source}, input, host)
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			host := &nestingHost{run: func(ctx context.Context, depth int, h script.Host) (json.RawMessage, error) {
				r.mu.Lock()
				n := len(r.busy) + len(r.idle) + len(r.spare)
				r.mu.Unlock()
				if n > most {
					t.Errorf("%d processes, want at most %d", n, most)
				}
				return run(ctx, fmt.Sprintf("tenant %d", (i+depth)%5), depth, h)
			}}
			if out, err := run(t.Context(), fmt.Sprintf("tenant %d", i%5), 1, host); err != nil || string(out) != "3" {
				t.Errorf("got %s, %v, want 3", out, err)
			}
		})
	}
	all.Wait()
}

// nestingHost responds to a call with a run that is one level deeper.
type nestingHost struct {
	noHost
	run func(ctx context.Context, depth int, host script.Host) (json.RawMessage, error)
}

// Call runs the next depth, which the code passes as the id of a reactor.
func (h *nestingHost) Call(ctx context.Context, _ string, args json.RawMessage) (json.RawMessage, error) {
	var named struct {
		ID int `json:"id,string"`
	}
	if err := json.Unmarshal(args, &named); err != nil {
		return nil, err
	}
	return h.run(ctx, named.ID, h)
}

// TestReadyStartsNothing calls Ready again and again, as a probe does. The
// spare workers stay.
func TestReadyStartsNothing(t *testing.T) {
	t.Parallel()
	r := New(nil)
	t.Cleanup(func() { _ = r.Close() })
	processes := func() []int {
		r.spares.Wait()
		var pids []int
		for _, w := range r.spare {
			pids = append(pids, w.cmd.Process.Pid)
		}
		slices.Sort(pids)
		return pids
	}
	before := processes()
	for range 10 {
		must.Do(t, r.Ready(t.Context()))
	}
	if diff := cmp.Diff(before, processes()); diff != "" || len(before) != maxSpare {
		t.Errorf("got other processes, want the same %d (-before +after):\n%s", maxSpare, diff)
	}
}
