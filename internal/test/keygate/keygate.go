// Package keygate lets a rotation of keys in a test destroy the old key at once. In
// production it waits until every node has read the new keys. Here the databases of the
// nodes refuse what was sealed under older keys, as they would after the wait.
package keygate

import (
	"context"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

// Gate is between the vaults of a test and their database. A storage of a test embeds
// it and writes through it. Nodes on one database share a gate. The zero Gate is open.
type Gate struct {
	mu    sync.RWMutex
	since time.Time // keys that were read earlier are too old
}

// Use makes the rotations of a vault pass the gate. The caller may be any of the vault.
func (g *Gate) Use(c core.Caller) { c.Vault.WaitUntil = g.waitUntil }

// waitUntil stands for a wait until the end of the horizon. It returns when earlier
// changes have been written.
func (g *Gate) waitUntil(ctx context.Context, end time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if since := end.Add(-keyring.Horizon); since.After(g.since) {
		g.since = since
	}
	return ctx.Err()
}

// Write applies a change. It returns [storage.ErrLate] as a database would after
// [keyring.MaxAge].
func (g *Gate) Write(ctx context.Context, to storage.Writer, ch *storage.Change) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if ch.Late(g.since.Add(keyring.MaxAge)) {
		return storage.ErrLate
	}
	return to.Write(ctx, ch)
}
