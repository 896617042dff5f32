package admission

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const mib = 1 << 20

// newProcess returns a process with 1 GiB and the given patience.
func newProcess(patience time.Duration) *Process {
	p := New(1 << 30)
	p.memory.patience = patience
	return p
}

// empty fails the test if memory or places are still in use or waited for.
func (p *Process) empty(t *testing.T) {
	t.Helper()
	if m := &p.memory; m.used.Load() != 0 || m.small.Load() != 0 || m.onTheWay != 0 || len(m.held) != 0 || len(m.coming) != 0 || len(m.waiting) != 0 || m.queued.Load() != 0 {
		t.Errorf("memory is still held: %d bytes, %d for small bodies, %d arriving, %d tenants, %d waiting", m.used.Load(), m.small.Load(), m.onTheWay, len(m.held), len(m.waiting))
	}
	for name, l := range map[string]*share.Slots[payer]{"cpu": p.cpu, "writes": p.writes} {
		must.Same(t, name+": places taken, callers that wait", []any{0, 0}, []any{l.Taken(), l.Waiting()})
	}
}

// One tenant may use half of the memory. Large requests leave its last eighth
// to small ones.
func TestShares(t *testing.T) {
	t.Parallel()
	p := newProcess(0)
	strangers := p.Enter(uuid.New(), uuid.UUID{}, true, nil)
	one, two := p.Enter(uuid.New(), uuid.UUID{}, false, nil), p.Enter(uuid.New(), uuid.UUID{}, false, nil)
	steps := []struct {
		name  string
		room  *Room
		bytes int
		want  error
	}{
		{"more than a share", one, 513 * mib, ErrNever},
		{"more than a large request may have", one, 449 * mib, ErrNever},
		{"all that a large request may have", one, 448 * mib, nil},
		{"another tenant", two, 448 * mib, nil},
		{"a large request of a third", p.Enter(uuid.New(), uuid.UUID{}, false, nil), 2 * mib, ErrFull},
		{"a small request of the first", one, mib, nil},
		{"so much that the first could never have it", one, 100 * mib, ErrNever},
		{"more than strangers may have", strangers, 225 * mib, ErrNever},
	}
	for _, s := range steps {
		must.Match(t, s.name, s.room.Reserve(t.Context(), s.bytes), s.want)
	}
	must.Same(t, "bytes that the first holds", 449*mib, one.Held())
	one.Leave()
	two.Leave()
	p.empty(t)
}

// Arriving bodies may use half of a share, so that complete bodies can be
// handled.
func TestArrivingBodiesHaveHalfAShare(t *testing.T) {
	t.Parallel()
	p := newProcess(0)
	tenant := uuid.New()
	slow := p.Enter(tenant, uuid.UUID{}, false, nil)
	must.Do(t, slow.Arrive(t.Context(), 256*mib))
	next := p.Enter(tenant, uuid.UUID{}, false, nil)
	must.Match(t, "another body", next.Arrive(t.Context(), 2*mib), ErrFull)
	must.Match(t, "work", next.Reserve(t.Context(), 100*mib), nil)
	slow.Arrived()
	must.Match(t, "another body after the first has arrived", next.Arrive(t.Context(), 2*mib), nil)
	must.Same(t, "bytes that the slow and the next request hold", []any{0, 102 * mib}, []any{slow.Held(), next.Held()})
	next.Leave()
	p.empty(t)
}

// A body is charged once, even if it is parsed several times.
func TestBodyIsChargedOnce(t *testing.T) {
	t.Parallel()
	p := newProcess(0)
	r := p.Enter(uuid.New(), uuid.UUID{}, false, nil)
	for range 2 {
		must.Do(t, r.Body(t.Context(), mib))
	}
	must.Same(t, "bytes held", mib, r.Held())
	r.Free(mib / 2)
	must.Same(t, "bytes held after releasing half", mib/2, r.Held())
	r.Leave()
	p.empty(t)
}

// Arriving bodies first delay requests of the same application. The only
// request of an application may take as much as the tenant has.
func TestArrivingBodiesCountForTheirApplication(t *testing.T) {
	t.Parallel()
	p := newProcess(0)
	tenant, slow, quick := uuid.New(), uuid.New(), uuid.New()
	enter := func(app uuid.UUID) *Room { return p.Enter(tenant, app, false, nil) }
	most := int(p.memory.share(payer{id: tenant}) / 4) // limit for one application
	first := enter(slow)
	for range 2 {
		if err := first.Arrive(t.Context(), most*3/4); err != nil {
			t.Fatalf("the only request of an application: %v", err)
		}
	}
	second, other := enter(slow), enter(quick)
	must.Match(t, "another request of the application", second.Arrive(t.Context(), 1024), ErrFull)
	must.Match(t, "a request of another application", other.Arrive(t.Context(), most/4), nil)
	first.Arrived()
	must.Match(t, "after the slow body has arrived", second.Arrive(t.Context(), 1024), nil)
	for _, r := range []*Room{first, second, other} {
		r.Leave()
	}
	p.empty(t)
}

// Released memory goes to the first waiting request that it is enough for.
func TestReleasedMemoryGoesToTheNext(t *testing.T) {
	t.Parallel()
	p := newProcess(time.Minute)
	tenant := uuid.New()
	first, large, small := p.Enter(tenant, uuid.UUID{}, false, nil), p.Enter(tenant, uuid.UUID{}, false, nil), p.Enter(tenant, uuid.UUID{}, false, nil)
	must.Do(t, first.Reserve(t.Context(), 400*mib))
	var waiting sync.WaitGroup
	hold := func(r *Room, bytes int) {
		waiting.Go(func() {
			if err := r.Reserve(t.Context(), bytes); err != nil {
				t.Error(err)
			}
		})
	}
	hold(large, 300*mib)
	hold(small, 60*mib)
	for p.waiters() != 2 {
		runtime.Gosched()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must.Match(t, "a canceled caller", p.Enter(tenant, uuid.UUID{}, false, nil).Reserve(gone, 100*mib), context.Canceled)
	first.Free(40 * mib) // enough only for the small request
	for p.waiters() != 1 {
		runtime.Gosched()
	}
	must.Same(t, "bytes of the large request", 0, large.Held())
	first.Leave()
	waiting.Wait()
	large.Leave()
	small.Leave()
	p.empty(t)
}

// smallText is JSON for which Parse charges smallCharge bytes.
var (
	smallText   = []byte(`{"data":"4242424242424242"}`)
	smallCharge = int64(len(smallText) + jsonx.Weight(smallText))
)

// Small bodies draw on an eighth of a tenant's share by one counter. When it is used up,
// or when half of all memory is in use, they ask as others do.
func TestSmallBodiesDrawOnAnEighth(t *testing.T) {
	t.Parallel()
	p := New(16 << 10 * smallCharge)
	eighth := int(p.memory.share(payer{}) / 8 / smallCharge)
	var rooms []*Room
	parse := func(tenant uuid.UUID, anonymous bool) *Room {
		r := p.Enter(tenant, uuid.UUID{}, anonymous, nil)
		must.Do(t, r.Parse(t.Context(), smallText))
		rooms = append(rooms, r)
		return r
	}
	for i := range eighth {
		r := parse(uuid.UUID{byte(i)}, false)
		must.Same(t, "bytes held by the room", int(smallCharge), r.Held())
		must.Do(t, r.Parse(t.Context(), smallText)) // is charged once
	}
	must.Same(t, "bytes drawn, and other bytes", []int64{int64(eighth) * smallCharge, 0}, []int64{p.memory.small.Load(), p.memory.used.Load()})
	parse(uuid.UUID{1}, false)
	must.Same(t, "other bytes when the eighth is used up", smallCharge, p.memory.used.Load())
	rooms[0].Leave()
	parse(uuid.UUID{1}, true)
	must.Same(t, "other bytes for an anonymous call, whose share is half as large", 2*smallCharge, p.memory.used.Load())
	parse(uuid.UUID{1}, false)
	must.Same(t, "other bytes after a small body has left", 2*smallCharge, p.memory.used.Load())

	for _, r := range rooms {
		r.Leave()
	}
	p.empty(t)
	large := p.Enter(uuid.New(), uuid.UUID{}, false, nil)
	must.Do(t, large.Reserve(t.Context(), int(p.memory.limit*7/16)))
	other := p.Enter(uuid.New(), uuid.UUID{}, false, nil)
	must.Do(t, other.Reserve(t.Context(), int(p.memory.limit/16)))
	r := parse(uuid.UUID{1}, false)
	must.Same(t, "bytes drawn when half of the memory is in use", int64(0), p.memory.small.Load())
	for _, r := range []*Room{large, other, r} {
		r.Leave()
	}
	exact, longer := append(bytes.Repeat([]byte(" "), LargeText-2), "{}"...), append(bytes.Repeat([]byte(" "), LargeText-1), "{}"...)
	for text, drawn := range map[string]bool{string(exact): true, string(longer): false} {
		r := p.Enter(uuid.New(), uuid.UUID{}, false, nil)
		must.Do(t, r.Parse(t.Context(), []byte(text)))
		must.Same(t, "a body of "+strconv.Itoa(len(text))+" bytes draws", drawn, p.memory.small.Load() > 0)
		r.Leave()
	}
	p.empty(t)
}

// Whatever is charged in whatever order, a tenant has at most its share, and all
// tenants have at most the limit.
func TestSmallBodiesKeepTheLimits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		p := New(1024 * smallCharge)
		p.memory.patience = 0
		held, rooms := map[payer]int64{}, []*Room(nil)
		for range 1000 {
			r := p.Enter(uuid.UUID{byte(rnd.IntN(3))}, uuid.UUID{}, rnd.IntN(4) == 0, nil)
			var err error
			switch rnd.IntN(3) {
			case 0:
				err = r.Parse(t.Context(), smallText)
			case 1:
				err = r.Reserve(t.Context(), 1+rnd.IntN(int(smallCharge)))
			default:
				err = r.Reserve(t.Context(), 1+rnd.IntN(int(p.memory.limit/4)))
			}
			if err == nil {
				rooms = append(rooms, r)
				held[r.payer] += int64(r.Held())
			}
			if len(rooms) > 0 && rnd.IntN(3) == 0 {
				i := rnd.IntN(len(rooms))
				held[rooms[i].payer] -= int64(rooms[i].Held())
				rooms[i].Leave()
				rooms = slices.Delete(rooms, i, i+1)
			}
			total := int64(0)
			for of, bytes := range held {
				if total += bytes; bytes > p.memory.share(of) {
					t.Fatalf("seed %d: a tenant holds %d of %d bytes", seed, bytes, p.memory.share(of))
				}
			}
			if total > p.memory.limit {
				t.Fatalf("seed %d: tenants hold %d of %d bytes", seed, total, p.memory.limit)
			}
		}
		for _, r := range rooms {
			r.Leave()
		}
		p.empty(t)
	}
}

// A request that waits because of small bodies gets their memory.
func TestSmallBodiesLeaveToThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(1024 * smallCharge)
		tenant := uuid.New()
		body := p.Enter(tenant, uuid.UUID{}, false, nil)
		must.Do(t, body.Parse(t.Context(), smallText))
		var rooms []*Room
		for range 511 { // a small request each
			r := p.Enter(tenant, uuid.UUID{}, false, nil)
			must.Do(t, r.Reserve(t.Context(), int(smallCharge)))
			rooms = append(rooms, r)
		}
		last := p.Enter(tenant, uuid.UUID{}, false, nil)
		go func() {
			if err := last.Reserve(t.Context(), int(smallCharge)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		must.Same(t, "waiting requests beside a small body", 1, p.waiters())
		body.Leave()
		synctest.Wait()
		must.Same(t, "waiting requests without it", 0, p.waiters())
		for _, r := range append(rooms, last) {
			r.Leave()
		}
		p.empty(t)
	})
}

// Small bodies and other requests at the same time leave nothing behind.
func TestSmallBodiesBesideOthers(t *testing.T) {
	t.Parallel()
	p := New(64 * smallCharge)
	p.memory.patience = time.Minute
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 500 {
				r := p.Enter(uuid.UUID{byte(n % 2)}, uuid.UUID{}, false, nil)
				err := r.Parse(t.Context(), smallText)
				if n > 3 {
					err = cmp.Or(err, r.Reserve(t.Context(), int(smallCharge)*3))
				}
				if err != nil {
					t.Error(err)
				}
				r.Leave()
			}
		})
	}
	all.Wait()
	p.empty(t)
}

func (p *Process) waiters() int {
	p.memory.mu.Lock()
	defer p.memory.mu.Unlock()
	return len(p.memory.waiting)
}

// One tenant never has all CPUs, and a turn passes to a waiting tenant.
func TestTurnsOfTenants(t *testing.T) {
	t.Parallel()
	p := New(1 << 30)
	p.cpu = share.New[payer](share.Limits{Total: 2, Each: 1})
	busy, other, third := p.Enter(uuid.New(), uuid.UUID{}, false, nil), p.Enter(uuid.New(), uuid.UUID{}, false, nil), p.Enter(uuid.New(), uuid.UUID{}, false, nil)
	again := p.Enter(busy.payer.id, uuid.UUID{}, false, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range []*Room{busy, busy, other} { // a room keeps its turn
		must.Do(t, r.Turn(t.Context()))
	}
	for name, r := range map[string]*Room{"the same tenant": again, "a third tenant": third} {
		must.Match(t, name, r.Turn(gone), context.Canceled)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := third.Turn(t.Context()); err != nil {
			t.Error(err)
		}
		third.Rest()
	})
	for p.cpu.Waiting() == 0 {
		runtime.Gosched()
	}
	if err := busy.Turn(t.Context()); err != nil { // the third tenant goes first
		t.Error(err)
	}
	waiting.Wait()
	for _, r := range []*Room{busy, other, again, third} {
		r.Leave()
	}
	p.empty(t)
}

// Large changes of a tenant are written one at a time. Changes of another
// tenant do not wait for them.
func TestLargeWrites(t *testing.T) {
	t.Parallel()
	p := New(1 << 30)
	p.writes = share.New[payer](share.Limits{Total: 2, Each: 1})
	tenant := uuid.New()
	done := must.Get(p.Enter(tenant, uuid.UUID{}, false, nil).Write(t.Context()))(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(p.Enter(tenant, uuid.UUID{}, false, nil).Write(gone))(t, "the same tenant", context.Canceled)
	other := must.Get(p.Enter(uuid.New(), uuid.UUID{}, false, nil).Write(t.Context()))(t)
	done()
	other()
	p.empty(t)
}

// A large change does not wait forever for earlier ones, which may wait for
// the database.
func TestLargeWritesTimeOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(0)
		tenant := uuid.New()
		done := must.Get(p.Enter(tenant, uuid.UUID{}, false, nil).Write(t.Context()))(t)
		for range 3 {
			start := time.Now()
			_, err := p.Enter(tenant, uuid.UUID{}, false, nil).Write(t.Context())
			if waited := time.Since(start); !errors.Is(err, ErrFull) || waited != writePatience {
				t.Errorf("a change behind another: %v after %s, want ErrFull after %s", err, waited, writePatience)
			}
		}
		done()
		p.empty(t)
	})
}

// A request without a room has no limits.
func TestNilRoomHasNoLimits(t *testing.T) {
	t.Parallel()
	r := Of(t.Context())
	if r != nil {
		t.Fatal("a room without Enter")
	}
	done := must.Get(r.Write(t.Context()))(t)
	done()
	for name, err := range map[string]error{
		"arrive": r.Arrive(t.Context(), 1), "hold": r.Reserve(t.Context(), 1), "body": r.Body(t.Context(), 1),
		"turn": r.Turn(t.Context()), "count": r.Count(1),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.Free(1)
	r.Arrived()
	r.Rest()
	r.Leave()
	in := New(1).Enter(uuid.New(), uuid.UUID{}, false, nil)
	if Of(in.In(t.Context())) != in || r.Held() != 0 {
		t.Error("the context does not carry the room")
	}
}
