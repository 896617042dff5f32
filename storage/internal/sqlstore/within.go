package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// within is a transaction of the application that a Store reads in. Its lock is
// held while a statement runs, because two statements cannot share a
// connection.
type within struct {
	lock sync.Locker
	tx   storage.SQLTx
}

// Within returns a Store that reads in a transaction of the application, on the
// connection of that transaction. It holds the lock during each statement. The
// dialect is for that connection; nothing is prepared on it.
func (s *Store) Within(tx storage.SQLTx, lock sync.Locker, d Dialect) *Store {
	return &Store{db: s.db, dialect: d, closed: s.closed, within: &within{lock, tx}, texts: s.texts, piece: s.piece}
}

func (w *within) one(ctx context.Context, text string, row func(direct.Row) error, args []any) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return direct.QueryTx(ctx, w.tx, text, row, args...)
}

func (w *within) list(ctx context.Context, query string, args []any, read func(*sql.Rows, error) (bool, error)) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	_, err := read(w.tx.QueryContext(ctx, query, args...)) //nolint:rowserrcheck // read does
	return err
}
