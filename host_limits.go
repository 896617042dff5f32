package vault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/script"
)

// What running code asks for is done in the embedding process, whose memory is
// everybody's. A run has 64 calls under way at most, each of which may be large;
// these bounds are on all of them together.
const (
	// maxHostBytes bounds the arguments, and the answers of fetch and of proxies,
	// that the calls of one run hold at once.
	maxHostBytes = 32 << 20
	// maxHostPage bounds the sealed bytes of what one call reads, in place of
	// Config.MaxPageBytes if that is more.
	maxHostPage = 8 << 20
)

// hostBytes counts what the calls of a run hold.
type hostBytes struct{ held atomic.Int64 }

var errHostBytes = &script.HostError{
	Status: http.StatusRequestEntityTooLarge, Code: "ERR_BODY_TOO_LARGE",
	Message: fmt.Sprintf("the calls under way hold more than %d MiB; wait for some of them", maxHostBytes>>20),
}

// hold counts n more bytes, if there is room for them. One call alone may have
// what its own bounds allow.
func (b *hostBytes) hold(n int) error {
	if held := b.held.Add(int64(n)); held > maxHostBytes && held > int64(n) {
		b.release(n)
		return errHostBytes
	}
	return nil
}

func (b *hostBytes) release(n int) { b.held.Add(int64(-n)) }

// read reads up to limit bytes, which stay counted. The caller releases as many
// as were read, also after an error.
func (b *hostBytes) read(from io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(&heldReader{io.LimitReader(from, limit), b})
}

type heldReader struct {
	io.Reader
	bytes *hostBytes
}

func (r *heldReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if held := r.bytes.hold(n); held != nil {
		return 0, held
	}
	return n, err
}

// hostTurns bounds the operations of running code that are under way in the
// database: of all tenants together, and of one tenant to half of that, so that
// the code of one does not make that of the others wait. The operations are
// short, so a few at a time are enough, and each may hold a page.
type hostTurns struct {
	all chan struct{}

	mu      sync.Mutex
	tenants map[uuid.UUID]*tenantTurns // of those whose code has or wants a turn
}

type tenantTurns struct {
	taken chan struct{}
	users int // that have or want a turn
}

func newHostTurns() *hostTurns {
	return &hostTurns{all: make(chan struct{}, max(8, 4*runtime.GOMAXPROCS(0))), tenants: map[uuid.UUID]*tenantTurns{}}
}

// take waits for a turn. The caller gives it back.
func (t *hostTurns) take(ctx context.Context, tenant uuid.UUID) (give func(), err error) {
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

func (t *hostTurns) enter(tenant uuid.UUID) *tenantTurns {
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

func (t *hostTurns) leave(tenant uuid.UUID, own *tenantTurns) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(t.tenants, tenant)
	}
}

// maxPageBytes bounds the sealed bytes that one call may read.
func (op *call) maxPageBytes() int {
	if op.scripted {
		return min(op.v.cfg.MaxPageBytes, maxHostPage)
	}
	return op.v.cfg.MaxPageBytes
}
