package keygate_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// written counts the changes that it receives.
type written struct {
	storage.Writer
	n int
}

func (w *written) Write(context.Context, *storage.Change) error {
	w.n++
	return nil
}

func TestGate(t *testing.T) {
	t.Parallel()
	var g keygate.Gate
	v := core.New(core.Config{Clock: time.Now})
	g.Use(core.Caller{Vault: v})
	rotate := func(since time.Time) { must.Do(t, v.WaitUntil(t.Context(), since.Add(keyring.Horizon))) }
	w, promoted := &written{}, time.Now()
	under := func(read time.Time) *storage.Change { return &storage.Change{Before: read.Add(keyring.MaxAge)} }
	old, fresh := promoted.Add(-time.Nanosecond), promoted
	write := func(ch *storage.Change) error { return g.Write(t.Context(), w, ch) }
	must.Match(t, "through an open gate", write(under(old)), nil)
	rotate(promoted)
	rotate(old) // of a rotation that started earlier
	must.Match(t, "under old keys", write(under(old)), storage.ErrLate)
	for what, ch := range map[string]*storage.Change{"under new keys": under(fresh), "under no keys": {}} {
		must.Match(t, what, write(ch), nil)
	}
	must.Same(t, "changes were written", 3, w.n)
}
