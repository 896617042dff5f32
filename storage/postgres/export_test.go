package postgres

import (
	"context"
	"database/sql"
)

// OpenRouted opens a database with the statements for distributed tables. It is
// one server, so followers of the log need not wait.
func OpenRouted(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := open(ctx, url, opts, func(context.Context, *sql.DB) (bool, error) { return true, nil })
	if err == nil {
		s.settling.wait = 0
	}
	return s, err
}

// OpenSettled opens a database whose followers do not wait.
func OpenSettled(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := OpenOptions(ctx, url, opts)
	if err == nil {
		s.settling.wait = 0
	}
	return s, err
}
