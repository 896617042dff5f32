package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// ErrNoTurn means that no connection became free in time.
var ErrNoTurn = fmt.Errorf("%w: all connections to the database are in use", storage.ErrUnavailable)

// TurnAtLeast is how long a call waits for its turn, and for a connection to
// open, even if it must not wait for the database.
const TurnAtLeast = 2 * time.Second

// Turns limits how many callers do something at once. Each sends a value, and
// receives one when it is done.
type Turns chan struct{}

// Enter waits for a turn, for some time at least, and until the given time if that is
// not zero.
func (t Turns) Enter(ctx context.Context, until time.Time, least time.Duration) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	var over <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(max(least, time.Until(until)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-over:
		return ErrNoTurn
	}
}

// TurnsBy are the turns of each key, such as a tenant, of which each has as many.
type TurnsBy[K comparable] struct {
	each int
	mu   sync.Mutex
	of   map[K]*turnsOf
}

type turnsOf struct {
	Turns
	callers int // that have a turn or wait for one
}

// NewTurnsBy returns turns.
func NewTurnsBy[K comparable](each int) *TurnsBy[K] {
	return &TurnsBy[K]{each: each, of: map[K]*turnsOf{}}
}

// Enter waits for a turn of a key, for TurnAtLeast and until the given time. The
// caller calls leave afterwards.
func (t *TurnsBy[K]) Enter(ctx context.Context, key K, until time.Time) (leave func(), err error) {
	t.mu.Lock()
	own := t.of[key]
	if own == nil {
		own = &turnsOf{Turns: make(Turns, t.each)}
		t.of[key] = own
	}
	own.callers++
	t.mu.Unlock()
	err = own.Enter(ctx, until, TurnAtLeast)
	leave = func() {
		if err == nil {
			<-own.Turns
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.callers--; own.callers == 0 {
			delete(t.of, key)
		}
	}
	if err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}
