package vault

import (
	"context"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// OneWait returns a context for the calls that belong to one request of the
// program. While the database is out of reach a call waits for it, and fails with
// ErrUnavailable when that takes too long; those of one request then share one
// wait, which begins with the first. Without it each call waits by itself.
//
// Package httpserver does this for each request.
func OneWait(ctx context.Context) context.Context { return storage.OneWait(ctx) }

// pingEvery is how often the database is asked at the most, and pingTimeout how
// long it may take.
const (
	pingEvery   = time.Second
	pingTimeout = 5 * time.Second
)

// pings asks the database, for all who want to know.
type pings struct {
	mu   sync.Mutex
	last *ping
}

// ping is a question to the database. Its outcome is set when done is closed.
type ping struct {
	began time.Time
	done  chan struct{}
	err   error
}

// Ping reports whether the database answers and can be written. It is for probes:
// the database is asked at most once a second, however often Ping is called. A
// database that hangs is not waited for longer than the context allows.
func (v *Vault) Ping(ctx context.Context) error {
	if err := v.core.Alive(); err != nil {
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

// lastPing returns a question that was asked not long ago, or is asked now.
func (v *Vault) lastPing() *ping {
	v.asked.mu.Lock()
	defer v.asked.mu.Unlock()
	if p := v.asked.last; p != nil && (time.Since(p.began) < pingEvery || !p.isDone()) {
		return p
	}
	p := &ping{began: time.Now(), done: make(chan struct{})}
	v.asked.last = p
	go func() {
		defer close(p.done)
		ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
		defer cancel()
		p.err = v.store.Ping(ctx)
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
