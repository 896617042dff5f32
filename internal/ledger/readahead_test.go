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
		check := &tenantCheck{verification: &verification{l: l, ctx: ctx}, tree: &storage.Tree{Size: 10 * chunkSize}}
		a := check.readAhead(0)
		if _, err := a.next(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		a.stop()
	}
}
