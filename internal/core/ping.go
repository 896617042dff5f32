package core

import (
	"context"
	"sync"
	"time"
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
	if err := v.Alive(); err != nil {
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
