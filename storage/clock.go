package storage

import (
	"context"
	"time"
)

// Clock is an optional interface of a [Storage] whose database has its own
// clock, shared by several nodes.
type Clock interface {
	// ClockAhead returns how far the clock of this machine is ahead of the
	// database's, within the accuracy that the duration of the call allows. It
	// is negative if the clock is behind.
	ClockAhead(ctx context.Context) (time.Duration, error)
}
