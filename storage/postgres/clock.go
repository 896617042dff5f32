package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

var _ storage.Clock = (*Store)(nil)

const clockText = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// ClockAhead implements [storage.Clock].
func (s *Store) ClockAhead(ctx context.Context) (ahead time.Duration, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		var micros int64
		before := time.Now()
		err := conn.QueryRowContext(ctx, clockText).Scan(&micros)
		ahead = clockAhead(before, time.Now(), time.UnixMicro(micros))
		return err
	})
	return ahead, link.Failed(err)
}

// clockAhead returns the smallest difference that explains the time that a
// database reported between two moments.
func clockAhead(before, after, said time.Time) time.Duration {
	before = before.Truncate(time.Microsecond).Round(0) // the wall clock, with the precision of the database
	switch after = after.Round(0); {
	case said.Before(before):
		return before.Sub(said)
	case said.After(after):
		return after.Sub(said)
	default:
		return 0
	}
}
