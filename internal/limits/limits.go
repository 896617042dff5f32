// Package limits bounds what the calls of running code hold and do at once. They
// are carried out in the embedding process, whose memory and database are
// shared by all tenants.
package limits

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
)

// MaxBytes bounds the arguments, and the answers from elsewhere, that the calls
// of one run hold at once. A run has 64 calls under way at most, each of which
// may be large; this bounds all of them together.
const MaxBytes = 32 << 20

// ErrFull means that the calls under way hold MaxBytes already.
var ErrFull = errors.New("the calls in progress hold too much")

// Bytes counts what the calls of a run hold.
type Bytes struct{ count atomic.Int64 }

// Hold counts n more bytes, or fails with ErrFull. A call that is alone may hold
// what its own bounds allow.
func (b *Bytes) Hold(n int) error {
	if count := b.count.Add(int64(n)); count > MaxBytes && count > int64(n) {
		b.Release(n)
		return ErrFull
	}
	return nil
}

// Release gives back what Hold counted.
func (b *Bytes) Release(n int) { b.count.Add(int64(-n)) }

// Read reads up to limit bytes, which stay counted. The caller releases as many
// as were read, also after an error.
func (b *Bytes) Read(from io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(&countedReader{io.LimitReader(from, limit), b})
}

type countedReader struct {
	io.Reader
	bytes *Bytes
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if full := r.bytes.Hold(n); full != nil {
		return 0, full
	}
	return n, err
}

// Turns bounds the operations that are under way in the database: of all
// tenants together, and of one tenant to half of that, so that the code of one
// does not make that of the others wait. The operations are short, so a few at a
// time are enough, and each may hold a page.
type Turns struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[uuid.UUID]*tenantTurns // of those whose code has or wants a turn
}

type tenantTurns struct {
	taken chan struct{}
	users int // that have or want a turn
}

// NewTurns returns the turns of a process.
func NewTurns() *Turns {
	return &Turns{all: make(chan struct{}, max(8, 4*runtime.GOMAXPROCS(0))), tenants: map[uuid.UUID]*tenantTurns{}}
}

// Take waits for a turn. The caller gives it back.
func (t *Turns) Take(ctx context.Context, tenant uuid.UUID) (give func(), err error) {
	own := t.enter(tenant)
	if err := wait(ctx, own.taken); err != nil {
		t.leave(tenant, own)
		return nil, err
	}
	giveOwn := func() {
		<-own.taken
		t.leave(tenant, own)
	}
	if err := wait(ctx, t.all); err != nil {
		giveOwn()
		return nil, err
	}
	return func() {
		<-t.all
		giveOwn()
	}, nil
}

// wait takes one of the places of a channel.
func wait(ctx context.Context, places chan<- struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Turns) enter(tenant uuid.UUID) *tenantTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.tenants[tenant]
	if own == nil {
		own = &tenantTurns{taken: make(chan struct{}, cap(t.all)/2)}
		t.tenants[tenant] = own
	}
	own.users++
	return own
}

func (t *Turns) leave(tenant uuid.UUID, own *tenantTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.tenants, tenant)
	}
}
