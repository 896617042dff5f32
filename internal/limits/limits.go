// Package limits restricts the memory and the number of concurrent calls of
// running code. The calls run in the embedding process, whose memory and
// database all tenants share.
package limits

import (
	"errors"
	"io"
	"sync/atomic"
)

// MaxBytes limits the arguments and external responses that the calls of one
// run hold at once. A run has at most 64 calls in progress, and each may be
// large.
const MaxBytes = 32 << 20

// ErrFull means that the calls in progress already hold MaxBytes.
var ErrFull = errors.New("the calls in progress hold too much")

// Bytes counts the memory of the calls of a run.
type Bytes struct{ count atomic.Int64 }

// Hold counts n more bytes, or fails with ErrFull. A single call may hold as
// much as its own limits allow.
func (b *Bytes) Hold(n int) error {
	if count := b.count.Add(int64(n)); count > MaxBytes && count > int64(n) {
		b.Release(n)
		return ErrFull
	}
	return nil
}

// Release releases bytes that Hold counted.
func (b *Bytes) Release(n int) { b.count.Add(int64(-n)) }

// Read reads up to limit bytes and counts them. The caller must release as
// many bytes as were read, even after an error.
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
