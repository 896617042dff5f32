package ledger

import (
	"context"
	"errors"
	"testing"
)

// TestReadAheadEndsWithItsContext takes a leaf after the context has ended. A
// verification that waited for it would keep Close waiting too.
func TestReadAheadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := newRig(t).open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range (&exported{l: l, ctx: ctx, size: 10 * chunkSize}).readAhead(0) {
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the leaves ended without an error")
}
