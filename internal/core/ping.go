package core

import (
	"context"
	"sync"
	"time"
)

// pingEvery is how often the database is asked at most, and pingTimeout how long
// it may take.
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

// Ping reports whether the database answers and can be written. The database is
// asked at most once a second, and not waited for longer than the context allows.
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

// lastPing returns a question that was asked not long ago, or is asked now.
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
