// Package vaultpgx lets a vault work in a transaction of pgx:
//
//	tx, err := pool.Begin(ctx)
//	defer tx.Rollback(ctx)
//	card, err := c.InTx(vaultpgx.Tx(tx)).CreateToken(ctx, params)
//	_, err = tx.Exec(ctx, `INSERT INTO orders (card) VALUES ($1)`, card.ID)
//	err = tx.Commit(ctx)
//
// [vault.Client.InTx] describes what a client does in a transaction. The
// transaction may come from a pool or from a connection, with any isolation level
// and any query mode of pgx, and may be nested.
package vaultpgx

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/seed-72ea4aab/vault"
)

// Tx adapts a transaction of pgx. The application begins and ends it, as without a
// vault. All calls with the same transaction return the same [vault.Tx], so
// separate clients see each other's writes.
//
// Operations after the end of the transaction fail with an error that wraps
// [sql.ErrTxDone] and [pgx.ErrTxClosed]. The error of a conflict between
// transactions wraps the *pgconn.PgError, whose code tells the application to
// retry its transaction. Close the rows of the application's own queries before an
// operation, because a connection runs one query at a time.
//
// If the context of a running query ends, pgx closes the connection, which rolls
// the transaction back. A context that ended before the operation does no harm.
//
// A nested transaction is a savepoint, and its rollback undoes the operations of
// its clients. The vault treats it as a separate transaction. An application or a
// session that the outer transaction has created can act only through clients of
// the outer transaction.
func Tx(tx pgx.Tx) vault.Tx {
	if tx == nil {
		return nil
	}
	return transaction{tx}
}

// transaction is compared by value, so that two for the same pgx.Tx are equal.
type transaction struct{ tx pgx.Tx }

// ExecContext implements [vault.Tx].
func (t transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.tx.Exec(ctx, query, args...)
	if err != nil {
		return nil, t.explain(err)
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext implements [vault.Tx]. Only a [sql.DB] makes [sql.Rows], so each
// query has a DB whose only connection is the transaction. The DB is closed at
// once, and its connection is closed with the rows. Neither ends the transaction.
func (t transaction) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	db := sql.OpenDB(conn{t})
	defer func() { _ = db.Close() }()           // fails only if a connection does not close
	return db.QueryContext(ctx, query, args...) //nolint:sqlclosecheck // the caller closes them
}

// Commit implements [vault.Tx].
func (t transaction) Commit() error { return t.explain(t.tx.Commit(context.Background())) }

// Rollback implements [vault.Tx].
func (t transaction) Rollback() error { return t.explain(t.tx.Rollback(context.Background())) }

// explain adds advice for the application to an error of pgx.
func (t transaction) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		return fmt.Errorf("%w: %w", sql.ErrTxDone, err)
	case t.tx.Conn() != nil && t.tx.Conn().PgConn().IsBusy():
		return fmt.Errorf("vaultpgx: the transaction is busy, close the rows of its last query first: %w", err)
	default:
		return err
	}
}
