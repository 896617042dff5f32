package core

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// pingEvery is the shortest time between two queries to the database. pingTimeout
// bounds a query.
const (
	pingEvery   = time.Second
	pingTimeout = 5 * time.Second
)

// pings shares queries to the database among all callers of Ping.
type pings struct {
	mu   sync.Mutex
	last *ping
}

// ping is a query to the database. Its result is set when done is closed.
type ping struct {
	began time.Time
	done  chan struct{}
	err   error
}

// Ping reports whether the database responds and can be written. It queries the
// database at most once a second, and waits at most until ctx ends.
func (v *Vault) Ping(ctx context.Context) error {
	if err := cmp.Or(v.Alive(), ctx.Err()); err != nil {
		return err
	}
	p := v.lastPing()
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastPing returns a recent query, or starts one.
func (v *Vault) lastPing() *ping {
	v.pings.mu.Lock()
	defer v.pings.mu.Unlock()
	if p := v.pings.last; p != nil && (time.Since(p.began) < pingEvery || !p.isDone()) {
		return p
	}
	p := &ping{began: time.Now(), done: make(chan struct{})}
	v.pings.last = p
	go func() {
		defer close(p.done)
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		defer cancel()
		p.err = v.Store.Ping(ctx)
	}()
	return p
}

func (p *ping) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

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

// OneWait returns a context for the calls that belong to one request. While the
// database is out of reach, they share one time limit.
func OneWait(ctx context.Context) context.Context { return storage.OneWait(ctx) }
