// Package admission decides when a request may use the memory and the CPUs of
// the process, so that no tenant takes them from the others.
//
// A request has a [Room]. What it holds is charged there, first while its body
// arrives, then when it is parsed, then for the rows that it reads; it waits
// when its tenant, or the process, holds too much already. Before work that
// takes long a request takes a turn: one tenant has at most all but one of the
// CPUs, so that the short requests of others find one free.
package admission

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/share"
)

// How long a request waits: for memory, and for the large changes of its tenant
// that are ahead of it, each of which may wait for the database itself.
const (
	patience      = 2 * time.Second
	writePatience = 30 * time.Second
)

// The reasons for which a request is refused.
var (
	// ErrFull means that there was no room for a request while it waited.
	ErrFull = share.ErrFull
	// ErrNever means that a request needs more than its tenant may ever hold.
	ErrNever = errors.New("needs more memory than a tenant may hold")
)

// Process is what the requests of a process share.
type Process struct {
	memory memory
	cpu    *share.Places[payer]
	writes *share.Places[payer] // of large changes
}

// New returns a process whose requests may hold so many bytes together.
func New(bytes int64) *Process {
	p := &Process{}
	p.memory = memory{limit: bytes, patience: patience, held: map[payer]int64{}}
	cpus := runtime.GOMAXPROCS(0)
	p.cpu = share.New[payer](share.Limits{Total: cpus, Each: max(1, cpus-1)})
	p.writes = share.New[payer](share.Limits{Total: cpus, Each: 1, Patience: writePatience})
	return p
}

// Room is what one request holds. Its methods may be called on a nil Room, which
// holds nothing and waits for nothing. Calls at the same time are safe; they
// share one turn.
type Room struct {
	process *Process
	payer   payer
	app     uuid.UUID // zero for none
	count   func(tokens int) error

	mu      sync.Mutex
	held    int64
	arrived int64 // the part of it that was charged for a body on its way
	paid    bool  // for the body
	turn    bool
	breath  time.Time // the last one within the turn

	inside inside
}

// Enter returns a room for a request of a tenant; anonymous means that a stranger
// calls one of its proxies. count, unless nil, is asked how many more tokens the
// request may work on.
func (p *Process) Enter(tenant uuid.UUID, anonymous bool, count func(tokens int) error) *Room {
	return &Room{process: p, payer: payer{tenant, anonymous}, count: count}
}

// For says which application makes the request, or which proxy a stranger calls. It
// returns the room.
func (r *Room) For(application uuid.UUID) *Room {
	r.app = application
	return r
}

type roomKey struct{}

// In returns the context of the request, which carries the room. It is part of
// the room, so a request asks for it once.
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

// Arrive charges for a body that is on its way, which may take long. Bodies on
// their way have half of what a tenant may hold, so that those which have
// arrived find memory to be worked on.
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

// Arrived ends the charge for a body on its way; Hold follows for what has come.
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

// Hold charges for memory that the request is about to take. A request that
// waits does not keep its turn.
func (r *Room) Hold(ctx context.Context, bytes int) error {
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

// Body charges for the parsed body of the request. It does so once: whoever
// parses the body may ask, and the first one pays.
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
	return r.Hold(ctx, bytes)
}

// Free gives back a part of what is held, when less was needed.
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
	return int(r.held)
}

// Count asks whether the request may work on so many tokens more.
func (r *Room) Count(tokens int) error {
	if r == nil || r.count == nil || tokens <= 0 {
		return nil
	}
	return r.count(tokens)
}

// Turn waits for the tenant's turn before work that takes long. Work that goes
// on asks again every fraction of a millisecond: the turn passes to another
// tenant that waits.
func (r *Room) Turn(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn && !r.process.cpu.Wanted(r.payer) {
		r.breathe()
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

// Work that has its turn sleeps for a moment every millisecond. On a machine with
// few CPUs it can be all that runs, besides the collector, and the scheduler then
// looks at the network only every 10 ms; when nothing runs it looks at once.
const (
	breathEvery = time.Millisecond
	breath      = 20 * time.Microsecond
)

func (r *Room) breathe() {
	if time.Since(r.breath) > breathEvery {
		time.Sleep(breath) //nolint:forbidigo // see above
		r.breath = time.Now()
	}
}

// Rest ends the turn, before something that waits.
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

// Write waits until a large change of the tenant may be written: one at a time,
// so that no more than one is ahead of the short changes of others. After a while
// it gives up, with ErrFull. The caller calls done when it is written.
func (r *Room) Write(ctx context.Context) (done func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	r.Rest()
	if err := r.process.writes.Take(ctx, r.payer); err != nil {
		return nil, err
	}
	return func() { r.process.writes.Give(r.payer) }, nil
}

// Leave gives back all that the request holds.
func (r *Room) Leave() {
	if r == nil {
		return
	}
	r.Rest()
	r.Arrived()
	r.Free(r.Held())
}
