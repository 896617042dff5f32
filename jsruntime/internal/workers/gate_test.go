package workers

import (
	"context"
	"runtime"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// enqueue starts a waiter and returns once it is in the queue.
func enqueue(t *testing.T, g *gate, v visitor, in chan<- string) {
	t.Helper()
	before := g.waiting()
	go func() {
		if err := g.take(context.Background(), v); err == nil {
			in <- v.tenant
		} else {
			in <- err.Error()
		}
	}()
	for g.waiting() == before {
		runtime.Gosched()
	}
}

func TestGateQueueBound(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 1, TenantWorkers: 1, Queue: 2}.gates()[0]
	must.Do(t, g.take(context.Background(), visitor{tenant: "a"}))
	in := make(chan string, 4)
	enqueue(t, g, visitor{tenant: "a"}, in)
	must.Match(t, "a second waiter of one tenant", g.take(context.Background(), visitor{tenant: "a"}), script.ErrBusy)
	enqueue(t, g, visitor{tenant: "b"}, in)
	must.Match(t, "a waiter beyond the queue", g.take(context.Background(), visitor{tenant: "c"}), script.ErrBusy)
	g.close()
	for range 2 {
		must.Same(t, "a waiter of a closed gate", script.ErrClosed.Error(), <-in)
	}
}

// Runs caused by strangers leave half of the tenant's places and half of its
// queue to the tenant's own runs.
func TestAnonymousCallsLeavePlacesForTheTenant(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 8, TenantWorkers: 4, Queue: 8}.gates()[0]
	stranger, owner := visitor{"a", true}, visitor{"a", false}
	for range 2 {
		must.Do(t, g.take(t.Context(), stranger))
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	must.Match(t, "a third stranger", g.take(gone, stranger), context.Canceled)
	for range 2 {
		must.Match(t, "the tenant itself", g.take(t.Context(), owner), nil)
	}
	in := make(chan string, 3)
	for range 2 {
		enqueue(t, g, stranger, in)
	}
	must.Match(t, "a stranger beyond the queue", g.take(t.Context(), stranger), script.ErrBusy)
	enqueue(t, g, owner, in) // still has room to wait
	g.leave(owner)
	if <-in; g.waiting() != 2 {
		t.Error("a stranger got the place of the tenant")
	}
	g.leave(stranger)
	if <-in; g.waiting() != 1 {
		t.Error("a stranger did not get the place of a stranger")
	}
	g.leave(stranger)
	<-in
}

// TestNestedPlaces starts two outermost runs that each start four runs. As many
// run as there are places, and the rest wait. Their own nested runs have
// separate places and do not wait for them.
func TestNestedPlaces(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 2, TenantWorkers: 2, Queue: -1}.gates()
	enter := func(ctx context.Context) (context.Context, func()) {
		ctx, leave, err := g.enter(ctx, &script.Program{Tenant: "t"})
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		return ctx, leave
	}
	type run struct {
		ctx   context.Context
		leave func()
	}
	inner := make(chan run, 2*nestedWidth)
	for range 2 {
		outer, leave := enter(t.Context())
		defer leave()
		for range nestedWidth {
			go func() {
				ctx, leave := enter(outer)
				inner <- run{ctx, leave}
			}()
		}
	}
	for g[1].waiting() < 2*nestedWidth-2 {
		runtime.Gosched()
	}
	for range 2 * nestedWidth {
		if n := len(inner); n > 2 {
			t.Fatalf("%d nested runs are running, want 2", n)
		}
		r := <-inner
		ctx, leave := enter(r.ctx)
		if _, _, err := g.enter(ctx, &script.Program{Tenant: "t"}); err == nil {
			t.Error("a run of the fourth depth was admitted")
		}
		leave()
		r.leave()
	}
}
