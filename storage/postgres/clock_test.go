package postgres

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestClockAhead(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	answered := asked.Add(2 * time.Second)
	for name, test := range map[string]struct {
		said time.Time
		want time.Duration
	}{
		"right":          {asked.Add(time.Second), 0},
		"an hour ahead":  {asked.Add(-time.Hour), time.Hour},
		"an hour behind": {answered.Add(time.Hour), -time.Hour},
	} {
		must.Same(t, name, test.want, clockAhead(asked, answered, test.said))
	}
	s := must.Get(Open(t.Context(), Vaults.URL(t)))(t)
	defer s.Close()
	// The test server may run on another machine, whose clock is less than a
	// day off.
	if ahead, err := s.ClockAhead(t.Context()); err != nil || ahead.Abs() > 24*time.Hour {
		t.Errorf("got %v, %v", ahead, err)
	}
}
