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
//	tokens(tenant_id, ord, id, type, set_id, containers, fingerprint, expression,
//	       dedup, hashes, key_version, body, cvc, cvc_expires_at, expires_at,
//	       created_by, created_at, modified_by, modified_at, rev)
//	token_hashes(tenant_id, hash, ord)
//	token_counts(tenant_id, set_id, type, shard, n)
//	container_sets(tenant_id, set_id, containers)
//	logs(tenant_id, id, created_at, actor_id, actor_type, entity_type, entity_id,
//	     operation, message)
//	log_counts(tenant_id, entity_type, day, shard, n, first_id, last_id)
//	records(tenant_id, kind, id, name, name_fold, key_hash, alt_hash, expires_at,
//	        key_version, body, created_at, rev)
//	lookups(hash, tenant_id, kind, id)
//	claims(tenant_id, key, owner, lease_until, expires_at, key_version, answer)
//	jobs(tenant_id, id, kind, run_at, attempts, dead, owner, lease_until,
//	     key_version, payload)
//	schema_version(version)
//
// A token's containers are joined by commas ([JoinContainers]), its hashes are
// concatenated, and a record's name_fold is [FoldName] of its name. The sums of
// n in token_counts over all shards are the exact numbers of rows in tokens by
// set and type: a writer changes them in the transaction that changes the rows.
// Likewise log_counts, if a backend has it ([Dialect].LogCounts), has the
// numbers of rows in logs by type and day ([LogDay]), and the lowest and highest
// id of those.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"

	"github.com/jmoiron/sqlx"

	"github.com/seed-72ea4aab/vault/storage"
)

// Dialect is what the databases disagree on. The style of placeholders is not
// in it: queries are written with question marks, and sqlx knows the rest by
// the name of the driver.
type Dialect struct {
	// Prepared says that statements for single rows may be prepared, which a
	// connection pooler between transactions does not allow. Lists never are:
	// a plan that does not know its values is a bad one for a filter.
	Prepared bool

	// ID returns the driver's value for an id. What comes back from the
	// database may be the 16 bytes or the text of a UUID.
	ID func(storage.ID) any

	// In returns a condition that holds when the column is one of the values,
	// and its arguments. The values are not empty and all of one type: string,
	// []byte for a hash, or what ID returns.
	In func(column string, values []any) (condition string, args []any)

	// PointContext, unless nil, replaces the context of statements for single
	// rows, for a driver that takes long to watch a context and whose
	// statements take no time worth cancelling.
	PointContext func(context.Context) context.Context

	// PointLimit and ListLimit, unless zero, are how many statements for single
	// rows and for lists run at once. Where there are connections for both, a
	// slow list never holds up a single row.
	PointLimit, ListLimit int

	// Error, unless nil, replaces an error of the driver, for a driver whose
	// errors hold the content of columns.
	Error func(error) error

	// LogCounts says that the writer keeps log_counts, and that the key of logs
	// is (tenant_id, entity_type, id). Otherwise it is (tenant_id, id), and the
	// log is counted row by row.
	LogCounts bool
}

// Store implements the reads of [storage.Storage].
type Store struct {
	db      *sqlx.DB
	dialect Dialect
	closed  atomic.Bool

	// What a statement holds while it runs; nil without a limit.
	pointTurns, listTurns chan struct{}
	piece                 int // pieceBytes

	tokenByID, duplicate, lookup, claim point
}

// New returns a Store that reads from a database whose migrations have run.
// The database stays the caller's to close, after the Store.
func New(ctx context.Context, db *sqlx.DB, d Dialect) (*Store, error) {
	s := &Store{
		db: db, dialect: d, piece: pieceBytes,
		tokenByID: point{query: db.Rebind(tokenByIDQuery)},
		duplicate: point{query: db.Rebind(duplicateQuery)},
		lookup:    point{query: db.Rebind(lookupQuery)},
		claim:     point{query: db.Rebind(claimQuery)},
	}
	if d.PointLimit > 0 {
		s.pointTurns = make(chan struct{}, d.PointLimit)
	}
	if d.ListLimit > 0 {
		s.listTurns = make(chan struct{}, d.ListLimit)
	}
	if !d.Prepared {
		return s, nil
	}
	for _, p := range s.points() {
		stmt, err := db.PrepareContext(ctx, p.query)
		if err != nil {
			err = s.fail(err)
			return nil, errors.Join(err, s.Close())
		}
		p.stmt = stmt
	}
	return s, nil
}

func (s *Store) points() []*point {
	return []*point{&s.tokenByID, &s.duplicate, &s.lookup, &s.claim}
}

// Close releases the prepared statements. Reads that come later return
// [storage.ErrClosed].
func (s *Store) Close() error {
	s.closed.Store(true)
	var errs []error
	for _, p := range s.points() {
		if p.stmt != nil {
			errs = append(errs, p.stmt.Close())
		}
	}
	return errors.Join(errs...)
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.fail(s.db.PingContext(ctx))
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

// enter waits for a turn, if turns are limited.
func enter(ctx context.Context, turns chan struct{}) error {
	if turns == nil {
		return nil
	}
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func leave(turns chan struct{}) {
	if turns != nil {
		<-turns
	}
}

// point is a statement that finds one row by a unique key.
type point struct {
	query string
	stmt  *sql.Stmt // nil when statements may not be prepared
}

// one runs a point statement and scans its row into dest. It returns false when
// there is none.
func (s *Store) one(ctx context.Context, p *point, dest []any, args ...any) (bool, error) {
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	if err := enter(ctx, s.pointTurns); err != nil {
		return false, err
	}
	defer leave(s.pointTurns)
	if s.dialect.PointContext != nil {
		ctx = s.dialect.PointContext(ctx)
	}
	var rows *sql.Rows
	var err error
	if p.stmt != nil {
		rows, err = p.stmt.QueryContext(ctx, args...)
	} else {
		rows, err = s.db.DB.QueryContext(ctx, p.query, args...)
	}
	if err != nil {
		return false, s.fail(err)
	}
	defer rows.Close()
	if !rows.Next() {
		return false, s.fail(rows.Err())
	}
	if err := rows.Scan(dest...); err != nil {
		return false, s.fail(err)
	}
	return true, s.fail(rows.Close())
}

// each runs a query for a list and calls row for every row, after it has been
// scanned into dest.
func (s *Store) each(ctx context.Context, query string, args []any, dest []any, row func()) error {
	return s.until(ctx, query, args, dest, func() error {
		row()
		return nil
	})
}

// until is each for a row that may return an error, which ends the reading.
func (s *Store) until(ctx context.Context, query string, args []any, dest []any, row func() error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := enter(ctx, s.listTurns); err != nil {
		return err
	}
	defer leave(s.listTurns)
	rows, err := s.db.DB.QueryContext(ctx, s.db.Rebind(query), args...)
	if err != nil {
		return s.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return s.fail(err)
		}
		if err := row(); err != nil {
			return err
		}
	}
	return s.fail(rows.Err())
}

// count runs a query whose answer is one number.
func (s *Store) count(ctx context.Context, query string, args ...any) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if err := enter(ctx, s.listTurns); err != nil {
		return 0, err
	}
	defer leave(s.listTurns)
	var n int
	return n, s.fail(s.db.GetContext(ctx, &n, s.db.Rebind(query), args...))
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
type pageBytes struct{ most, rows, held int }

func (p *pageBytes) add(parts ...[]byte) error {
	p.rows++
	for _, part := range parts {
		p.held += len(part)
	}
	if p.most > 0 && p.rows > 1 && p.held > p.most {
		return storage.ErrTooLarge
	}
	return nil
}
