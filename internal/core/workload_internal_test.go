package core

import (
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A node remembers a limited number of JWTs, and none longer than it may.
func TestRememberedJWTs(t *testing.T) {
	t.Parallel()
	var all workloads
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	hash := func(n int) [sha256.Size]byte { return sha256.Sum256([]byte(strconv.Itoa(n))) }
	for n := range maxRemembered + 100 {
		all.put(hash(n), remembered{from: now, until: now.Add(time.Minute)})
	}
	must.Same(t, "remembered", maxRemembered, len(all.all))
	newest := hash(maxRemembered + 99)
	for _, c := range []struct {
		what string
		at   time.Time
		want bool
	}{
		{"at once", now, true}, {"at the end", now.Add(time.Minute), false}, {"after the end it is forgotten", now, false},
	} {
		_, ok := all.get(newest, c.at)
		must.Same(t, c.what, c.want, ok)
	}
	all.put(newest, remembered{from: now, until: now.Add(time.Minute)})
	_, ok := all.get(newest, now.Add(-time.Second))
	must.Same(t, "after the clock was set back", false, ok)
}
