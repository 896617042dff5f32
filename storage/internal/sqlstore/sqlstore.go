// Package sqlstore is what the SQL backends share: every read of
// [storage.Storage], and the runner of migrations. A backend adds its writes.
//
// # Schema
//
// Both backends have the same tables and columns. Times are bigint unix
// microseconds, and what is absent is NULL: a zero time, a zero [storage.ID] in
// created_by, modified_by, actor_id and owner, a zero dedup, key or alternative
// key, and a nil cvc or answer.
//
//	vault_tokens(tenant_id, ord, id, type, set_id, containers, fingerprint, expression,
//	       dedup, hashes, key_version, body, cvc, cvc_expires_at, expires_at,
//	       created_by, created_at, modified_by, modified_at, rev)
//	vault_token_hashes(tenant_id, hash, ord)
//	vault_token_counts(tenant_id, set_id, type, shard, n)
//	vault_container_sets(tenant_id, set_id, containers)
//	vault_logs(tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id,
//	     operation, message, actor_name, origin, mac)
//	vault_log_counts(tenant_id, entity_type, day, shard, n)
//	vault_records(tenant_id, kind, id, name, name_fold, key_hash, alt_hash, expires_at,
//	        key_version, body, created_at, rev)
//	vault_lookups(hash, tenant_id, kind, id)
//	vault_claims(tenant_id, key, owner, lease_until, expires_at, key_version, answer)
//	vault_jobs(tenant_id, id, kind, run_at, attempts, dead, owner, lease_until,
//	     key_version, payload)
//	vault_migrations(version, vault_id)
//
// A token's containers are joined by commas ([JoinContainers]), its hashes are
// concatenated, and a record's name_fold is [FoldName] of its name. The sums of
// n in vault_token_counts over all shards are the exact numbers of tokens by
// set and type: a writer changes them in the transaction that changes the rows.
// Likewise vault_log_counts, with the entries that a backend has not counted yet
// ([Dialect].Uncounted), has the numbers of log entries by type and day
// ([LogDay]).
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// Dialect is what the databases disagree on. The style of placeholders is not
// in it: queries are written with question marks, and sqlx knows the rest by
// the name of the driver.
type Dialect struct {
	// Prepared says that statements for single rows may be prepared, which a
	// connection pooler between transactions does not allow.
	Prepared bool

	// PreparedLists says that lists are prepared too, if one plan is good for all
	// their values. Those with filters never are.
	PreparedLists bool

	// ID returns the driver's value for an id. What comes back from the
	// database may be the 16 bytes or the text of a UUID.
	ID func(storage.ID) any

	// In returns a condition that holds when the column is one of the values,
	// and its arguments. The values are not empty and all of one type: string,
	// []byte for a hash, or what ID returns.
	In func(column string, values []any) (condition string, args []any)

	// Uninterrupted says that statements for single rows are not cancelled with
	// their context, for a driver that needs longer to cancel one than to run it.
	Uninterrupted bool

	// Conns is how many connections the Store may have. Lists, unless zero, is
	// how many of them are for lists alone, and the others are then for single
	// rows alone, so that a slow list never holds up a single row.
	Conns, Lists int

	// Lifetime, unless zero, is after what time a connection is replaced.
	Lifetime time.Duration

	// Outage says what reads do while the database is out of reach.
	Outage Outage

	// Error, unless nil, replaces an error of the driver, for a driver whose
	// errors hold the content of columns.
	Error func(error) error

	// Qualify, unless nil, returns a statement in which every table is named with
	// its schema. In the statements of this package no other word begins with
	// vault_.
	Qualify func(string) string

	// LogsByType says that the key of vault_logs is (tenant_id, entity_type, id).
	// Otherwise it is (tenant_id, id).
	LogsByType bool

	// Position is a condition on vault_log_leaves l: its ids have the bytes of the
	// placeholder in them.
	Position string

	// Uncounted, unless empty, is a condition on vault_logs l, with a placeholder
	// for the tenant, that holds for the entries which vault_log_counts does not
	// have yet. NoteLogs is then told how many a list has found.
	Uncounted string
	NoteLogs  func(tenant storage.ID, n int)

	// CheckTenantLast says that the entries of an index are skipped quicker if it is
	// not asked, at each of them, whether they still are the tenant's. If they are
	// not in the end, they do not count.
	CheckTenantLast bool

	// Distributed says that rows are in the places of their tenants, so that a
	// statement for one tenant is cheap, and one for all must be simple.
	Distributed bool
}

// Outage is how reads meet a database that may be out of reach for a while. The
// zero value is for one that is not: they fail.
type Outage struct {
	// Until returns until when a call that begins now is tried again.
	Until func(context.Context) time.Time

	// Passes reports whether the same call may succeed later, after an error of
	// the driver.
	Passes func(error) bool

	// Cut returns what gives up a connection of the driver's at once, even if a
	// statement is under way: its server may not hear that a caller has gone.
	Cut func(conn any) func()
}

// Store implements the reads of [storage.Storage].
type Store struct {
	db      *sqlx.DB
	dialect Dialect
	closed  *atomic.Bool
	within  *within // nil unless it reads in a transaction
	points  *readPool
	lists   *readPool // may be the same
	texts   [pointCount]string
	piece   int // pieceBytes

	preparing bool // what it is asked for, if the dialect allows it
}

// New returns a Store that reads from a database whose migrations have run. It
// takes connections out of the pool and keeps them, so that the pool must be as
// large as Dialect.Conns, and nothing else may need one of those. The database
// stays the caller's to close, after the Store.
func New(ctx context.Context, db *sqlx.DB, d Dialect) (*Store, error) {
	s := &Store{db: db, dialect: d, closed: &atomic.Bool{}, piece: pieceBytes}
	for i, p := range pointQueries {
		s.texts[i] = s.text(`SELECT ` + p.columns + ` FROM ` + p.from)
	}
	var prepared []string
	if d.Prepared {
		prepared = s.texts[:everywhere]
		if d.Distributed {
			prepared = s.texts[:]
		}
	}
	s.points = newReadPool(db.DB, d.Conns-d.Lists, &d, prepared)
	s.lists = s.points
	if d.Lists > 0 {
		s.lists = newReadPool(db.DB, d.Lists, &d, nil)
	}
	// What cannot be prepared is better known now.
	if err := s.on(ctx, s.points, func(*readConn) (bool, error) { return true, nil }); err != nil {
		return nil, s.fail(err)
	}
	return s, nil
}

// Close closes the connections, each when the read on it has ended. Later reads
// return [storage.ErrClosed].
func (s *Store) Close() {
	s.closed.Store(true)
	s.points.close()
	s.lists.close()
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.fail(Do(ctx, s, func(conn *sql.Conn) error { return conn.PingContext(ctx) }))
}

// Do runs something that may be repeated on a connection of a Store, and again
// as reads are. It returns the driver's error.
func Do(ctx context.Context, s *Store, do func(*sql.Conn) error) error {
	return s.on(ctx, s.lists, func(l *readConn) (bool, error) { return true, do(l.conn) })
}

// text returns a query as the database is to get it.
func (s *Store) text(query string) string {
	if s.dialect.Qualify != nil {
		query = s.dialect.Qualify(query)
	}
	return s.db.Rebind(query)
}

// ready reports why a read should not even start.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// fail is the error that a caller sees for one of the driver's.
func (s *Store) fail(err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		return storage.ErrClosed
	case s.dialect.Error != nil:
		return s.dialect.Error(err)
	default:
		return err
	}
}

// point is a statement that finds one row by a unique key.
type point int

const (
	pointTokenByID point = iota
	pointDuplicate
	pointLookup
	pointClaim
	// Those below are pointLookup in two steps, where rows are distributed.
	pointKey
	pointRecord
	pointCount

	everywhere = pointKey
)

var pointQueries = [pointCount]struct{ columns, from string }{
	pointTokenByID: {tokenColumns, tokenByID},
	pointDuplicate: {tokenColumns, duplicateOf},
	pointLookup:    {recordColumns, recordByHash},
	pointClaim:     {claimColumns, claimByKey},
	pointKey:       {`l.tenant_id, l.kind, l.id`, `vault_lookups l WHERE l.hash = ?`},
	pointRecord:    {recordColumns, `vault_records r WHERE r.tenant_id = ? AND r.kind = ? AND r.id = ?`},
}

// one runs a point statement and calls scan with its row. It returns false when
// there is none.
func (s *Store) one(ctx context.Context, p point, scan func(direct.Row) error, args ...any) (found bool, err error) {
	var malformed error
	take := func(row direct.Row) error {
		// A panic would close the connection before its statements.
		defer func() {
			if p := recover(); p != nil {
				malformed = fmt.Errorf("storage: panic while reading a row (%T)", p)
			}
		}()
		found, malformed = true, scan(row)
		return nil
	}
	run := s.running(ctx)
	if s.within != nil {
		if err = s.ready(ctx); err == nil {
			err = s.within.one(run, s.texts[p], take, args)
		}
		if err = cmp.Or(s.fail(err), malformed); err != nil {
			return false, err
		}
		return found, nil
	}
	err = s.on(ctx, s.points, func(l *readConn) (bool, error) {
		found, malformed = false, nil
		if s.dialect.Prepared {
			return true, l.prepared[p].Query(run, take, args...)
		}
		return true, l.direct.Query(run, s.texts[p], take, args...)
	})
	if err = cmp.Or(s.fail(err), malformed); err != nil {
		return false, err
	}
	return found, nil
}

// running is the context of a statement that may not be one to cancel.
func (s *Store) running(ctx context.Context) context.Context {
	if s.dialect.Uninterrupted {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Each runs a query for a list of a Store and calls row for every row, after it
// has been scanned into dest. The query may be repeated.
func Each(ctx context.Context, s *Store, query string, args []any, dest []sql.Scanner, row func()) error {
	return s.each(ctx, query, args, dest, row)
}

func (s *Store) each(ctx context.Context, query string, args []any, dest []sql.Scanner, row func()) error {
	return s.until(ctx, query, args, dest, nil, func() error {
		row()
		return nil
	})
}

// until is each for a row that may return an error, which ends the reading. When
// the connection is lost after some of the rows, the query is repeated if restart
// is not nil, which then forgets them.
func (s *Store) until(ctx context.Context, query string, args []any, dest []sql.Scanner, restart func(), row func() error) error {
	query = s.text(query)
	r := &rowReader{dest: dest, restart: restart, row: row}
	if s.within != nil {
		if err := s.ready(ctx); err != nil {
			return err
		}
		err := s.within.list(s.running(ctx), query, args, r.read)
		return cmp.Or(r.ended, s.fail(err))
	}
	err := s.on(ctx, s.lists, func(l *readConn) (bool, error) {
		if s.preparing {
			return r.readPrepared(ctx, l, query, args)
		}
		return r.read(l.conn.QueryContext(ctx, query, args...))
	})
	return cmp.Or(r.ended, s.fail(err))
}

// prepares returns the Store for queries that one plan is good for, whatever
// their values, and whose texts are few: they are prepared, if possible.
func (s *Store) prepares() *Store {
	if !s.dialect.PreparedLists || s.within != nil {
		return s
	}
	p := *s
	p.preparing = true
	return &p
}

// count runs a query whose answer is one number.
func (s *Store) count(ctx context.Context, query string, args ...any) (int, error) {
	var n int
	err := s.each(ctx, query, args, []sql.Scanner{(*intColumn)(&n)}, func() {})
	return n, err
}

// pieceBytes is how much is read at once of rows that the vault works through
// piece by piece.
const pieceBytes = 64 << 20

// inPieces turns the end of a piece that is full into an ordinary one.
func inPieces(err error) error {
	if errors.Is(err, storage.ErrTooLarge) {
		return nil
	}
	return err
}

// pageBytes counts what the rows of a page hold against a bound, if there is
// one.
type pageBytes struct{ most, rows, bytes int }

func (p *pageBytes) add(parts ...[]byte) error {
	p.rows++
	for _, part := range parts {
		p.bytes += len(part)
	}
	if p.most > 0 && p.rows > 1 && p.bytes > p.most {
		return storage.ErrTooLarge
	}
	return nil
}
