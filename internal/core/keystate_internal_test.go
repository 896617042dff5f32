package core

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A record is about an outage only if it was written during the outage. The clock of the
// node that wrote it may be wrong, and it may be an older one.
func TestRecordsOfOtherOutages(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	now := since.Add(10 * time.Minute)
	for name, test := range map[string]struct {
		began time.Time
		rev   int64
		want  bool
	}{
		"of another node":                   {began: now, rev: 8, want: true},
		"of an earlier outage":              {began: since.Add(-time.Second), rev: 8},
		"from before the outage, and ahead": {began: now, rev: 7},
		"of a clock far ahead":              {began: now.Add(time.Hour), rev: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &keyOutage{since: since, rev: 7}
			must.Same(t, "the record is about the outage", test.want, o.isAbout(&entering{Began: test.began}, test.rev, now))
		})
	}
}
