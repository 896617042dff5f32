package storage

import (
	"context"
	"database/sql"
)

// TxStorage is a [Storage] that can also work inside a transaction of the
// application, on a connection that the application has opened to the same
// database. No Storage has to be one.
type TxStorage interface {
	// InTx returns the database as a transaction sees it. A transaction on
	// another database is refused with ErrOtherDatabase, and one that may not
	// write with ErrReadOnly, before anything is written. It is asked once for
	// each transaction.
	InTx(ctx context.Context, tx SQLTx) (Tx, error)

	// Beside reports whether the Storage itself can read and write while such a
	// transaction is open. A database with one writer cannot: a call then waits,
	// and fails with ErrUnavailable after a while.
	Beside() bool
}

// SQLTx is a transaction of the application. [*sql.Tx] is one; adapters make one of
// the transactions of other libraries.
//
// ExecContext and QueryContext run on the connection of the transaction and return
// the errors of its driver. After the transaction has ended they fail with an error
// that wraps [sql.ErrTxDone]. The vault calls neither Commit nor Rollback: they
// are here because a transaction has them and a pool of connections does not.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

var _ SQLTx = (*sql.Tx)(nil)

// Tx is a database inside a transaction of the application. Reads see what the
// transaction has written, and others see it after the commit, which is the
// application's, as the rollback is. Nothing of it is remembered elsewhere, so
// that a rollback leaves nothing.
//
// Its methods are safe for concurrent use. They fail with [sql.ErrTxDone] when
// the transaction has ended, and return what the database says of a conflict
// between transactions, which the application resolves by repeating its own.
type Tx interface {
	TokenReader
	RecordReader

	// Write applies a change as [Writer.Write] does, except that it is durable
	// when the transaction is committed. A change that is refused leaves nothing,
	// and the transaction can go on. Before and Relaxed do not count.
	//
	// Another transaction waits for this one only if it wants the same id,
	// duplicate key or record.
	Write(ctx context.Context, c *Change) error
}

// Hold names a record that must have this revision when a change is written: the
// keys that the change is sealed under. In a transaction of the application, nobody
// may change or delete the record before the transaction ends.
type Hold struct {
	Kind string
	ID   ID
	Rev  int64
}
