package sqlstore

import (
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestWhichReadsAreRepeated lists which reads are repeated after a lost connection. The end
// of a full piece must end the read, otherwise a rotation would believe that
// the rest does not exist.
func TestWhichReadsAreRepeated(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	forget := func() {}
	for name, c := range map[string]struct {
		restart func()
		rows    []error // the result of each row
		again   bool
	}{
		"nothing read":                     {nil, nil, true},
		"some read":                        {nil, []error{nil}, false},
		"some read that can be forgotten":  {forget, []error{nil}, true},
		"ended":                            {nil, []error{nil, full}, false},
		"ended, and they can be forgotten": {forget, []error{nil, full}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := -1
			r := &rowReader{restart: c.restart, row: func() error { n++; return c.rows[n] }}
			for range c.rows {
				_ = r.take(nil)
			}
			must.Same(t, "again", c.again, r.again())
		})
	}
}
