package ledger

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
)

// frozen is a store that no node changes, so that a test can undo its own
// changes.
type frozen struct{ Store }

func (frozen) WriteTree(context.Context, *storage.TreeChange) error { return ErrTampered }
