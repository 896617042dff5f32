package link

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lib/pq"
)

// MaxAge limits the age of a connection, so that the program follows
// its servers when they move.
const MaxAge = 30 * time.Minute

// Pool is a pool of connections to the server, with the connector that made
// them.
type Pool struct {
	*sql.DB
	Lines *connector
}

// NewPool returns a pool of connections that may be silent for some time during a
// statement, and calls hung when one was.
func NewPool(config pq.Config, size int, silence time.Duration, hung func(since time.Time)) (*Pool, error) {
	lines, err := newConnector(config, silence, hung)
	if err != nil {
		return nil, Clean(err)
	}
	db := sql.OpenDB(lines)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxLifetime(MaxAge)
	return &Pool{db, lines}, nil
}

// Queryer is a connection, a pool or a transaction.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each runs a query and calls row for every row of its result.
func Each(ctx context.Context, on Queryer, row func(*sql.Rows) error, query string, args ...any) error {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}
