package bounded_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMap(t *testing.T) {
	t.Parallel()
	var m bounded.Map[int, int]
	for i := range 100 {
		m.Put(10, i, i)
		m.Put(10, i, -i) // replaces an entry
		must.Same(t, "entries", min(i+1, 10), len(m))
		got, ok := m[i]
		must.Same(t, "the newest entry is there", true, ok)
		must.Same(t, "the newest entry", -i, got)
	}
}
