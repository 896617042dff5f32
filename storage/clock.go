package storage

import (
	"context"
	"time"
)

// Clock is a [Storage] whose database has its own clock, which several nodes share.
// It is optional.
type Clock interface {
	// ClockAhead returns how far the clock of this machine is ahead of the
	// database's, as far as the time that the call takes allows to tell. It is
	// negative for a clock that is behind.
	ClockAhead(ctx context.Context) (time.Duration, error)
}
