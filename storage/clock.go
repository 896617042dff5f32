package storage

import (
	"context"
	"time"
)

// Clock is a [Storage] whose database has a clock of its own, which several nodes
// share. No Storage has to be one.
type Clock interface {
	// ClockAhead returns how far the clock of this machine is ahead of the
	// database's, as far as the time that the call takes allows to tell. It is
	// negative for a clock that is behind.
	ClockAhead(ctx context.Context) (time.Duration, error)
}
