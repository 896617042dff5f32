package storage

import (
	"context"
	"database/sql"
)

// TxStorage is an optional interface of a [Storage] that can also work inside a
// transaction of the application. The application opens the transaction on its
// own connection to the same database.
type TxStorage interface {
	// InTx returns the database as seen by a transaction. It returns
	// ErrOtherDatabase for a transaction on another database and ErrReadOnly
	// for a read-only transaction, before it writes anything. The vault calls
	// it once per transaction.
	InTx(ctx context.Context, tx SQLTx) (Tx, error)

	// Beside reports whether the Storage itself can read and write while such a
	// transaction is open. A database with a single writer cannot. Its calls
	// then wait for a while and fail with ErrUnavailable.
	Beside() bool
}

// SQLTx is a transaction of the application: a [*sql.Tx], or an adapter for the
// transactions of another library.
//
// ExecContext and QueryContext run on the connection of the transaction and return
// the errors of its driver. After the transaction has ended they fail with an error
// that wraps [sql.ErrTxDone]. The vault calls neither Commit nor Rollback. The
// interface has them so that the compiler refuses a pool of connections.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

var _ SQLTx = (*sql.Tx)(nil)

// Tx is a database inside a transaction of the application. Its reads see the
// writes of the transaction; other connections see them after the commit. The
// application commits or rolls back. A Tx keeps no state elsewhere, so a
// rollback undoes everything.
//
// Methods of a Tx are safe for concurrent use. They fail with [sql.ErrTxDone]
// when the transaction has ended. They return the database's own error for a
// conflict between transactions, which the application handles by repeating its
// transaction.
type Tx interface {
	TokenReader
	RecordReader

	// Write applies a change like [Writer.Write], except that the change
	// becomes durable with the commit. A rejected change leaves nothing behind,
	// and the transaction can continue. The fields Before and Relaxed are
	// ignored.
	//
	// Another transaction waits for this one only if it needs the same id,
	// duplicate key or record.
	Write(ctx context.Context, c *Change) error
}

// Hold names the record of the keys that seal a change, and the revision that
// it must have when the change is written. In a transaction of the application,
// the record cannot be changed or deleted before the transaction ends.
type Hold struct {
	Kind string
	ID   ID
	Rev  int64
}
