package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// readConn is a reading connection with its prepared statements. It serves one
// reader at a time.
type readConn struct {
	conn     *sql.Conn
	direct   *direct.Conn
	prepared []*direct.Stmt
	lists    map[string]*direct.Stmt // prepared when first needed
	opened   time.Time
	cutter   Cutter
}

// close closes the statements first, because SQLite would otherwise keep the
// connection, its memory and its files. It ignores errors, which mean that the
// connection is lost.
func (c *readConn) close() {
	for _, stmt := range c.prepared {
		_ = stmt.Close()
	}
	for _, stmt := range c.lists {
		_ = stmt.Close()
	}
	c.direct.Discard()
}

// maxLists limits the prepared lists of a connection. There is one text for
// each page size and each number of pairs of set and type.
const maxLists = 32

// list runs a list as a prepared statement and calls row for every row.
func (c *readConn) list(ctx context.Context, text string, args []any, row func(direct.Row) error) error {
	stmt := c.lists[text]
	if stmt == nil {
		for other, old := range c.lists {
			if len(c.lists) < maxLists {
				break
			}
			_ = old.Close()
			delete(c.lists, other)
		}
		var err error
		if stmt, err = c.direct.Prepare(ctx, text); err != nil {
			return err
		}
		if c.lists == nil {
			c.lists = map[string]*direct.Stmt{}
		}
		c.lists[text] = stmt
	}
	return stmt.Query(ctx, row, args...)
}

// readPool is a pool with a limited number of connections. It opens a
// connection if none is idle, and keeps it. It uses the most recently used
// connection first.
type readPool struct {
	db       *sql.DB
	texts    []string // statements to prepare on each connection
	lifetime time.Duration
	cut      func(conn any) func() // may be nil
	permits  Turns                 // held by readers

	mu     sync.Mutex
	idle   []*readConn
	closed bool
}

func newReadPool(db *sql.DB, most int, d *Dialect, texts []string) *readPool {
	return &readPool{db: db, texts: texts, lifetime: d.Lifetime, cut: d.Outage.Cut, permits: make(Turns, most)}
}

// take waits for a connection, until the given time if that is not zero. The
// caller must give it back.
func (p *readPool) take(ctx context.Context, until time.Time) (*readConn, error) {
	if err := p.permits.Enter(ctx, until, TurnAtLeast); err != nil {
		return nil, err
	}
	c, err := p.kept()
	if c == nil && err == nil {
		c, err = p.open(ctx, until)
	}
	if err != nil {
		<-p.permits
		return nil, err
	}
	return c, nil
}

// enterList waits until a tenant may run another list. The caller calls leave
// afterwards.
func (s *Store) enterList(ctx context.Context, tenant storage.ID) (leave func(), err error) {
	if s.dialect.TenantLists == 0 || s.within != nil {
		return func() {}, nil
	}
	return s.listing.Enter(ctx, tenant, s.dialect.Outage.Until(ctx))
}

// kept returns the most recently used idle connection, or nil. It closes idle
// connections that are too old.
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

var errNoAnswer = fmt.Errorf("%w: the database does not answer", storage.ErrUnavailable)

// open opens a connection, until the given time at the latest if that is not
// zero.
func (p *readPool) open(ctx context.Context, until time.Time) (*readConn, error) {
	if until.IsZero() {
		return p.connect(ctx)
	}
	inTime, cancel := context.WithTimeout(ctx, max(TurnAtLeast, time.Until(until)))
	defer cancel()
	c, err := p.connect(inTime)
	if err != nil && inTime.Err() != nil && ctx.Err() == nil {
		return nil, errNoAnswer
	}
	return c, err
}

func (p *readPool) connect(ctx context.Context) (*readConn, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &readConn{conn: conn, direct: direct.NewConn(conn), opened: time.Now()}
	if p.cut != nil {
		_ = conn.Raw(func(on any) error {
			c.cutter.Cut = p.cut(on)
			return nil
		})
	}
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

// give returns a connection to the pool, or closes it if keep is false. c is
// nil if no connection could be opened.
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
	p.mu.Unlock()
	p.drop()
}

// drop closes the idle connections. When one connection is lost, the others
// usually are too.
func (p *readPool) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}
