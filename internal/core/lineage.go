package core

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
)

// MaxRunDepth is the maximum length of a chain of runs in which each run starts
// the next, directly or as a job for later. Otherwise code that starts itself
// would never end, and its jobs would outlive the process.
const MaxRunDepth = 3

// MaxRunJobs is the maximum number of jobs that a run and its nested runs may
// create. Each job may create as many again, so without a limit one request
// could fill the database.
const MaxRunJobs = 100

// ErrRunDepth and ErrRunJobs mean that a run has reached MaxRunDepth or MaxRunJobs.
var (
	ErrRunDepth = errors.New("runs call each other too deep")
	ErrRunJobs  = errors.New("a run has started too many others")
)

// Lineage describes the chain of runs that led to an operation. The zero
// value is an operation outside of any run.
type Lineage struct {
	Depth int        // number of runs above it
	Bytes *RunBytes  // memory of the calls of the innermost run
	Uses  *TokenUses // collects the tokens that they use; nil if no response is stored
	// Stranger is the id of the proxy whose call without an API key caused the
	// runs. It is empty for other callers.
	Stranger string
	// Workload means that a JWT caused the runs. It bounds the sessions that their code
	// authorizes as another application.
	Workload bool

	left *atomic.Int32 // number of jobs that these runs have created
}

type lineageKey struct{}

// In returns a context that carries the lineage.
func (l Lineage) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, lineageKey{}, l)
}

// LineageOf returns the lineage that a context carries.
func LineageOf(ctx context.Context) Lineage {
	l, _ := ctx.Value(lineageKey{}).(Lineage)
	return l
}

// Tracking returns a lineage that collects the tokens that its runs use.
func (l Lineage) Tracking(uses *TokenUses) Lineage {
	l.Uses = uses
	return l
}

// Below returns the lineage for the operations of a new run.
func (l Lineage) Below() Lineage {
	l.Depth++
	if l.left == nil {
		l.left = new(atomic.Int32)
	}
	l.Bytes = new(RunBytes)
	return l
}

// Leave counts a job that is created for later.
func (l Lineage) Leave() error {
	switch {
	case l.Depth >= MaxRunDepth:
		return ErrRunDepth
	case l.left != nil && l.left.Add(1) > MaxRunJobs:
		return ErrRunJobs
	}
	return nil
}

// MaxRunBytes limits the arguments and external responses that the calls of one
// run hold at once. A run has at most 64 calls in progress, and each may be
// large.
const MaxRunBytes = 32 << 20

// ErrRunFull means that the calls in progress already hold MaxRunBytes.
var ErrRunFull = errors.New("the calls in progress hold too much")

// RunBytes counts the memory of the calls of a run. The calls run in the
// embedding process, whose memory all tenants share.
type RunBytes struct{ count atomic.Int64 }

// Add counts n more bytes, or fails with ErrRunFull. A single call may hold as
// much as its own limits allow.
func (b *RunBytes) Add(n int) error {
	if count := b.count.Add(int64(n)); count > MaxRunBytes && count > int64(n) {
		b.Release(n)
		return ErrRunFull
	}
	return nil
}

// Release releases bytes that Add counted.
func (b *RunBytes) Release(n int) { b.count.Add(int64(-n)) }

// Read reads up to limit bytes and counts them. The caller must release as
// many bytes as were read, even after an error.
func (b *RunBytes) Read(from io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(&countedReader{io.LimitReader(from, limit), b})
}

type countedReader struct {
	io.Reader
	bytes *RunBytes
}

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if full := r.bytes.Add(n); full != nil {
		return 0, full
	}
	return n, err
}
