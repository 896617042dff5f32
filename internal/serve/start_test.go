package serve

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// A start waits a minute for a master key that does not respond, with a line for each
// attempt. It does not wait for a denied one.
func TestStartWaitsForTheKey(t *testing.T) {
	t.Parallel()
	for want, took := range map[error]time.Duration{vault.ErrKeyUnavailable: keyWait + keyPause, vault.ErrKeyDenied: 0} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			began, tries := time.Now(), 0
			err := untilKeyResponds(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func() error {
				tries++
				return fmt.Errorf("open: %w", want)
			})
			lines := strings.Count(log.String(), "it is tried again")
			if err == nil || time.Since(began) != took || lines != tries-1 || tries != 1+int(took/keyPause) {
				t.Errorf("%v after %s, %d attempts and %d lines", err, time.Since(began), tries, lines)
			}
		})
	}
}
