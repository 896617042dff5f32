package core

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// MaxSkew is how far the clock of a node may differ from the database's before
	// the node stops deleting expired data.
	MaxSkew     = 30 * time.Second
	compareEach = time.Minute
	// compareTimeout bounds one comparison.
	compareTimeout = 10 * time.Second
)

// Skew is how far the clock of this node is ahead of the database's. The zero
// value is a correct clock.
type Skew struct{ ahead atomic.Int64 }

// Ahead returns the last measured difference. It is negative for a clock that is
// behind.
func (s *Skew) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// Err returns why expired data must not be deleted, or nil.
func (s *Skew) Err() error {
	if wrong := SkewProblem(s.Ahead()); wrong != "" {
		return fmt.Errorf("%w: %s", storage.ErrUnavailable, wrong)
	}
	return nil
}

// SkewProblem describes a clock that differs too much from the database's. It
// returns an empty text for a clock within MaxSkew.
func SkewProblem(ahead time.Duration) string {
	if ahead.Abs() <= MaxSkew {
		return ""
	}
	difference := ahead.Round(time.Second).String() + " ahead of"
	if ahead < 0 {
		difference = ahead.Abs().Round(time.Second).String() + " behind"
	}
	return "the clock of this node is " + difference + " the database's, so it deletes nothing that has expired"
}

// Compare compares the clocks once. If the database does not respond, the
// difference stays as it was.
func (s *Skew) Compare(ctx context.Context, clock storage.Clock, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(storage.NoWait(ctx), compareTimeout)
	defer cancel()
	ahead, err := clock.ClockAhead(ctx)
	if err != nil {
		return // outages are reported elsewhere
	}
	s.ahead.Store(int64(ahead))
	if wrong := SkewProblem(ahead); wrong != "" {
		logger.WarnContext(ctx, wrong, "ahead", ahead)
	}
}

// Watch compares the clocks every minute until the context ends.
func (s *Skew) Watch(ctx context.Context, clock storage.Clock, logger *slog.Logger) {
	pace.Every(ctx, compareEach, func() { s.Compare(ctx, clock, logger) })
}
