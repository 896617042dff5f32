package rotation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The old key is destroyed when no node can use it any more. Keys are used
// for MaxAge, and a write that started before may take a little longer.
func TestRotationWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, promoted := &rotation{v: core.New(core.Config{Clock: time.Now})}, time.Now()
		must.Do(t, r.wait(t.Context(), promoted))
		must.Same(t, "how long the rotation waited", keyring.Horizon, time.Since(promoted))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		must.Match(t, "a rotation without a caller", r.wait(gone, time.Now()), context.Canceled)
	})
}
