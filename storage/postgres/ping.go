package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

const (
	// writeEvery is how often Ping writes, unless a write has failed. A write
	// fills more than a page, which stays in the table until the server vacuums
	// it.
	writeEvery = 30 * time.Second
	pingBytes  = 8 << 10
)

// room records when the server was last known to have space for a write.
type room struct{ known atomic.Int64 } // Unix time in nanoseconds; 0 for never

func (r *room) isKnown() bool { return time.Since(time.Unix(0, r.known.Load())) < writeEvery }

// record records the result of a write.
func (r *room) record(err error) {
	switch {
	case err == nil:
		r.known.Store(time.Now().UnixNano())
	case strings.HasPrefix(string(link.Code(err)), string(pqerror.ClassInsufficientResources)):
		r.known.Store(0)
	}
}

// errReadOnly means that the server responds but accepts no writes.
var errReadOnly = fmt.Errorf("%w: postgres: the database is read-only", storage.ErrUnavailable)

const readOnlyText = "SELECT pg_catalog.pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"

// Ping implements [storage.Storage]. It checks whether the server accepts
// writes. Every so often it also checks for disk space by writing more than a
// page and rolling back.
//
// If tables are distributed, Ping checks only the coordinator, because the loss
// of a worker affects only some tenants.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	ctx = storage.NoWait(ctx)
	err := sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		var readOnly bool
		if err := conn.QueryRowContext(ctx, readOnlyText).Scan(&readOnly); err != nil {
			return err
		}
		if readOnly {
			return errReadOnly
		}
		if s.room.isKnown() {
			return nil
		}
		err := s.writeNothing(ctx, conn)
		s.room.record(err)
		return err
	})
	return link.Failed(err)
}

var errUndo = errors.New("postgres: undone")

// writeNothing writes a row and rolls back.
func (s *Store) writeNothing(ctx context.Context, conn *sql.Conn) error {
	random := make([]byte, pingBytes) // so that the server cannot compress it
	rand.Read(random)
	err := s.transact(ctx, conn, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.schema.in(s.layout.Traits().Ping), random); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		return nil
	}
	return err
}
