package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// slot is a connection that writes. It is used by one goroutine at a time, and
// is opened when it is first needed and again after it was lost.
type slot struct {
	pool     *pool
	schema   schemaName
	prepare  bool // statements; not behind a pooler
	inTx     bool
	shard    int64 // of the counters that its writes add to
	unsynced bool  // its session does not wait for the disk
	routed   bool  // the tables are distributed
	conn     *sql.Conn
	cut      func() // gives up conn at once
	direct   *direct.Conn
	opened   time.Time
	prepared map[string]*direct.Stmt

	// lockTimeout is for how long statements in transactions of a routed slot wait
	// for a lock.
	lockTimeout time.Duration
	xid         int64 // of the transaction of a routed slot
}

const (
	// connLifetime bounds the age of a connection, so that a program follows
	// its servers when they are moved.
	connLifetime = 30 * time.Minute
	// maxPrepared bounds the prepared statements of a connection. The texts of
	// real changes are far fewer.
	maxPrepared = 200
)

// connected reports whether there is a connection that is not too old.
func (s *slot) connected() bool { return s.conn != nil && time.Since(s.opened) < connLifetime }

// ensure makes sure that there is a connection. It tries once.
func (s *slot) ensure(until time.Time) error {
	if s.connected() {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return &connectError{err}
	}
	return nil
}

// connect opens a connection, in place of the one there is.
func (s *slot) connect(ctx context.Context) error {
	s.reset()
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	_ = conn.Raw(func(on any) error {
		s.cut = s.pool.lines.cut(on)
		return nil
	})
	s.conn, s.direct, s.opened, s.prepared = conn, direct.NewConn(conn), time.Now(), map[string]*direct.Stmt{}
	return nil
}

// reset gives the connection up, and with it its prepared statements and any
// open transaction.
func (s *slot) reset() {
	if s.conn == nil {
		return
	}
	s.direct.Discard()
	s.conn, s.cut, s.direct, s.prepared, s.inTx = nil, nil, nil, nil, false
}

func (s *slot) start(tenant storage.ID) *statement {
	st := newStatement(tenant)
	st.routed = s.routed
	return st
}

// exec runs a statement whose rows do not matter. It is prepared, for this time
// and later ones, if that is wanted and possible.
func (s *slot) exec(text string, args []any, prepare bool) error {
	_, err := s.run(context.Background(), text, args, prepare)
	return err
}

// run runs a statement as exec does, and returns how many rows it has written.
func (s *slot) run(ctx context.Context, text string, args []any, prepare bool) (n int64, err error) {
	err = s.bounded(func() error {
		stmt, err := s.statement(ctx, text, prepare)
		if err != nil {
			return err
		}
		var result driver.Result
		if stmt == nil {
			result, err = s.direct.Exec(ctx, s.schema.in(text), args...)
		} else {
			result, err = stmt.Exec(ctx, args...)
		}
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return n, err
}

// query runs a statement as exec does, and calls row for each of its rows.
func (s *slot) query(ctx context.Context, text string, args []any, prepare bool, row func([]driver.Value) error) error {
	return s.bounded(func() error {
		stmt, err := s.statement(ctx, text, prepare)
		if err != nil {
			return err
		}
		if stmt == nil {
			return s.direct.Query(ctx, s.schema.in(text), row, args...)
		}
		return stmt.Query(ctx, row, args...)
	})
}

// bounded runs a statement so that it waits for a lock no longer than it may.
// That is a setting of the session, but behind a pooler of the transaction, so
// there it needs one.
func (s *slot) bounded(do func() error) error {
	if s.prepare || s.inTx {
		return uncertain(do(), s.routed)
	}
	return uncertain(s.transact(do), s.routed)
}

// transact runs statements in a transaction. One that was begun in part, as when
// the server cancels what follows BEGIN, ends with the connection.
func (s *slot) transact(do func() error) error {
	if s.conn == nil {
		return errNoConn
	}
	if err := s.begin(); err != nil {
		s.reset()
		return err
	}
	s.inTx = true
	if err := do(); err != nil {
		if s.control("ROLLBACK") != nil {
			s.reset()
		}
		s.inTx = false
		return err
	}
	s.inTx = false
	return s.commit()
}

// control runs a statement without parameters.
func (s *slot) control(command string) error {
	_, err := s.conn.ExecContext(context.Background(), command)
	return err
}

// setLockTimeout is the statement that bounds the wait for a lock.
func setLockTimeout(scope string, d time.Duration) string {
	return "SET " + scope + "lock_timeout = " + strconv.FormatInt(d.Milliseconds(), 10)
}

// statement returns the prepared statement of a text, or nil when it is to be
// sent as it is. There may be no connection any more: that of a transaction which
// could not be rolled back has been given up.
func (s *slot) statement(ctx context.Context, text string, prepare bool) (*direct.Stmt, error) {
	if s.conn == nil {
		return nil, errNoConn
	}
	if !prepare || !s.prepare {
		return nil, nil
	}
	if stmt := s.prepared[text]; stmt != nil || len(s.prepared) >= maxPrepared {
		return stmt, nil
	}
	stmt, err := s.direct.Prepare(ctx, s.schema.in(text))
	if err != nil {
		return nil, err
	}
	s.prepared[text] = stmt
	return stmt, nil
}

// setLockTimeout changes for how long statements wait for a lock, where that is
// bounded at all. What fails here has lost its connection.
func (s *slot) setLockTimeout(d time.Duration) {
	if s.routed {
		s.lockTimeout = d
		return
	}
	if s.prepare && s.conn != nil && s.control(setLockTimeout("", d)) != nil {
		s.reset()
	}
}

// forget drops the connection after an error that makes it useless.
func (s *slot) forget(err error) {
	if lost(err) || aborted(err) || code(err) == pqerror.ReadOnlySQLTransaction {
		s.reset()
	}
}
