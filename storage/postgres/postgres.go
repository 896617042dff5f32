// Package postgres keeps a vault in PostgreSQL, through github.com/lib/pq.
//
//	store, err := postgres.Open(ctx, "postgres://vault@db1,db2/vault?port=5432")
//
// # Durability
//
// A write is acknowledged when its commit is on disk, and on the synchronous
// standby where the server has one. Only the log entries of reads may be
// committed a moment before they are on disk, so that a crash of the server may
// lose the last of them. Opening refuses a server whose
// synchronous_commit or fsync is off, with ErrNotDurable, unless Options allow
// it.
//
// # Writing
//
// A change is one statement and one round trip, whatever it holds, unless it
// has more than a thousand tokens to create, or log entries: then it is a
// transaction. Creates that arrive while one is under way share the next. Guards
// are unique keys and revisions, judged at the READ COMMITTED level: no lock
// outlives a change, and there is no advisory lock, no sequence, no trigger and
// no function on the server. The tenant leads every key, so the same schema can
// be distributed by tenant.
//
// # Citus
//
// Where the database has the extension citus, the vault writes a change by
// several statements in a transaction, each of which is for one tenant, so that
// it is sent whole to the worker that has the tenant's rows. [Distribute] spreads
// the tables over the workers.
//
// # Outages
//
// With several hosts in the URL the one that accepts writes is found. While the
// server is out of reach, hangs, or takes no writes, a request waits: reads and
// writes are tried again for [Options].RetryFor, and then fail with
// [storage.ErrUnavailable]. After a lost connection a change is never applied
// twice: its first log entry tells whether it has been.
//
// # Deleted rows
//
// PostgreSQL keeps the old version of a row until it vacuums the table, and
// what was deleted is in its write-ahead log and backups for as long as those
// are kept. It is sealed there, as everywhere.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// reader hides the field that the reads are promoted from.
type reader = sqlstore.Store

// Store is a [storage.Storage] in a PostgreSQL database. Open makes one.
type Store struct {
	*reader

	readers   *pool // for everything but changes; its connections are those of reader
	writers   *pool // for changes
	loggers   *pool // for the log entries of reads; nil when writers are
	schema    schemaName
	queue     queue
	pruned    pruned
	dialect   sqlstore.Dialect
	place     place        // of the tables
	routed    bool         // tables are, or may come to be, distributed
	apart     atomic.Int64 // changes in transactions of the application's
	uncounted uncountedLogs
	settling  settling
	retryFor  time.Duration
	waiters   waiters
	room      room
	written   atomic.Int64 // rows, since it was opened
	careful   atomic.Int64 // for how many more batches conflicts are expected
}

var (
	_ storage.Storage    = (*Store)(nil)
	_ storage.ReadLogger = (*Store)(nil)
	_ storage.TxStorage  = (*Store)(nil)
)

// Options change how a database is used. The zero value is right for a program
// that talks to its servers directly.
type Options struct {
	// MaxConns bounds the connections to the server; 17 when zero, at least 2.
	// Half of them read, and the others write. From 3 on, and without a pooler,
	// one of these is for ReadToken and the log entries of other reads alone.
	MaxConns int

	// TransactionPooler says that a pooler such as PgBouncer, in transaction
	// mode, stands between this program and the server. Statements are then not
	// prepared, since the next one may reach another session.
	TransactionPooler bool

	// AllowAsyncCommit opens a server that acknowledges commits before they are
	// on disk. What it acknowledged shortly before a crash may be gone after.
	AllowAsyncCommit bool

	// Schema is where the tables are; it is created when it is missing. The
	// current schema of the connection when empty. Statements name it, so the
	// search path does not matter.
	Schema string

	// Migrate says what opening does about migrations that the database lacks.
	// The default runs them. With [storage.MigrateCheck] the role needs no right
	// to create or change tables.
	Migrate storage.MigrateMode

	// RetryFor is how long a request waits for a database that is out of reach,
	// before it fails with [storage.ErrUnavailable]: a failover, a restart, lost
	// connections, a server without room for a connection or on its disk. It
	// counts from the first call of a request ([storage.OneWait]), and of each call
	// that is part of none. 20 seconds when zero.
	RetryFor time.Duration

	// HangTimeout is how long a server may take to answer a statement, and a second
	// more for each MiB of the result. Then the connection is given up, and what is
	// left of RetryFor goes to another. It bounds every statement except those of
	// migrations; what waits for a lock fails before, after five seconds at the most.
	// 10 seconds when zero.
	HangTimeout time.Duration
}

const (
	defaultMaxConns = 17
	defaultRetryFor = 20 * time.Second
	defaultHang     = 10 * time.Second
	// maxLockTimeout is for how long any statement waits for a lock.
	maxLockTimeout = 5 * time.Second
	// connectTimeout applies to each host, unless the URL has connect_timeout.
	connectTimeout = 5 * time.Second
	// countShards is over how many rows a count of tokens is spread.
	countShards = 64
)

// Open opens the database with the default options. The URL, or the key=value
// string, is one that lib/pq understands: several hosts are separated by
// commas, with their ports in the parameter port.
//
// Open brings the schema up to date, which several nodes may do at once, or
// fails with [storage.ErrNewerSchema]. All tables and indexes begin with vault_,
// so that the application may have its own beside them; if it has one under a
// name that the vault needs, Open fails with [storage.ErrNameTaken].
func Open(ctx context.Context, url string) (*Store, error) { return OpenOptions(ctx, url, nil) }

// OpenOptions opens the database as Open does. opts may be nil.
func OpenOptions(ctx context.Context, url string, opts *Options) (*Store, error) {
	return open(ctx, url, opts, hasCitus)
}

// open opens a database. The function says whether tables of it may be
// distributed.
func open(ctx context.Context, url string, opts *Options, routed func(context.Context, *sql.DB) (bool, error)) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxConns == 0 {
		o.MaxConns = defaultMaxConns
	}
	if o.MaxConns < 2 {
		return nil, errors.New("postgres: Options.MaxConns must be at least 2")
	}
	if o.RetryFor <= 0 {
		o.RetryFor = defaultRetryFor
	}
	if o.HangTimeout <= 0 {
		o.HangTimeout = defaultHang
	}
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if !o.TransactionPooler {
		// A plan may be made while the tables are empty, and outlive that. What
		// the vault looks for always has an index.
		config.Runtime["enable_seqscan"] = "off"
		// Statements are short. To start parallel workers takes longer than most of
		// them, and so does compiling; a server that overestimates what a list finds
		// would do both: the first page of a log of a million took 10 ms, not 0.3.
		config.Runtime["max_parallel_workers_per_gather"] = "0"
		config.Runtime["jit"] = "off"
		config.Runtime["lock_timeout"] = milliseconds(min(maxLockTimeout, o.HangTimeout/2))
	}
	s := &Store{retryFor: o.RetryFor, waiters: make(waiters, maxWaiters)}
	if s.readers, err = newPool(config, o.reading(), o.HangTimeout, s.hung); err != nil {
		return nil, err
	}
	if s.routed, err = routed(ctx, s.readers.DB); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	if s.routed {
		s.settling = settling{wait: settleTime, now: time.Now}
	}
	if err := s.connectWriters(config, o); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	if err := s.prepare(ctx, o); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	if o.Migrate == storage.MigrateOnly {
		return s, s.Close()
	}
	return s, nil
}

// reading is how many connections read.
func (o *Options) reading() int { return o.MaxConns / 2 }

// connectWriters makes the pools of the connections that write, and their slots.
func (s *Store) connectWriters(config pq.Config, o Options) (err error) {
	writing := o.MaxConns - o.reading()
	if writing > 1 && !o.TransactionPooler && !s.routed {
		writing--
		// Log entries of reads are half of what GetToken costs: that their commits
		// are not synced wins 40 % at 8 and 32 callers, and a connection of their
		// own up to 53 % at 8 and nothing at 32 (BenchmarkGet).
		relaxed := config.Clone()
		relaxed.Runtime["synchronous_commit"] = "off"
		// Its statements look up rows by their unique keys, one after the other,
		// and are not worth a plan for every number of them.
		relaxed.Runtime["plan_cache_mode"] = "force_generic_plan"
		if s.loggers, err = newPool(relaxed, 1, o.HangTimeout, s.hung); err != nil {
			return err
		}
		s.queue.forLogs = &slot{pool: s.loggers, prepare: true, unsynced: true}
	}
	if !o.TransactionPooler {
		config = config.Clone()
		config.Runtime["lock_timeout"] = milliseconds(lockTimeout)
		if s.routed {
			config.Runtime[tellOfSettings] = "local"
		}
	}
	if s.writers, err = newPool(config, writing, o.HangTimeout, s.hung); err != nil {
		return err
	}
	s.queue.flush = s.flush
	shard := rand.Int64N(countShards) //nolint:gosec // spreads nodes over the shards
	for i := range int64(writing) {
		s.queue.free = append(s.queue.free, &slot{
			pool: s.writers, prepare: !o.TransactionPooler, shard: (shard + i) % countShards,
			routed: s.routed, lockTimeout: lockTimeout,
		})
	}
	return nil
}

// disconnect closes the pools there are.
func (s *Store) disconnect() error {
	var failed error
	for _, db := range []*pool{s.readers, s.writers, s.loggers} {
		if db == nil {
			continue
		}
		if err := db.Close(); !lost(err) { // a connection that has gone is as closed as can be
			failed = errors.Join(failed, clean(err))
		}
	}
	return failed
}

// pool is connections to the server, and their lines.
type pool struct {
	*sql.DB
	lines *connector
}

func newPool(config pq.Config, size int, silence time.Duration, hung func(since time.Time)) (*pool, error) {
	lines, err := newConnector(config, silence, hung)
	if err != nil {
		return nil, clean(err)
	}
	db := sql.OpenDB(lines)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxLifetime(connLifetime)
	return &pool{db, lines}, nil
}

// hung gives up all connections that were not heard of since a server was.
func (s *Store) hung(since time.Time) {
	for _, p := range []*pool{s.readers, s.writers, s.loggers} {
		if p != nil {
			p.lines.cutIdle(since)
		}
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// prepare checks the server, brings the schema up to date, and prepares the
// reads.
func (s *Store) prepare(ctx context.Context, o Options) error {
	if err := checkServer(ctx, s.readers.DB, o.AllowAsyncCommit); err != nil {
		return err
	}
	schema, err := findSchema(ctx, s.readers.DB, &o)
	if err != nil {
		return err
	}
	s.schema = newSchemaName(schema)
	if err := s.migrate(ctx, schema, &o); err != nil {
		return fmt.Errorf("postgres: updating the schema: %w", clean(err))
	}
	if s.routed {
		if err := followUp(ctx, s.readers.DB, s.schema, o.Migrate); err != nil {
			return err
		}
	}
	s.queue.setSchema(s.schema)
	if err := s.place.read(ctx, s.readers.DB, s.schema); err != nil {
		return err
	}
	s.dialect = dialect(&o, s.schema)
	s.dialect.Distributed = s.routed
	s.dialect.PreparedLists = s.dialect.Prepared && !s.routed
	s.dialect.Error = func(err error) error { return failed(uncertain(err, s.routed)) }
	s.dialect.Uncounted, s.dialect.NoteLogs = uncounted, s.noteLogs
	s.dialect.Outage = sqlstore.Outage{
		Until:  func(ctx context.Context) time.Time { return storage.WaitUntil(ctx, o.RetryFor) },
		Passes: func(err error) bool { return passes(uncertain(err, s.routed)) },
		Cut:    s.readers.lines.cut,
	}
	if s.reader, err = sqlstore.New(ctx, sqlx.NewDb(s.readers.DB, "postgres"), s.dialect); err != nil {
		return err
	}
	return s.checkMarks(ctx)
}

// Close implements [storage.Storage].
func (s *Store) Close() error {
	for _, slot := range s.queue.close() {
		slot.reset() // a connection that is in use is not the pool's to close
	}
	s.reader.Close()
	return s.disconnect()
}

// parse reads a URL, or a key=value string, and adds what the vault needs. Its
// errors do not quote the text, which may hold a password.
func parse(url string) (pq.Config, error) {
	config, err := pq.NewConfig(url)
	if err != nil {
		return pq.Config{}, errors.New("postgres: the connection string is malformed: " +
			"it must be a URL such as postgres://user@host/database, or key=value pairs, as lib/pq takes them")
	}
	config = config.Clone() // which makes the map of run-time parameters
	config.BinaryParameters = true
	if config.TargetSessionAttrs == "" {
		config.TargetSessionAttrs = pq.TargetSessionAttrsReadWrite
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.ApplicationName == "" {
		config.ApplicationName = "vault"
	}
	return config, nil
}

// checkServer refuses a server that loses what it acknowledged.
func checkServer(ctx context.Context, db *sql.DB, allowAsync bool) error {
	var commit, sync sql.NullString
	err := db.QueryRowContext(ctx,
		"SELECT current_setting('synchronous_commit', true), current_setting('fsync', true)").Scan(&commit, &sync)
	if err != nil {
		return clean(err)
	}
	for _, setting := range []struct{ name, value string }{
		{"synchronous_commit", commit.String}, {"fsync", sync.String},
	} {
		if setting.value == "off" && !allowAsync {
			return fmt.Errorf("%w: its %s is off; turn it on, or set Options.AllowAsyncCommit", ErrNotDurable, setting.name)
		}
	}
	return nil
}

func dialect(o *Options, schema schemaName) sqlstore.Dialect {
	return sqlstore.Dialect{
		Prepared: !o.TransactionPooler,
		ID:       func(id storage.ID) any { return id[:] },
		In:       in,
		Conns:    o.reading(),
		Lifetime: connLifetime,
		Qualify:  schema.in,
		Position: "position(?::bytea IN l.ids) > 0",
	}
}

// in is a condition whose text does not depend on the number of values.
func in(column string, values []any) (string, []any) {
	k := bytea
	if _, ok := values[0].(string); ok {
		k = text
	}
	a := newArray(k.oid, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case string:
			a.text(v)
		case []byte:
			a.bytes(v)
		}
	}
	return column + " = ANY(?::" + k.name + "[])", []any{a.value()}
}

// Pools returns the state of the pools of connections, by what they are for.
func (s *Store) Pools() map[string]sql.DBStats {
	pools := map[string]sql.DBStats{"readers": s.readers.Stats(), "writers": s.writers.Stats()}
	if s.loggers != nil {
		pools["loggers"] = s.loggers.Stats()
	}
	return pools
}
