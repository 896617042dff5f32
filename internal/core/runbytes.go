package core

import (
	"errors"
	"io"
	"sync/atomic"
)

// MaxRunBytes limits the arguments and external responses that the calls of one
// run hold at once. A run has at most 64 calls in progress, and each may be
// large.
const MaxRunBytes = 32 << 20

// ErrRunFull means that the calls in progress already hold MaxRunBytes.
var ErrRunFull = errors.New("the calls in progress hold too much")

// RunBytes counts the memory of the calls of a run. The calls run in the
// embedding process, whose memory all tenants share.
type RunBytes struct{ count atomic.Int64 }

// Hold counts n more bytes, or fails with ErrRunFull. A single call may hold as
// much as its own limits allow.
func (b *RunBytes) Hold(n int) error {
	if count := b.count.Add(int64(n)); count > MaxRunBytes && count > int64(n) {
		b.Release(n)
		return ErrRunFull
	}
	return nil
}

// Release releases bytes that Hold counted.
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
	if full := r.bytes.Hold(n); full != nil {
		return 0, full
	}
	return n, err
}
