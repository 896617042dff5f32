package sqlstore

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// readConn is a connection that reads, with the statements that are prepared on it.
// One reader has it at a time.
type readConn struct {
	conn     *sql.Conn
	direct   *direct.Conn
	prepared []*direct.Stmt
	opened   time.Time
}

// close closes the statements first: SQLite would keep the connection, its
// memory and its files for those that are left. What fails here fails because
// the connection has gone.
func (c *readConn) close() {
	for _, stmt := range c.prepared {
		_ = stmt.Close()
	}
	c.direct.Discard()
}

// readPool is up to so many connections. Each is opened when no other is idle,
// and then kept; the one that was used last is used next.
type readPool struct {
	db       *sql.DB
	texts    []string // of the statements to prepare on each
	lifetime time.Duration
	permits  chan struct{} // what a reader holds

	mu     sync.Mutex
	idle   []*readConn
	closed bool
}

func newReadPool(db *sql.DB, most int, lifetime time.Duration, texts []string) *readPool {
	return &readPool{db: db, texts: texts, lifetime: lifetime, permits: make(chan struct{}, most)}
}

// take waits for a connection, which the caller gives back.
func (p *readPool) take(ctx context.Context) (*readConn, error) {
	select {
	case p.permits <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := p.kept()
	if c == nil && err == nil {
		c, err = p.open(ctx)
	}
	if err != nil {
		<-p.permits
		return nil, err
	}
	return c, nil
}

// kept returns the idle connection that was used last, or nil. Connections that
// have become too old are closed, whether they are used or not.
func (p *readPool) kept() (*readConn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, storage.ErrClosed
	}
	old := p.expired()
	var c *readConn
	if last := len(p.idle) - 1; last >= 0 {
		c, p.idle[last] = p.idle[last], nil
		p.idle = p.idle[:last]
	}
	p.mu.Unlock()
	for _, o := range old {
		o.close()
	}
	return c, nil
}

// expired removes the idle connections that are too old.
func (p *readPool) expired() (old []*readConn) {
	if p.lifetime == 0 {
		return nil
	}
	now, kept := time.Now(), p.idle[:0]
	for _, c := range p.idle {
		if now.Sub(c.opened) < p.lifetime {
			kept = append(kept, c)
		} else {
			old = append(old, c)
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	return old
}

func (p *readPool) open(ctx context.Context) (*readConn, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &readConn{conn: conn, direct: direct.NewConn(conn), opened: time.Now()}
	for _, text := range p.texts {
		stmt, err := c.direct.Prepare(ctx, text)
		if err != nil {
			c.close()
			return nil, err
		}
		c.prepared = append(c.prepared, stmt)
	}
	return c, nil
}

// give takes a connection back, or nil for one that could not be opened, and
// closes it unless it is to be kept.
func (p *readPool) give(c *readConn, keep bool) {
	if c != nil {
		p.mu.Lock()
		if keep = keep && !p.closed; keep {
			p.idle = append(p.idle, c)
		}
		p.mu.Unlock()
		if !keep {
			c.close()
		}
	}
	<-p.permits
}

// close closes the idle connections. The others are closed when they are given
// back.
func (p *readPool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// on runs something on a connection. If that turns out to be lost, as all are
// after a failover, it runs once more on a new one, provided that it says that it
// may.
//
// A connection is given up after any error but the end of its reader's context,
// which leaves it sound: with it goes whatever was wrong with it or its
// statements.
func (s *Store) on(ctx context.Context, from *readPool, do func(*readConn) (again bool, err error)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	c, err := from.take(ctx)
	if err != nil {
		return err
	}
	keep := false
	defer func() { from.give(c, keep) }()
	again, err := do(c)
	if err != nil && again && ctx.Err() == nil && c.direct.Lost() {
		c.close()
		if c, err = from.open(ctx); err != nil {
			return err
		}
		_, err = do(c)
	}
	switch {
	case err == nil:
		keep = true
	case ctx.Err() != nil:
		keep, err = !c.direct.Lost(), ctx.Err()
	}
	return err
}
