package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// TestReadAheadEndsWithItsContext takes a chunk after the context has ended. A
// verification that waited for it would keep Close waiting too. The reader notices the
// end at a random point, so the test repeats.
func TestReadAheadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := newRig(t).open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		a := (&exported{l: l, ctx: ctx, size: 10 * chunkSize}).readAhead(0)
		err := a.each(1, func(*storage.Leaves, int, *storage.Log) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		a.stop()
	}
}
