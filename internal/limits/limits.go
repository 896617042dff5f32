// Package limits bounds what the calls of running code hold and do at once. They
// are carried out in the embedding process, whose memory and database are
// shared by all tenants.
package limits

import (
	"errors"
	"io"
	"sync/atomic"
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
