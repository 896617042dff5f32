//go:build long && unix

package faults

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// TestServerFrozenForLong freezes a server for 5, 15 and 60 seconds,
// with the default options. Callers succeed if the
// server returns before their wait ends. Otherwise they are refused in time.
func TestServerFrozenForLong(t *testing.T) {
	t.Parallel()
	s := alone(cluster(t))
	freezable(t, s.server)
	n := s.nodes(t, 2, &postgres.Options{})
	for _, d := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute} {
		t.Logf("frozen for %s", d)
		l := n.start()
		l.wait(t, 20)
		must.Do(t, s.server.Freeze())
		<-time.After(d)
		must.Do(t, s.server.Thaw())
		l.wait(t, 20)
		l.check(t)
		if d < 20*time.Second {
			l.served(t)
		} else {
			l.refused(t, 35*time.Second)
		}
	}
}
