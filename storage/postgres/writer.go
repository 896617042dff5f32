package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// writer is a connection that writes, for one goroutine at a time. It is opened
// when first needed, and again after it was lost.
type writer struct {
	statements.Session

	pool     *link.Pool
	schema   schemaName
	prepare  bool // prepare statements; false behind a pooler
	inTx     bool
	layout   citus.Layout
	server   int32 // of the tenant it writes for; zero if unknown
	conn     *sql.Conn
	cutter   *sqlstore.Cutter // of conn
	direct   *direct.Conn
	opened   time.Time
	prepared map[string]*direct.Stmt // by text
	changes  []*storage.Change       // memory for a batch
	readings []*statements.Reading   // memory for a batch

	lockTimeout time.Duration // how long statements wait for a lock
	number      int64         // of the current transaction, if statements need it
}

// maxPrepared limits the prepared statements of a connection. Real changes
// have far fewer texts.
const maxPrepared = 200

// connected reports whether there is a connection that is not too old.
func (s *writer) connected() bool { return s.conn != nil && time.Since(s.opened) < link.MaxAge }

// ensure opens a connection if there is no usable one. It tries once.
func (s *writer) ensure(until time.Time) error {
	if s.connected() {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if err := s.connect(ctx); err != nil {
		return link.NotConnected(err)
	}
	return nil
}

// connect opens a connection that replaces the current one.
func (s *writer) connect(ctx context.Context) error {
	s.reset()
	conn, err := s.pool.Conn(ctx)
	if err != nil {
		return err
	}
	_ = conn.Raw(func(on any) error {
		s.cutter = &sqlstore.Cutter{Cut: s.pool.Lines.Cut(on)}
		return nil
	})
	s.conn, s.direct, s.opened, s.prepared = conn, direct.NewConn(conn), time.Now(), map[string]*direct.Stmt{}
	return nil
}

// reset closes the connection, with its prepared statements and any open
// transaction.
func (s *writer) reset() {
	if s.conn == nil {
		return
	}
	s.direct.Discard()
	s.conn, s.cutter, s.direct, s.prepared, s.inTx = nil, nil, nil, nil, false
}

func (s *writer) Start(tenant storage.ID) *statements.Statement {
	st := statements.NewStatement(tenant)
	st.Composer = s.layout.Traits()
	return st
}

// exec runs a statement and ignores its rows. If the writer allows it, the
// statement is prepared and kept for later calls.
func (s *writer) exec(text string, args []any) error {
	_, err := s.Run(context.Background(), text, args, true)
	return err
}

// Run runs a statement like exec, prepared only if prepare is set, and returns how
// many rows it wrote.
func (s *writer) Run(ctx context.Context, text string, args []any, prepare bool) (n int64, err error) {
	err = s.limited(func() error {
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

// Query runs a statement like exec and calls row for each of its rows.
func (s *writer) Query(ctx context.Context, text string, args []any, prepare bool, row func([]driver.Value) error) error {
	return s.limited(func() error {
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

// limited runs a statement with a limit on its wait for locks. The limit is a
// setting of the session. Behind a pooler it is a setting of the transaction,
// so there the statement needs one.
func (s *writer) limited(do func() error) error {
	var err error
	if s.prepare || s.inTx {
		err = do()
	} else {
		err = s.transact(do)
	}
	return s.layout.Explain(s.server, err, false)
}

// inSteps runs steps in a transaction. A single step needs no explicit
// transaction, unless it uses the transaction number.
func (s *writer) inSteps(steps []statements.Step) error {
	ctx := context.Background()
	switch {
	case len(steps) == 0:
		return nil
	case len(steps) == 1 && !steps[0].Numbered:
		return steps[0].Do(ctx, s)
	}
	return s.transact(func() error {
		for _, p := range steps {
			if err := p.Do(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// Number implements [statements.Runner].
func (s *writer) Number(context.Context) (any, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(s.number)), nil
}

// transact runs statements in a transaction. If begin fails it closes the
// connection, which ends a transaction that was begun only in part.
func (s *writer) transact(do func() error) error {
	if s.conn == nil {
		return errNoConn
	}
	var err error
	if s.number, err = s.layout.Begin(context.Background(), s.conn, !s.prepare, s.lockTimeout); err != nil {
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
	return s.layout.Explain(s.server, s.control("COMMIT"), true)
}

// control runs a statement without parameters.
func (s *writer) control(command string) error {
	_, err := s.conn.ExecContext(context.Background(), command)
	return err
}

// setLockTimeout changes how long statements wait for a lock, in transactions and in
// the session. If that fails, the connection is lost.
func (s *writer) setLockTimeout(d time.Duration) {
	s.lockTimeout = d
	if s.prepare && s.conn != nil && s.control(citus.SetLockTimeout("", d)) != nil {
		s.reset()
	}
}

// statement returns the prepared statement of a text, or nil if the text is not
// to be prepared. It fails if the connection was closed because a transaction
// could not be rolled back.
func (s *writer) statement(ctx context.Context, text string, prepare bool) (*direct.Stmt, error) {
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

// forget closes the connection after an error that makes it useless.
func (s *writer) forget(err error) {
	if link.Lost(err) || link.Aborted(err) || link.Code(err) == pqerror.ReadOnlySQLTransaction {
		s.reset()
	}
}
