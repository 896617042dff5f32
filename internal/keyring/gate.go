package keyring

import (
	"context"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Gated is a storage that can end the wait of a rotation at once. Storages of
// tests implement it: see [Gate].
type Gated interface {
	// PassHorizon makes the storage reject changes that were sealed with keys
	// read before a moment. It returns when earlier changes have been
	// written.
	PassHorizon(since time.Time)
}

// Gate makes a storage [Gated]. The storage of a test embeds a Gate and
// writes through it. Storages on the same database share a gate. The zero
// Gate is open.
type Gate struct {
	mu    sync.RWMutex
	since time.Time
}

// Write applies a change. It returns [storage.ErrLate] as a database would
// after MaxAge.
func (g *Gate) Write(ctx context.Context, to storage.Writer, ch *storage.Change) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if ch.Late(g.since.Add(MaxAge)) {
		return storage.ErrLate
	}
	return to.Write(ctx, ch)
}

// PassHorizon implements [Gated].
func (g *Gate) PassHorizon(since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if since.After(g.since) {
		g.since = since
	}
}
