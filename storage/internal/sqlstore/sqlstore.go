// Package sqlstore has the common parts of the SQL backends: every read of
// [storage.Storage], and the migration runner. A backend adds its writes.
//
// # Schema
//
// Both backends have the same tables and columns. Times are Unix microseconds
// in bigint columns. Absent values are NULL: a zero time, a zero [storage.ID]
// in created_by, modified_by, actor_id and owner, a zero dedup, key or
// alternative key, and a nil cvc or answer.
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
// A token's containers are joined with commas ([JoinContainers]), and its
// hashes are concatenated. A record's name_fold is [FoldName] of its name.
//
// The sum of n in vault_token_counts over all shards is the exact number of
// tokens by set and type. A writer changes it in the transaction that changes
// the rows. In the same way, vault_log_counts has the number of log entries by
// type and day ([LogDay]), except for entries that a backend has not counted
// yet ([Dialect].Uncounted).
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

// Dialect holds the differences between databases. It does not include the
// style of placeholders: queries use question marks, and sqlx replaces them
// according to the name of the driver.
type Dialect struct {
	// Prepared means that statements for single rows may be prepared. A
	// transaction pooler does not allow that.
	Prepared bool

	// PreparedLists means that lists are also prepared, if one plan suits all
	// their values. Lists with filters are never prepared.
	PreparedLists bool

	// ID returns the driver's value for an id, which the database returns as 16 bytes.
	ID func(storage.ID) any

	// In returns the condition that the column is one of the values, and its
	// arguments. The values are not empty and all have the same type: string,
	// []byte for a hash, or the result of ID.
	In func(column string, values []any) (condition string, args []any)

	// Uninterrupted means that statements for single rows are not canceled with
	// their context. It is for a driver that takes longer to cancel a statement
	// than to run it.
	Uninterrupted bool

	// Conns is the number of connections of the Store. Lists, if not zero, is
	// how many of them serve only lists. The others then serve only single
	// rows, so that a slow list never delays a single row.
	Conns, Lists int

	// TenantLists, if not zero, is how many lists of one tenant run at once, so
	// that other tenants find a free connection.
	TenantLists int

	// SmallBody, if not zero, is the size in bytes up to which the query of a page
	// returns the body of a token.
	SmallBody int

	// Lifetime, if not zero, is the age at which a connection is replaced.
	Lifetime time.Duration

	// Outage configures reads while the database is out of reach.
	Outage Outage

	// ForTenant, if not nil, is called before each statement that reads rows of one
	// tenant. The store calls ended with the outcome of the statement.
	ForTenant func(ctx context.Context, tenant storage.ID) (ended func(error), err error)

	// Error, if not nil, replaces an error of the driver, for a driver whose
	// errors contain column values.
	Error func(error) error

	// Qualify, if not nil, returns a statement with the schema added to every
	// table name. In the statements of this package only table names start with
	// vault_.
	Qualify func(string) string

	// Columns, if not nil, returns columns of a prepared query in a form that the
	// driver reads faster. They are separated by commas.
	Columns func(string) string

	// LogsByType means that the key of vault_logs is (tenant_id, entity_type,
	// id). Otherwise it is (tenant_id, id).
	LogsByType bool

	// Position is the condition that the ids of vault_log_leaves l contain the
	// bytes of the placeholder.
	Position string

	// Uncounted, if not empty, is a condition on vault_logs l, with a
	// placeholder for the tenant. It holds for the entries that
	// vault_log_counts does not include yet. A list then passes the number of
	// entries it found to NoteLogs.
	Uncounted string
	NoteLogs  func(tenant storage.ID, n int)

	// CheckTenantLast means that skipping entries of an index is faster without
	// checking the tenant of each entry. If the last one turns out to belong to
	// another tenant, the result is discarded.
	CheckTenantLast bool

	// Lateral means that the database has LATERAL and unnest. Its planner may
	// choose a wrong index to find a token by its key. In then has a single
	// argument, an array.
	Lateral bool

	// LookupInSteps means that Lookup first finds the tenant of a key and then the
	// record. Otherwise it joins the two.
	LookupInSteps bool

	// LogTenants and DueTenants, if not empty, replace the queries of the methods
	// with these names, with the same parameters.
	LogTenants, DueTenants string
}

// Outage configures how reads handle a database that is out of reach for a
// while. With the zero value, reads fail.
type Outage struct {
	// Until returns the time until which a call that begins now is retried. It and
	// Passes are nil for a database that does not go out of reach.
	Until func(context.Context) time.Time

	// Limit, if not zero, is how long a list may take before the store cancels
	// its statement. It is for a database that does not do so itself.
	Limit time.Duration

	// ListLimit, if not zero, is how long a list of tokens may take before its
	// last statement begins.
	ListLimit time.Duration

	// Passes reports whether the same call may succeed later, given an error of
	// the driver.
	Passes func(error) bool

	// Cut returns a function that closes a connection of the driver at once,
	// even during a statement, because the server may not notice that a caller
	// has gone.
	Cut func(conn any) func()
}

// Store implements the reads of [storage.Storage].
type Store struct {
	db      *sqlx.DB
	dialect Dialect
	closed  *atomic.Bool
	within  *within // nil unless it reads in a transaction
	points  *readPool
	lists   *readPool // may be the same as points
	texts   [pointCount]string
	piece   int   // pieceBytes
	bodies  Turns // of callers that read large bodies
	listing *TurnsBy[storage.ID]

	preparing bool           // prepare queries, if the dialect allows it
	left      *time.Duration // of Outage.ListLimit; nil for no limit
}

// New returns a Store that reads from a database whose migrations have run. It
// takes connections from the pool and keeps them. The pool must have at least
// Dialect.Conns connections, which nothing else may use. The caller closes the
// database after the Store.
func New(ctx context.Context, db *sqlx.DB, d Dialect) (*Store, error) {
	if d.Outage.Until == nil {
		d.Outage.Until = func(context.Context) (never time.Time) { return never }
		d.Outage.Passes = func(error) bool { return false }
	}
	s := &Store{db: db, dialect: d, closed: &atomic.Bool{}, piece: pieceBytes, bodies: make(Turns, max(1, d.Conns/4))}
	s.listing = NewTurnsBy[storage.ID](d.TenantLists)
	s.texts = s.pointTexts()
	var prepared []string
	if d.Prepared {
		prepared = s.texts[:everywhere]
		if d.LookupInSteps {
			prepared = s.texts[:]
		}
	}
	s.points = newReadPool(db.DB, d.Conns-d.Lists, &d, prepared)
	s.lists = s.points
	if d.Lists > 0 {
		s.lists = newReadPool(db.DB, d.Lists, &d, nil)
	}
	// Find out now if a statement cannot be prepared.
	if err := s.on(ctx, s.points, func(*readConn) (bool, error) { return true, nil }); err != nil {
		return nil, s.fail(err)
	}
	return s, nil
}

// pointTexts returns the statements for single rows.
func (s *Store) pointTexts() (texts [pointCount]string) {
	points := pointQueries
	if s.dialect.Lateral {
		points[pointTokenByID].from, points[pointDuplicate].from = tokenInOrder, duplicateInOrder
	}
	for i, p := range points {
		columns := p.columns
		if s.dialect.Columns != nil {
			columns = s.dialect.Columns(columns)
		}
		texts[i] = s.text(`SELECT ` + columns + ` FROM ` + p.from)
	}
	return texts
}

// Close closes the connections, each after the read on it has ended. Later
// reads return [storage.ErrClosed].
func (s *Store) Close() {
	s.closed.Store(true)
	s.points.close()
	s.lists.close()
}

// Ping reports whether the database responds.
func (s *Store) Ping(ctx context.Context) error {
	return s.fail(Do(ctx, s, func(conn *sql.Conn) error { return conn.PingContext(ctx) }))
}

// Do runs a function that is safe to repeat on a connection of a Store, with
// the same retries as reads. It returns the driver's error.
func Do(ctx context.Context, s *Store, do func(*sql.Conn) error) error {
	return s.retried(ctx, s.lists, func(l *readConn) (bool, error) { return true, do(l.conn) })
}

// tenantKey is the context key of the tenant whose rows a call reads.
type tenantKey struct{}

// of returns a context for reading rows of a tenant, for Dialect.ForTenant.
func (s *Store) of(ctx context.Context, tenant storage.ID) context.Context {
	if s.dialect.ForTenant == nil || tenant.IsZero() {
		return ctx
	}
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// text returns a query in the form that the database expects.
func (s *Store) text(query string) string {
	if s.dialect.Qualify != nil {
		query = s.dialect.Qualify(query)
	}
	return s.db.Rebind(query)
}

// ready returns an error if a read must not start.
func (s *Store) ready(ctx context.Context) error {
	if s.closed.Load() {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// fail returns the error that a caller sees for a driver error.
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
	// pointKey and pointRecord do the work of pointLookup in two steps.
	pointKey
	pointRecord
	pointCount

	everywhere = pointKey
)

var pointQueries = [pointCount]struct{ columns, from string }{
	pointTokenByID: {TokenColumns, tokenByID},
	pointDuplicate: {TokenColumns, duplicateOf},
	pointLookup:    {recordColumns, recordByHash},
	pointClaim:     {claimColumns, claimByKey},
	pointKey:       {`l.tenant_id, l.kind, l.id`, `vault_lookups l WHERE l.hash = ?`},
	pointRecord:    {recordColumns, `vault_records r WHERE r.tenant_id = ? AND r.kind = ? AND r.id = ?`},
}

// one runs a point statement and calls scan with its row. It returns false if
// there is no row.
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
	} else {
		err = s.on(ctx, s.points, func(l *readConn) (bool, error) {
			found, malformed = false, nil
			if s.dialect.Prepared {
				return true, l.prepared[p].Query(run, take, args...)
			}
			return true, l.direct.Query(run, s.texts[p], take, args...)
		})
	}
	if err = cmp.Or(s.fail(err), malformed); err != nil {
		return false, err
	}
	return found, nil
}

// running returns the context for a statement that may have to run
// uninterrupted.
func (s *Store) running(ctx context.Context) context.Context {
	if s.dialect.Uninterrupted {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Each runs a query for a list on a Store and calls row for every row, after
// scanning it into dest. The query may be repeated.
func Each(ctx context.Context, s *Store, query string, args []any, dest []Field, row func()) error {
	return s.each(ctx, query, args, dest, row)
}

func (s *Store) each(ctx context.Context, query string, args []any, dest []Field, row func()) error {
	return s.until(ctx, query, args, dest, nil, func() error {
		row()
		return nil
	})
}

// until is like each, for a row function that may return an error, which ends
// the reading. If the connection is lost after some of the rows, the query is
// repeated if restart is not nil. restart discards those rows.
func (s *Store) until(ctx context.Context, query string, args []any, dest []Field, restart func(), row func() error) error {
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
		return s.limited(ctx, func(ctx context.Context) (bool, error) {
			return r.read(l.conn.QueryContext(ctx, query, args...))
		})
	})
	return cmp.Or(r.ended, s.fail(err))
}

// prepares returns the Store for queries with few texts that one plan suits,
// whatever their values. They are prepared if possible.
func (s *Store) prepares() *Store {
	if !s.dialect.PreparedLists || s.within != nil {
		return s
	}
	p := *s
	p.preparing = true
	return &p
}

// count runs a query that returns one number.
func (s *Store) count(ctx context.Context, query string, args ...any) (int, error) {
	var n int
	err := s.each(ctx, query, args, []Field{{&n}}, func() {})
	return n, err
}

// pieceBytes limits how much is read at once of rows that the vault processes
// in pieces.
const pieceBytes = 64 << 20

// inPieces treats the end of a full piece as success.
func inPieces(err error) error {
	if errors.Is(err, storage.ErrTooLarge) {
		return nil
	}
	return err
}
