package postgres

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// Vaults provides schemas with the tables of a vault.
var Vaults = pgtest.Schemas{Keep: "vault_migrations", Fill: func(tb testing.TB, address string) {
	must.Get(OpenOptions(tb.Context(), address, &Options{Migrate: storage.MigrateOnly}))(tb)
}}

// OpenRouted opens a database with the statements for distributed tables. There
// is only one server, so followers of the log need not wait.
func OpenRouted(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := open(ctx, url, opts, findRouted)
	if err == nil {
		s.logDelay.Wait = 0
	}
	return s, err
}

func findRouted(_ context.Context, _ *sql.DB, hang time.Duration) (citus.Layout, error) {
	return routed{citus.NewCluster(hang)}, nil
}

// routed is the layout of distributed tables, on one server.
type routed struct{ *citus.Cluster }

func (r routed) Open(ctx context.Context, o *citus.Opening) error {
	o.Shards = func(context.Context, link.Queryer, *citus.Schema) (*citus.Shards, error) {
		return &citus.Shards{}, nil
	}
	return r.Cluster.Open(ctx, o)
}

// OpenSettled opens a database whose followers do not wait.
func OpenSettled(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := OpenOptions(ctx, url, opts)
	if err == nil {
		s.logDelay.Wait = 0
	}
	return s, err
}

// CountLogsAfter is the number of entries after which tests count the log of a
// tenant.
const CountLogsAfter = 200

// UseCountLogsAfter makes stores use CountLogsAfter.
func UseCountLogsAfter() { countLogsAfter, countAtOnce = CountLogsAfter, CountLogsAfter/7 }

// CountLogs moves the mark of a tenant as far as open transactions allow.
func CountLogs(ctx context.Context, s *Store, tenant storage.ID) error {
	return s.countLogs(ctx, tenant)
}

// SetHangTimeout changes how long the server may be silent from now on.
func SetHangTimeout(s *Store, d time.Duration) {
	for _, p := range s.pools() {
		p.Lines.SetSilence(d)
	}
}

// NoBackground keeps a store from analyzing the tables and from counting logs. Both
// take a connection, so a read may need a new one.
func NoBackground(s *Store) {
	s.written.Store(analyzeLast)
	s.uncounted.never = true
}

// Applied reports whether a change is in the database.
func Applied(s *Store, c *storage.Change) (bool, error) {
	w := s.queue.free[0]
	if err := w.ensure(time.Now().Add(connectTimeout)); err != nil {
		return false, err
	}
	return w.applied(c)
}

// TenantHash is the hash by which tenants are distributed.
var TenantHash = citus.TenantHash

// WithAdded returns options with migrations after the program's own.
func WithAdded(o *Options, added ...storage.Migration) *Options {
	o.added = added
	return o
}

// CitusTables returns the tables that Citus distributes, with added migrations.
func CitusTables(added ...storage.Migration) []string {
	return newSchemaName("x").forCitus(added).Tables
}
