package sqlstore

import (
	"errors"
	"testing"
)

// TestRowsAgain says which readings are repeated after a lost connection. If the
// end of a piece that is full were not one, a rotation would take the rest for
// nothing.
func TestRowsAgain(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	forget := func() {}
	for name, c := range map[string]struct {
		restart func()
		rows    []error // what each row says
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
			if r.again() != c.again {
				t.Errorf("again is %v", r.again())
			}
		})
	}
}
