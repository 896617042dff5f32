package sinks

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

type waitError time.Duration

func (waitError) Error() string               { return "wait" }
func (a waitError) RetryAfter() time.Duration { return time.Duration(a) }

// A destination that disappears for an hour is tried about once a minute, and
// again within a minute of its return.
func TestBackoffOverAnHour(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	now := start
	w := &worker{passing: pace.NewLock(), now: func() time.Time { return now }}
	attempts := 0
	for now.Sub(start) < time.Hour {
		_ = w.fail(uuid.UUID{}, errors.New("out of reach"))
		attempts++
		pause := w.rest()
		if pause <= 0 || pause > time.Minute {
			t.Fatalf("attempt %d: a pause of %v", attempts, pause)
		}
		now = w.notBefore
	}
	if attempts < 60 || attempts > 130 {
		t.Errorf("%d attempts in an hour", attempts)
	}
	if late := now.Sub(start) - time.Hour; late > time.Minute {
		t.Errorf("the next attempt is %v after the hour", late)
	}
	if w.health.Failures != int64(attempts) || w.health.LastError != "out of reach" {
		t.Errorf("%+v", w.health)
	}
}

// Retry-After lengthens the pause, to an hour at most.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for asked, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 48 * time.Hour: time.Hour} {
		w := &worker{passing: pace.NewLock(), now: func() time.Time { return now }}
		_ = w.fail(uuid.UUID{}, waitError(asked))
		must.Same(t, fmt.Sprintf("Retry-After %v: got a pause", asked), want, w.rest())
	}
}
