package workers

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// enqueue starts a waiter and returns once it is in the queue.
func enqueue(t *testing.T, g *gate, tenant string, in chan<- string) {
	t.Helper()
	before := g.Waiting()
	go func() {
		if err := g.take(context.Background(), tenant); err == nil {
			in <- tenant
		} else {
			in <- err.Error()
		}
	}()
	for g.Waiting() == before {
		runtime.Gosched()
	}
}

func TestGateOrder(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 2, TenantWorkers: 2, Queue: 6}.gates()[0]
	for range 2 {
		if err := g.take(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	in := make(chan string, 6)
	for _, tenant := range []string{"a", "a", "b"} {
		enqueue(t, g, tenant, in)
	}
	var got []string
	for range 3 {
		g.Give("a")
		next := <-in
		got = append(got, next)
		if next == "b" {
			g.Give("b")
			got = append(got, <-in)
			break
		}
	}
	if want := []string{"b", "a"}; !slices.Equal(got, want) {
		t.Errorf("admitted %v, want %v first, because the tenant with the fewest runs comes first", got, want)
	}
}

func TestGateQueueBound(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 1, TenantWorkers: 1, Queue: 2}.gates()[0]
	if err := g.take(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	in := make(chan string, 4)
	enqueue(t, g, "a", in)
	if err := g.take(context.Background(), "a"); !errors.Is(err, script.ErrBusy) {
		t.Errorf("a second waiter of one tenant got %v, want ErrBusy", err)
	}
	enqueue(t, g, "b", in)
	if err := g.take(context.Background(), "c"); !errors.Is(err, script.ErrBusy) {
		t.Errorf("a waiter beyond the queue got %v, want ErrBusy", err)
	}
	g.Close()
	for range 2 {
		if got := <-in; got != script.ErrClosed.Error() {
			t.Errorf("a waiter of a closed gate got %q", got)
		}
	}
}

// TestNestedPlaces starts two outermost runs that each start four runs. As many
// run as there are places, and the rest wait. Their own nested runs have
// separate places and do not wait for them.
func TestNestedPlaces(t *testing.T) {
	t.Parallel()
	g := Options{Workers: 2, TenantWorkers: 2, Queue: -1}.gates()
	enter := func(ctx context.Context) (context.Context, func()) {
		ctx, leave, err := g.enter(ctx, "t")
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
	for g[1].Waiting() < 2*nestedWidth-2 {
		runtime.Gosched()
	}
	for range 2 * nestedWidth {
		if n := len(inner); n > 2 {
			t.Fatalf("%d nested runs are running, want 2", n)
		}
		r := <-inner
		ctx, leave := enter(r.ctx)
		if _, _, err := g.enter(ctx, "t"); err == nil {
			t.Error("a run of the fourth depth was admitted")
		}
		leave()
		r.leave()
	}
}
