package sqlstore

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// lane is a connection that reads, with the statements that are prepared on it.
// One reader has it at a time.
type lane struct {
	conn     *sql.Conn
	direct   *direct.Conn
	prepared []*direct.Stmt
	opened   time.Time
}

// close closes the statements first: SQLite would keep the connection, its
// memory and its files for those that are left. What fails here fails because
// the connection has gone.
func (l *lane) close() {
	for _, stmt := range l.prepared {
		_ = stmt.Close()
	}
	l.direct.Discard()
}

// lanes are up to so many connections. Each is opened when there is none to
// read on, and then kept; the one that was used last is used next.
type lanes struct {
	db       *sql.DB
	texts    []string // of the statements to prepare on each
	lifetime time.Duration
	turns    chan struct{} // what a reader holds

	mu     sync.Mutex
	idle   []*lane
	closed bool
}

func newLanes(db *sql.DB, most int, lifetime time.Duration, texts []string) *lanes {
	return &lanes{db: db, texts: texts, lifetime: lifetime, turns: make(chan struct{}, most)}
}

// take waits for a lane, which the caller gives back.
func (n *lanes) take(ctx context.Context) (*lane, error) {
	select {
	case n.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, err := n.kept()
	if l == nil && err == nil {
		l, err = n.open(ctx)
	}
	if err != nil {
		<-n.turns
		return nil, err
	}
	return l, nil
}

// kept returns the lane that was used last, or nil if there is none. Lanes that
// have become too old are closed, whether they are used or not.
func (n *lanes) kept() (*lane, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, storage.ErrClosed
	}
	old := n.expired()
	var l *lane
	if last := len(n.idle) - 1; last >= 0 {
		l, n.idle[last] = n.idle[last], nil
		n.idle = n.idle[:last]
	}
	n.mu.Unlock()
	for _, o := range old {
		o.close()
	}
	return l, nil
}

// expired removes the lanes that are too old.
func (n *lanes) expired() (old []*lane) {
	if n.lifetime == 0 {
		return nil
	}
	now, kept := time.Now(), n.idle[:0]
	for _, l := range n.idle {
		if now.Sub(l.opened) < n.lifetime {
			kept = append(kept, l)
		} else {
			old = append(old, l)
		}
	}
	clear(n.idle[len(kept):])
	n.idle = kept
	return old
}

func (n *lanes) open(ctx context.Context) (*lane, error) {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	l := &lane{conn: conn, direct: direct.NewConn(conn), opened: time.Now()}
	for _, text := range n.texts {
		stmt, err := l.direct.Prepare(ctx, text)
		if err != nil {
			l.close()
			return nil, err
		}
		l.prepared = append(l.prepared, stmt)
	}
	return l, nil
}

// give takes a lane back, or nil for one that could not be opened, and closes
// it unless it is to be kept.
func (n *lanes) give(l *lane, keep bool) {
	if l != nil {
		n.mu.Lock()
		if keep = keep && !n.closed; keep {
			n.idle = append(n.idle, l)
		}
		n.mu.Unlock()
		if !keep {
			l.close()
		}
	}
	<-n.turns
}

// close closes the lanes that nobody has. The others are closed when they are
// given back.
func (n *lanes) close() {
	n.mu.Lock()
	n.closed = true
	idle := n.idle
	n.idle = nil
	n.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
}

// on runs something on a lane. If its connection turns out to be lost, as all
// of them are after a failover, it is run once more on a new one, provided that
// it says that it may be.
//
// A lane is given up after any error but the end of its reader's context, which
// leaves a sound connection behind: with the connection goes whatever was wrong
// with it or its statements.
func (s *Store) on(ctx context.Context, from *lanes, do func(*lane) (again bool, err error)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	l, err := from.take(ctx)
	if err != nil {
		return err
	}
	keep := false
	defer func() { from.give(l, keep) }()
	again, err := do(l)
	if err != nil && again && ctx.Err() == nil && l.direct.Lost() {
		l.close()
		if l, err = from.open(ctx); err != nil {
			return err
		}
		_, err = do(l)
	}
	switch {
	case err == nil:
		keep = true
	case ctx.Err() != nil:
		keep, err = !l.direct.Lost(), ctx.Err()
	}
	return err
}
