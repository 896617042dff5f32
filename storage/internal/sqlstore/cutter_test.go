package sqlstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A connection is cut some time after the caller of its statement has left, unless the
// statement has ended.
func TestCutter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends time.Duration // after the caller has left
		want bool
	}{
		"ended before":     {-1, false},
		"ended in time":    {cutGrace - 1, false},
		"ended too late":   {cutGrace + 1, true},
		"ended much later": {time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			cuts := 0
			c := Cutter{Cut: func() { cuts++ }}
			run := c.Begin(ctx)
			if test.ends < 0 {
				c.End(run)
			}
			leave()
			time.Sleep(test.ends)
			if got := c.End(run); test.ends >= 0 && got != test.want {
				t.Errorf("%s: cut %t, want %t", name, got, test.want)
			}
			next := c.Begin(t.Context()) // must not be cut for the caller before
			time.Sleep(2 * cutGrace)
			if c.End(next); (cuts == 1) != test.want || cuts > 1 {
				t.Errorf("%s: cut %d times", name, cuts)
			}
		})
	}
}
