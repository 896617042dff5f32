package vault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
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

var errHostBytes = &HostError{
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

// hostTurns bounds the operations of running code, of all tenants, that are
// under way in the database. They are short, so a few at a time are enough, and
// each may hold a page.
type hostTurns chan struct{}

func newHostTurns() hostTurns { return make(hostTurns, max(8, 4*runtime.GOMAXPROCS(0))) }

// take waits for a turn, which the caller gives back.
func (t hostTurns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t hostTurns) give() { <-t }

// maxPageBytes bounds the sealed bytes that one call may read.
func (op *call) maxPageBytes() int {
	if op.scripted {
		return min(op.v.cfg.MaxPageBytes, maxHostPage)
	}
	return op.v.cfg.MaxPageBytes
}
