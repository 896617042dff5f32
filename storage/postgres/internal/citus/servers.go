// Package citus knows where the tables of a vault are: on one server, or on the
// servers of a Citus cluster. It knows which of them has which tenants,
// which one does not respond, and how tables are distributed over them.
package citus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// Servers are the workers of a Citus cluster. A worker that hangs holds up each
// statement for its tenants until HangTimeout. So the tenants of one worker get
// only a share of the connections, and their calls fail at once when the worker
// has not responded for RetryFor.
type Servers struct {
	read             func(context.Context) (*Shards, error)
	retryFor         time.Duration
	reading, writing int // number of connections

	now    atomic.Pointer[shardsAt]
	reread sync.Mutex // held while the shards are read again

	silences atomic.Int32 // number of silent servers
	mu       sync.Mutex
	silent   map[int32]*silence
}

// NewServers returns the servers of shards, which read reads again. reading and
// writing are the numbers of connections.
func NewServers(at *Shards, read func(context.Context) (*Shards, error), retryFor time.Duration, reading, writing int) *Servers {
	v := &Servers{read: read, retryFor: retryFor, reading: reading, writing: writing}
	v.set(at)
	return v
}

// shardsAt are the shards at a time.
type shardsAt struct {
	*Shards
	at    time.Time
	reads *sqlstore.TurnsBy[int32] // by server
}

// shardsFor is how long shards are used before they are read again. A tenant that
// has moved in the meantime counts for its old server.
const shardsFor = time.Minute

// set makes shards current.
func (v *Servers) set(p *Shards) {
	next := &shardsAt{Shards: p, at: time.Now(), reads: sqlstore.NewTurnsBy[int32](shareOf(v.reading, p.servers))}
	if last := v.now.Load(); last != nil && last.servers == p.servers {
		next.reads = last.reads
	}
	v.now.Store(next)
}

// shareOf returns how many of n connections the tenants of one server may use.
func shareOf(n, servers int) int {
	if servers < 2 {
		return n
	}
	return max(1, min(n-1, max(2, (n+servers-1)/servers)))
}

// current returns the current shards. Every so often it reads them again; if that
// fails, the old ones stay.
func (v *Servers) current(ctx context.Context) *shardsAt {
	p := v.now.Load()
	if time.Since(p.at) < shardsFor || !v.reread.TryLock() {
		return p
	}
	defer v.reread.Unlock()
	next, err := v.read(storage.NoWait(ctx))
	if err != nil {
		next = p.Shards
	}
	v.set(next)
	return v.now.Load()
}

// Run runs a read for a tenant when its server has room for it.
func (v *Servers) Run(ctx context.Context, tenant storage.ID, read func() error) (err error) {
	ended, refused := v.Begin(ctx, tenant)
	if refused != nil {
		return refused
	}
	defer func() { ended(err) }()
	return read()
}

// Begin waits until the server of a tenant has room for a read. The caller
// calls ended with the outcome of the read.
func (v *Servers) Begin(ctx context.Context, tenant storage.ID) (ended func(error), err error) {
	p := v.current(ctx)
	n := p.of(tenant)
	if n == 0 {
		return func(error) {}, nil
	}
	until := storage.WaitUntil(ctx, v.retryFor)
	left, err := v.await(ctx, n, until)
	if err != nil {
		return nil, err
	}
	leave, err := p.reads.Enter(ctx, n, until)
	if err != nil {
		left()
		return nil, err
	}
	return func(err error) {
		v.Record(n, err)
		leave()
		left()
	}, nil
}

// silence is the time since a server last responded.
type silence struct {
	since   time.Time
	trying  bool          // a call tries the server
	tried   time.Time     // when the last such call ended
	changed chan struct{} // closed when that call ends, or the server responds
}

// trialPause is the pause between two calls that try a server that has been silent
// for longer than RetryFor.
const trialPause = time.Second

var errSilent = fmt.Errorf("%w: the server of this tenant does not respond", storage.ErrUnavailable)

// await waits while a server is silent. One call at a time tries the server; it
// calls ended afterwards. The others wait until the server has been silent for
// RetryFor, and then fail.
func (v *Servers) await(ctx context.Context, n int32, until time.Time) (ended func(), err error) {
	for n != 0 && v.silences.Load() > 0 {
		v.mu.Lock()
		s := v.silent[n]
		if s == nil {
			v.mu.Unlock()
			break
		}
		over, changed := s.since.Add(v.retryFor), s.changed
		late := !time.Now().Before(over)
		if !s.trying && (!late || time.Since(s.tried) >= trialPause) {
			s.trying = true
			v.mu.Unlock()
			return func() { v.tried(s) }, nil
		}
		v.mu.Unlock()
		if late {
			return nil, errSilent
		}
		timer := time.NewTimer(time.Until(link.Earlier(over, until)))
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return nil, errSilent
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	return func() {}, nil
}

// tried ends a call that tried a silent server.
func (v *Servers) tried(s *silence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.trying, s.tried = false, time.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Record records the result of a statement on a server.
func (v *Servers) Record(n int32, err error) {
	hung := silenced(err)
	if n == 0 || !hung && (v.silences.Load() == 0 || !responded(err)) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.silent[n]
	switch {
	case hung && s == nil:
		if v.silent == nil {
			v.silent = map[int32]*silence{}
		}
		v.silent[n] = &silence{since: time.Now(), changed: make(chan struct{})}
		v.silences.Add(1)
	case !hung && s != nil:
		delete(v.silent, n)
		v.silences.Add(-1)
		close(s.changed)
		s.changed = make(chan struct{}) // for tried
	}
}

// silenced reports whether a statement timed out, or the coordinator could not
// reach the worker.
func silenced(err error) bool {
	c := string(link.Code(err))
	if server, ok := errors.AsType[*link.ServerError](err); ok {
		c = server.Code
	}
	return errors.Is(err, os.ErrDeadlineExceeded) || strings.HasPrefix(c, "08")
}

// responded reports whether a result comes from the server.
func responded(err error) bool {
	return err == nil || !link.Lost(err) && !errors.Is(err, storage.ErrUnavailable) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
