package postgres

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// Vaults provides schemas with the tables of a vault.
var Vaults = pgtest.Schemas{Keep: "vault_migrations", Fill: func(tb testing.TB, address string) {
	if _, err := OpenOptions(tb.Context(), address, &Options{Migrate: storage.MigrateOnly}); err != nil {
		tb.Fatal(err)
	}
}}

// OpenRouted opens a database with the statements for distributed tables. There
// is only one server, so followers of the log need not wait.
func OpenRouted(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := open(ctx, url, opts, func(context.Context, *sql.DB) (layout, error) { return routed{}, nil })
	if err == nil {
		s.settling.wait = 0
	}
	return s, err
}

// routed is the layout of distributed tables, on one server.
type routed struct{ citus }

func (routed) placed(context.Context, rowsQueryer, schemaName) (*shards, error) {
	return &shards{}, nil
}

// OpenDirect opens a database like OpenRouted, with statements straight to its
// workers.
func OpenDirect(ctx context.Context, url string, opts *Options) (*Store, error) {
	o := *opts
	o.DirectWorkers = true
	s, err := open(ctx, url, &o, func(context.Context, *sql.DB) (layout, error) { return onOneWorker{}, nil })
	if err == nil {
		s.settling.wait = 0
	}
	return s, err
}

// onOneWorker is the layout of distributed tables, all of them on one worker.
type onOneWorker struct{ citus }

func (onOneWorker) placed(context.Context, rowsQueryer, schemaName) (*shards, error) {
	return &shards{first: []int32{-1 << 31}, server: []int32{1}, servers: 1}, nil
}

// AwaitPledge waits until the next statement can go straight to a worker.
func AwaitPledge(ctx context.Context, s *Store) error {
	for {
		if p := s.workers.pledges.join(); p != nil {
			p.leave()
			return nil
		}
		if !sqlstore.Pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// PanicDirectly panics in a statement on a worker. No other statement may be
// running.
func PanicDirectly(s *Store, tenant storage.ID) (caught any) {
	defer func() { caught = recover() }()
	_ = s.workers.run(s.queue.free[0], tenant, func(*order) error { panic("in a statement") })
	return nil
}

// Unended returns how many pledges hold their locks.
func Unended(s *Store) (n int) {
	s.workers.pledges.mu.Lock()
	defer s.workers.pledges.mu.Unlock()
	for _, p := range s.workers.pledges.open {
		if !p.isOver() {
			n++
		}
	}
	return n
}

// SetDirectLimit changes how late a worker may run a statement.
func SetDirectLimit(s *Store, d time.Duration) { s.workers.late = d }

// SampleHash is the hash that a server must have for a tenant.
var SampleHash = tenantHash(sampleTenant)

// WrittenDirectly are the tables of statements straight to workers.
var WrittenDirectly = writtenDirectly

// OpenSettled opens a database whose followers do not wait.
func OpenSettled(ctx context.Context, url string, opts *Options) (*Store, error) {
	s, err := OpenOptions(ctx, url, opts)
	if err == nil {
		s.settling.wait = 0
	}
	return s, err
}

// CountLogsAfter is the number of entries after which tests count the log of a
// tenant.
const CountLogsAfter = 200

// UseCountLogsAfter makes stores use CountLogsAfter.
func UseCountLogsAfter() { countLogsAfter = CountLogsAfter }

// Directly returns how many statements went straight to workers.
func Directly(s *Store) int64 {
	if s.workers == nil {
		return 0
	}
	return s.workers.sent.Load()
}

// PledgedText is the last statement that opens a pledge.
const PledgedText = shardTablesText

// CountLogs moves the mark of a tenant as far as open transactions allow.
func CountLogs(ctx context.Context, s *Store, tenant storage.ID) error {
	return s.countLogs(ctx, tenant)
}

// SetHangTimeout changes how long the server may be silent from now on.
func SetHangTimeout(s *Store, d time.Duration) {
	for _, p := range []*pool{s.readers, s.writers, s.loggers} {
		if p != nil {
			p.lines.dialer.silence.Store(int64(d))
		}
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
	slot := s.queue.free[0]
	if err := slot.ensure(time.Now().Add(connectTimeout)); err != nil {
		return false, err
	}
	return slot.applied(c)
}

// TenantHash is the hash by which tenants are distributed.
var TenantHash = tenantHash
