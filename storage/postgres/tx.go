package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Beside implements [storage.TxStorage]. It returns true, because the vault can
// work beside any transaction.
func (s *Store) Beside() bool { return true }

// InTx implements [storage.TxStorage]. The transaction may use any PostgreSQL
// driver for [database/sql], or pgx itself through the module vaultpgx. Its role
// needs the same rights on the tables as the vault's own role.
//
// On Citus, Write makes the transaction commit in two phases, so that it is atomic
// with all tables of the database: tables of the coordinator, reference tables and
// distributed tables. If a worker fails between the phases, the rows become visible
// there when Citus has recovered the transaction. Tables that are distributed by
// tenant and colocated with vault_tokens are on the worker of the tenant, which saves
// a connection to another.
func (s *Store) InTx(ctx context.Context, tx storage.SQLTx) (storage.Tx, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	theirs, readOnly, err := readIdentity(ctx, tx, s.schema)
	if err != nil {
		return nil, txError(err)
	}
	if *s.identity.Load() != theirs { // the server may have restarted
		if err := s.identify(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case *s.identity.Load() != theirs:
		return nil, storage.ErrOtherDatabase
	case readOnly:
		return nil, storage.ErrReadOnly
	}
	t := &txStore{store: s, tx: tx}
	d := s.dialect
	d.In, d.Error = anyDriverIn, txError
	t.reader = s.reader.Within(tx, &t.mu, d)
	return t, nil
}

// anyDriverIn is in, with parameters that any driver understands.
func anyDriverIn(column string, values []any) (string, []any) {
	condition, args := in(column, values)
	return condition, []any{wire.ArrayText(args[0].([]byte))}
}

// readIdentity identifies the tables that a connection finds, and whether it is
// read-only. It succeeds on any database, so that it does not abort a
// transaction.
func readIdentity(ctx context.Context, on direct.Queryer, schema schemaName) (at string, readOnly bool, err error) {
	err = direct.QueryRow(ctx, on, `SELECT pg_catalog.concat_ws('/', extract(epoch FROM pg_catalog.pg_postmaster_start_time()),
		(SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()),
		coalesce(pg_catalog.to_regclass(`+pq.QuoteLiteral(schema.in("vault_migrations"))+`)::oid, 0)),
		current_setting('transaction_read_only') = 'on'`, &at, &readOnly)
	return at, readOnly, err
}

// identify reads the identity of the vault's own tables, which distinguishes them from
// all others. The tables of a copy are on a server that started at another time.
func (s *Store) identify(ctx context.Context) error {
	at, _, err := readIdentity(ctx, s.readers.DB, s.schema)
	if err == nil {
		s.identity.Store(&at)
	}
	return link.Clean(err)
}

// txStore is a database inside a transaction of the application.
type txStore struct {
	*reader
	store  *Store
	tx     storage.SQLTx
	mu     sync.Mutex // held while the connection is in use
	joined int        // how many statements of [citus.Traits].Join it has run
}

// Write implements [storage.Tx]. A savepoint surrounds its statement, so that a
// guard that does not hold does not abort the transaction. It adds to counts
// and sets in separate rows, which no other transaction waits for.
func (t *txStore) Write(ctx context.Context, c *storage.Change) error {
	if err := t.store.ready(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for range maxAttempts {
		err := t.try(ctx, c)
		if err == nil {
			t.store.noteApart()
			return nil
		}
		if !link.Refused(err) {
			return txError(err)
		}
		if err := t.why(ctx, c, err); err != nil {
			return err
		}
	}
	return errUnsettled
}

// try writes a change. If that fails, it leaves the transaction as it was.
func (t *txStore) try(ctx context.Context, c *storage.Change) error {
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT vault_change"); err != nil {
		return err
	}
	err := t.apply(ctx, c)
	end := "RELEASE SAVEPOINT vault_change"
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT vault_change; " + end
	}
	if _, ended := t.tx.ExecContext(context.WithoutCancel(ctx), end); err == nil {
		err = ended
	}
	return err
}

// apply writes the pieces of a change. The first piece includes the hold.
func (t *txStore) apply(ctx context.Context, c *storage.Change) error {
	shard := -1 - rand.Int64N(1<<62) //nolint:gosec // a shard that no other transaction has
	traits := t.store.layout.Traits()
	if err := traits.Guard(c); err != nil {
		return err
	}
	for ; t.joined < len(traits.Join); t.joined++ {
		if _, err := t.Run(ctx, traits.Join[t.joined], nil, false); err != nil {
			return err
		}
	}
	for i, piece := range split(c) {
		s := t.Start(c.Tenant)
		s.Apply(piece, shard-int64(i))
		if i == 0 && c.Hold != nil {
			s.Hold(c.Hold, " FOR SHARE")
		}
		for _, p := range s.All() {
			if err := p.Do(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// Number implements runner.
func (t *txStore) Number(ctx context.Context) (any, error) {
	var n int64
	err := direct.QueryRow(ctx, t.tx, "SELECT txid_current()", &n)
	return n, err
}

func (t *txStore) Run(ctx context.Context, text string, args []any, _ bool) (int64, error) {
	result, err := t.tx.ExecContext(ctx, t.store.schema.in(text), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// why returns the reason why a change was rejected, or nil if the reason no
// longer exists.
func (t *txStore) why(ctx context.Context, c *storage.Change, refusal error) error {
	found, err := statements.Diagnose(ctx, t, c)
	switch {
	case err != nil:
		return txError(err)
	case found != nil:
		return found
	case len(c.Logs) > 0 && link.Code(refusal) == pqerror.UniqueViolation && t.logged(ctx, c):
		return txError(refusal) // a log id that another change already has
	default:
		return nil
	}
}

// logged reports whether the first log entry of a change already exists.
func (t *txStore) logged(ctx context.Context, c *storage.Change) (found bool) {
	err := t.Query(ctx, markerQuery, []any{c.Tenant[:], c.Logs[0].ID[:]}, false, func([]driver.Value) error {
		found = true
		return nil
	})
	return found || err != nil
}

func (t *txStore) Start(tenant storage.ID) *statements.Statement {
	s := statements.NewStatement(tenant)
	s.AnyDriver, s.Composer = true, t.store.layout.Traits()
	return s
}

func (t *txStore) Query(ctx context.Context, text string, args []any, _ bool, row func([]driver.Value) error) error {
	return direct.QueryTx(ctx, t.tx, t.store.schema.in(text), row, args...)
}

// txError returns the error for a failure in a transaction of the application.
// It wraps the driver's error if the transaction must be repeated, so that the
// application can tell.
func txError(err error) error {
	switch link.Code(err) {
	case pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected:
		return fmt.Errorf("postgres: the transaction has to be repeated: %w", err)
	case pqerror.ReadOnlySQLTransaction:
		return storage.ErrReadOnly
	}
	if errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return link.Clean(err)
}
