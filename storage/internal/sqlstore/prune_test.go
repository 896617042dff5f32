package sqlstore

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// The search for tenants with old entries steps through keys, so its cost does
// not depend on the number of entries.
func TestLogTenantsNeedsNoScan(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, at := LogsBefore(time.Unix(1, 0))
	got := plan(t, s, clause{countedTenantsQuery, []any{someTenant[:], first[:], at, 10}})
	for _, want := range []string{
		"SEARCH c USING PRIMARY KEY (tenant_id>?)",
		"SEARCH c USING PRIMARY KEY (tenant_id=? AND entity_type>?)",
		"SEARCH l USING PRIMARY KEY (tenant_id=? AND entity_type=? AND id<?)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no step %q in\n%s", want, got)
		}
	}
	for _, no := range []string{"SCAN c", "SCAN l\n", "TEMP B-TREE"} {
		if strings.Contains(got+"\n", no) {
			t.Errorf("a step %q in\n%s", no, got)
		}
	}
}

func TestLogsBefore(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(0x0102_0304_0506)
	for name, test := range map[string]struct {
		before time.Time
		id     storage.ID
		micros int64
	}{
		"a millisecond":        {at, storage.ID{1, 2, 3, 4, 5, 6}, at.UnixMicro()},
		"a microsecond later":  {at.Add(time.Microsecond), storage.ID{1, 2, 3, 4, 5, 7}, at.UnixMicro() + 1},
		"a nanosecond later":   {at.Add(1), storage.ID{1, 2, 3, 4, 5, 7}, at.UnixMicro() + 1},
		"a nanosecond earlier": {at.Add(-1), storage.ID{1, 2, 3, 4, 5, 6}, at.UnixMicro()},
		"1970":                 {time.Unix(0, 0), storage.ID{}, 0},
		"before 1970":          {time.Unix(-1, 0), storage.ID{}, 0},
		"none":                 {time.Time{}, storage.ID{}, 0},
	} {
		if id, micros := LogsBefore(test.before); id != test.id || micros != test.micros {
			t.Errorf("%s: got %x and %d, want %x and %d", name, id, micros, test.id, test.micros)
		}
	}
}
