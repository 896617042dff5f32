// Package admission controls when a request may use the memory and the CPUs
// of the process, so that no tenant takes them from the others.
//
// A request has a [Room], which is charged for its memory: while the body
// arrives, when it is parsed, and for the rows that it reads. The request
// waits if its tenant or the process holds too much. Before long work, a
// request takes a turn. One tenant may use all CPUs except one, so that short
// requests of others find one free.
//
// It promises that one tenant never holds more than half of the memory, and that a small
// request does not wait for large ones. It counts what callers say that they need: package
// jsonx estimates the weight of a text, and packages that read rows know their size. A
// [Budget] bounds the work of expressions in the same way.
//
// Begin with [Process.Enter] and the methods of [Room]. The counters are in memory.go.
// Package share has the slots that CPUs and large writes are divided into.
package admission

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// How long a request waits for memory, and for earlier large changes of its
// tenant. Each of these changes may wait for the database itself.
const (
	patience      = 2 * time.Second
	writePatience = 30 * time.Second
)

// Errors of requests that are refused.
var (
	// ErrFull means that there was no room for a request while it waited.
	ErrFull = fault.New(fault.ErrUnavailable, "the server has no room for this request now; try again")
	// ErrNever means that a request needs more than its tenant may ever hold.
	ErrNever = fault.New(fault.ErrTooLarge, "the request takes more memory than a tenant may use; send or ask for less at a time")
)

// Process holds the resources that the requests of a process share.
type Process struct {
	memory memory
	cpu    *share.Slots[payer]
	writes *share.Slots[payer] // slots for large changes
}

// New returns a process whose requests may hold the given number of bytes in
// total.
func New(bytes int64) *Process {
	p := &Process{}
	p.memory = memory{limit: bytes, patience: patience, held: map[payer]int64{}}
	cpus := runtime.GOMAXPROCS(0)
	p.cpu = share.New[payer](share.Limits{Total: cpus, Each: max(1, cpus-1)})
	p.writes = share.New[payer](share.Limits{Total: cpus, Each: 1, Patience: writePatience})
	return p
}

// Room holds the resources of one request. A nil Room holds nothing, and its
// methods do not wait. A Room is safe for concurrent use; concurrent calls
// share one turn.
type Room struct {
	process *Process
	payer   payer
	app     uuid.UUID // zero without an application
	count   func(tokens int) error

	mu      sync.Mutex
	held    int64
	small   int64 // for a small body, beside held
	arrived int64 // the part of held for an arriving body
	paid    bool  // the parsed body has been charged
	turn    bool
	breath  time.Time // the last pause within the turn

	inside inside
}

// Enter returns a room for a request of a tenant's application, which may be zero.
// Anonymous means a call of one of its proxies without an API key; the proxy is then
// in the place of the application. If count is not nil, it is called with the number
// of further tokens that the request wants to work on.
func (p *Process) Enter(tenant, application uuid.UUID, anonymous bool, count func(tokens int) error) *Room {
	return &Room{process: p, payer: payer{tenant, anonymous}, app: application, count: count}
}

type roomKey struct{}

// In returns the context of the request, which carries the room. The context
// is part of the room, so In must be called only once per request.
func (r *Room) In(ctx context.Context) context.Context {
	r.inside = inside{ctx, r}
	return &r.inside
}

// inside is the context of a request that has a room.
type inside struct {
	context.Context
	room *Room
}

// Value implements [context.Context].
func (i *inside) Value(key any) any {
	if key == (roomKey{}) {
		return i.room
	}
	return i.Context.Value(key)
}

// Of returns the room that a context carries, or nil.
func Of(ctx context.Context) *Room {
	r, _ := ctx.Value(roomKey{}).(*Room)
	return r
}

// Arrive charges for a body that is arriving, which may take long. Arriving
// bodies may use half of a tenant's memory, so that complete bodies find
// memory to be handled.
func (r *Room) Arrive(ctx context.Context, bytes int) error {
	if r == nil || bytes == 0 {
		return nil
	}
	r.mu.Lock()
	own := r.arrived
	r.mu.Unlock()
	if err := r.process.memory.take(ctx, ask{r.payer, int64(bytes), arriving, r.app, own}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.arrived = r.held+int64(bytes), r.arrived+int64(bytes)
	return nil
}

// Arrived ends the charge for an arriving body. Reserve then charges for the
// complete body.
func (r *Room) Arrived() {
	if r == nil {
		return
	}
	r.mu.Lock()
	bytes := r.arrived
	r.arrived, r.held = 0, r.held-bytes
	r.mu.Unlock()
	if bytes > 0 {
		r.process.memory.give(ask{payer: r.payer, bytes: bytes, use: arriving, app: r.app})
	}
}

// Reserve charges for memory that the request is about to allocate. While the
// request waits, it gives up its turn.
func (r *Room) Reserve(ctx context.Context, bytes int) error {
	if r == nil || bytes <= 0 {
		return nil
	}
	if err := r.process.memory.try(r.payer, int64(bytes)); err != nil {
		if held := int64(r.Held()); held+int64(bytes) > r.process.memory.most(r.payer, held+int64(bytes), working) {
			return ErrNever
		}
		r.Rest()
		if err := r.process.memory.take(ctx, ask{payer: r.payer, bytes: int64(bytes)}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += int64(bytes)
	return nil
}

// Body charges for the parsed body of the request. Only the first call has an
// effect, so that every parser of the body may call it.
func (r *Room) Body(ctx context.Context, bytes int) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	paid := r.paid
	r.paid = true
	r.mu.Unlock()
	if paid {
		return nil
	}
	return r.Reserve(ctx, bytes)
}

// LargeText is the number of bytes of JSON from which parsing needs a turn, and
// largeRequest the memory of a request from which its work does.
const (
	LargeText    = 8 << 10
	largeRequest = 128 << 10
)

// Parse charges for the JSON of a complete body. A body of up to LargeText bytes draws
// on the memory for small bodies. For a larger one, Parse also takes the tenant's turn,
// which lasts until the request waits, rests or leaves.
func (r *Room) Parse(ctx context.Context, body []byte) error {
	if r == nil {
		return nil
	}
	bytes := len(body) + jsonx.Weight(body)
	if len(body) <= LargeText && r.draw(bytes) {
		return nil
	}
	r.Arrived()
	if len(body) >= LargeText {
		if err := r.Turn(ctx); err != nil {
			return err
		}
	}
	return r.Body(ctx, bytes)
}

// draw charges for a small body, unless the memory for small bodies is used up.
func (r *Room) draw(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paid || r.arrived > 0 || !r.process.memory.draw(r.payer, int64(bytes)) {
		return false
	}
	r.paid, r.small = true, int64(bytes)
	return true
}

// Work takes the tenant's turn for a large request, before work that grows with the
// size of the request, such as reading or writing its JSON. The turn lasts until the
// request waits or leaves. The next request therefore starts when this one is nearly
// done, so that not all of them are in memory at once.
func (r *Room) Work(ctx context.Context) error {
	if r.Held() < largeRequest {
		return nil
	}
	return r.Turn(ctx)
}

// Free releases a part of the memory, if less was needed.
func (r *Room) Free(bytes int) {
	if r == nil || bytes <= 0 {
		return
	}
	r.mu.Lock()
	r.held -= int64(bytes)
	r.mu.Unlock()
	r.process.memory.give(ask{payer: r.payer, bytes: int64(bytes)})
}

// Held returns how many bytes the request holds.
func (r *Room) Held() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.held + r.small)
}

// Count checks whether the request may work on more tokens.
func (r *Room) Count(tokens int) error {
	if r == nil || r.count == nil || tokens <= 0 {
		return nil
	}
	return r.count(tokens)
}

// Turn waits for the tenant's turn before long work. Long work calls it again
// every fraction of a millisecond, so that the turn can pass to a waiting
// tenant.
func (r *Room) Turn(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn && !r.process.cpu.Wanted(r.payer) {
		if time.Since(r.breath) > breathEvery {
			time.Sleep(breath) //nolint:forbidigo // see breathEvery
			r.breath = time.Now()
		}
		return nil
	}
	if r.turn {
		r.process.cpu.Give(r.payer)
		r.turn = false
	}
	err := r.process.cpu.Take(ctx, r.payer)
	r.turn, r.breath = err == nil, time.Now()
	return err
}

// Work that has its turn sleeps briefly every millisecond. On a machine with
// few CPUs it may be all that runs besides the garbage collector. The
// scheduler then polls the network only every 10 ms; if nothing runs, it
// polls at once.
const (
	breathEvery = time.Millisecond
	breath      = 20 * time.Microsecond
)

// Rest ends the turn before the request waits for something.
func (r *Room) Rest() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn {
		r.process.cpu.Give(r.payer)
		r.turn = false
	}
}

// Write waits until a large change of the tenant may be written. Only one is
// written at a time, so that at most one is ahead of the short changes of
// other tenants. Write fails with ErrFull if it waits too long. The caller
// calls done after writing.
func (r *Room) Write(ctx context.Context) (done func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	r.Rest()
	err = r.process.writes.Take(ctx, r.payer)
	switch {
	case errors.Is(err, share.ErrFull):
		return nil, ErrFull
	case err != nil:
		return nil, err
	}
	return func() { r.process.writes.Give(r.payer) }, nil
}

// Leave releases everything that the request holds.
func (r *Room) Leave() {
	if r == nil {
		return
	}
	r.mu.Lock()
	small, more := r.small, r.turn || r.held > 0
	r.small = 0
	r.mu.Unlock()
	if small > 0 {
		r.process.memory.putBack(small)
	}
	if more {
		r.Rest()
		r.Arrived()
		r.Free(r.Held())
	}
}
