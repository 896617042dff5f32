// Package postgres stores a vault in PostgreSQL, through github.com/lib/pq.
//
//	store, err := postgres.Open(ctx, "postgres://vault@db1,db2/vault?port=5432")
//
// # Durability
//
// A write returns when its commit is on disk, and on the synchronous standby if
// the server has one. Only the log entries of reads may be committed a moment
// before they are on disk, so a crash of the server may lose the latest of
// them. Opening fails with ErrNotDurable if synchronous_commit or fsync is off
// on the server, unless Options.AllowAsyncCommit is set.
//
// # Writing
//
// A change is one statement and one round trip, whatever it contains. Only a
// change with more than a thousand new tokens or log entries takes a
// transaction. Creates that arrive while another create is running share the
// next statement.
//
// Guards are unique keys and revisions, checked at the READ COMMITTED level. No
// lock outlives a change, and the server needs no advisory locks, sequences,
// triggers or functions. The tenant is the first column of every key, so the
// same schema can be distributed by tenant.
//
// # Citus
//
// If the database has the citus extension, the vault writes a change as several
// statements in a transaction. Each statement is for one tenant, so that Citus
// can send it to the worker with the tenant's rows. [Distribute] spreads the
// tables over the workers.
//
// # Outages
//
// If the URL has several hosts, the vault uses the host that accepts writes.
// While the server is out of reach, hangs, or accepts no writes, the vault
// retries reads and writes for [Options].RetryFor. Then they fail with
// [storage.ErrUnavailable]. A change is never applied twice after a lost
// connection, because its first log entry shows whether it was applied.
//
// # Deleted rows
//
// PostgreSQL keeps the old version of a row until it vacuums the table. Deleted
// rows also stay in the write-ahead log and in backups as long as those are
// kept. They are sealed there, as everywhere.
package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// reader is an alias, so that the embedded field of Store is not exported.
type reader = sqlstore.Store

// Store is a [storage.Storage] in a PostgreSQL database. Use Open to create
// one.
type Store struct {
	*reader

	readers   *link.Pool // for everything except changes; shares the connections of reader
	writers   *link.Pool // for changes
	loggers   *link.Pool // for log entries of reads; nil if writers write them
	schema    schemaName
	queue     queue
	pruned    places[storage.ID] // the last deleted log entries
	purges    places[purgePlace]
	dialect   sqlstore.Dialect
	identity  atomic.Pointer[string] // of the tables: start of the server, database, and table of migrations
	layout    citus.Layout
	apart     atomic.Int64 // number of changes in transactions of the application
	uncounted uncountedLogs
	logDelay  citus.LogDelay
	retryFor  time.Duration
	waiters   sqlstore.Turns // of changes that met a lock
	room      room
	written   atomic.Int64 // rows written since opening
	conflicts conflicts
}

var (
	_ storage.Storage    = (*Store)(nil)
	_ storage.ReadLogger = (*Store)(nil)
	_ storage.TxStorage  = (*Store)(nil)
)

// ServerError is an error that the server reported. It identifies the kind of
// error, but never contains text that could quote a row.
type ServerError = link.ServerError

// ErrNotDurable means that synchronous_commit or fsync is off on the server, so
// that it acknowledges commits before they are on disk.
var ErrNotDurable = errors.New("postgres: the server confirms commits before they are on disk")

// Options configure the use of a database. The zero value suits a program that
// connects directly to its servers.
type Options struct {
	// MaxConns limits the connections to the server. It is at least 2; zero
	// means 17. Half of the connections read and the others write. With at
	// least 3 connections and no pooler, one of the writers serves only
	// ReadToken and log entries of reads.
	//
	// The lists of one tenant use at most half of the connections that read. On
	// Citus, the tenants of one worker use only a share of the connections, so
	// that others are served while that worker hangs.
	MaxConns int

	// TransactionPooler means that a pooler such as PgBouncer in transaction
	// mode sits between this program and the server. The vault then prepares no
	// statements, because the next statement may reach another session.
	TransactionPooler bool

	// AllowAsyncCommit accepts a server that acknowledges commits before they
	// are on disk. A crash of such a server may lose the latest acknowledged
	// writes.
	AllowAsyncCommit bool

	// Schema is the schema of the tables, created if it does not exist. If
	// empty, it is the current schema of the connection. Statements name the
	// schema, so the search path does not matter.
	Schema string

	// Migrate selects what opening does about missing migrations. The default
	// runs them. With [storage.MigrateCheck] the role needs no right to create
	// or change tables.
	Migrate storage.MigrateMode

	// RetryFor is how long a request waits for a database that is out of reach
	// before it fails with [storage.ErrUnavailable]. Causes include a failover,
	// a restart, lost connections, and a server that is out of connections or
	// disk space.
	//
	// The time starts with the first call of a request ([storage.OneWait]), or
	// with the call itself if it belongs to no request. Zero means 20 seconds.
	RetryFor time.Duration

	// HangTimeout is how long the server may take to respond to a statement,
	// plus one second per MiB of the result. After that the vault closes the
	// connection and uses the rest of RetryFor on another. Zero means 10
	// seconds.
	//
	// It applies to every statement except migrations. A statement that waits
	// for a lock fails earlier, after at most five seconds. A server that still
	// works on a statement after four fifths of HangTimeout stops it, and the
	// call fails with [storage.ErrSlow]. The parameter statement_timeout in the
	// URL overrides that time. Transactions of the application keep their own.
	// A list of tokens has four fifths of HangTimeout for all of its statements.
	HangTimeout time.Duration

	// added are migrations after the program's own. Tests invent one.
	added []storage.Migration
}

const (
	defaultMaxConns = 17
	defaultRetryFor = 20 * time.Second
	defaultHang     = 10 * time.Second
	// maxLockTimeout is the longest time that any statement waits for a lock.
	maxLockTimeout = 5 * time.Second
	// connectTimeout applies to each host, unless the URL has connect_timeout.
	connectTimeout = 5 * time.Second
	// countShards is the number of rows that hold each count of tokens.
	countShards = 64
)

// Open opens the database with default options. The URL or key=value string is
// in the format of lib/pq. Several hosts are separated by commas, with their
// ports in the port parameter.
//
// Open migrates the schema, which several nodes may do concurrently. It fails
// with [storage.ErrNewerSchema] if the schema is too new for this version. All
// names of tables and indexes start with vault_, so that the application may
// keep its own tables in the same schema. Open fails with
// [storage.ErrNameTaken] if one of them has a name that the vault needs.
func Open(ctx context.Context, url string) (*Store, error) { return OpenOptions(ctx, url, nil) }

// OpenOptions is like Open, with options. opts may be nil.
func OpenOptions(ctx context.Context, url string, opts *Options) (*Store, error) {
	return open(ctx, url, opts, citus.Find)
}

// findLayout returns the layout of the tables of a database.
type findLayout func(ctx context.Context, db *sql.DB, hang time.Duration) (citus.Layout, error)

func open(ctx context.Context, url string, opts *Options, find findLayout) (*Store, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if !o.TransactionPooler {
		o.configure(config.Runtime)
	}
	s := &Store{retryFor: o.RetryFor, waiters: make(sqlstore.Turns, maxWaiters)}
	if s.readers, err = link.NewPool(config, o.reading(), o.HangTimeout, s.hung); err != nil {
		return nil, err
	}
	schema, err := s.settle(ctx, config, &o)
	if err == nil {
		s.layout, err = find(ctx, s.readers.DB, o.HangTimeout)
	}
	if err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	traits := s.layout.Traits()
	if settings := traits.Settings; len(settings) > 0 && !o.TransactionPooler {
		maps.Copy(config.Runtime, settings)
		if err := s.reconnectReaders(config, o); err != nil {
			return nil, err
		}
	}
	s.logDelay.Wait, s.logDelay.Now = traits.LogDelay, time.Now
	if err := s.connectWriters(config, o); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	if err := s.prepare(ctx, schema, o); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	if o.Migrate == storage.MigrateOnly {
		return s, s.Close()
	}
	return s, nil
}

// complete returns the options with defaults. o may be nil.
func (o *Options) complete() (Options, error) {
	var all Options
	if o != nil {
		all = *o
	}
	if all.MaxConns = cmp.Or(all.MaxConns, defaultMaxConns); all.MaxConns < 2 {
		return all, errors.New("postgres: Options.MaxConns must be at least 2")
	}
	if all.RetryFor <= 0 {
		all.RetryFor = defaultRetryFor
	}
	if all.HangTimeout <= 0 {
		all.HangTimeout = defaultHang
	}
	return all, nil
}

// settle checks the server, and returns the schema of the tables. It then connects
// again, with settings that later ones of the role, the database or the server do not
// change. A pooler passes on no settings.
func (s *Store) settle(ctx context.Context, config pq.Config, o *Options) (schema string, err error) {
	commit, err := checkServer(ctx, s.readers.DB, o.AllowAsyncCommit)
	if err != nil {
		return "", err
	}
	schema, err = findSchema(ctx, s.readers.DB, o)
	if err != nil || o.TransactionPooler {
		return schema, err
	}
	if commit != "" && commit != "off" {
		config.Runtime["synchronous_commit"] = commit
	}
	config.Runtime["search_path"] = onlyBuiltIn
	return schema, s.reconnectReaders(config, *o)
}

// onlyBuiltIn is the search path of sessions. A role that may create functions in another
// schema could add a closer match for the arguments of a call than PostgreSQL's own
// function, such as unnest, and the vault's role would run it.
const onlyBuiltIn = "pg_catalog"

// prepare migrates the schema, and prepares the reads.
func (s *Store) prepare(ctx context.Context, schema string, o Options) error {
	s.schema = newSchemaName(schema)
	if err := s.migrate(ctx, schema, &o); err != nil {
		return fmt.Errorf("postgres: updating the schema: %w", link.Clean(err))
	}
	s.queue.setSchema(s.schema)
	if err := s.identify(ctx); err != nil {
		return err
	}
	s.dialect = dialect(&o, s.schema)
	s.dialect.PreparedLists = s.dialect.Prepared
	s.dialect.Error = func(err error) error { return link.Failed(s.layout.Explain(0, err, false)) }
	s.dialect.Uncounted, s.dialect.NoteLogs = uncounted, s.noteLogs
	s.dialect.Outage = sqlstore.Outage{
		Until:  func(ctx context.Context) time.Time { return storage.WaitUntil(ctx, o.RetryFor) },
		Passes: func(err error) bool { return link.Passes(s.layout.Explain(0, err, false)) },
		Cut:    s.readers.Lines.Cut,

		ListLimit: o.statementTimeout(),
	}
	if o.TransactionPooler { // it does not pass on settings of sessions
		s.dialect.Outage.Limit = o.statementTimeout()
	}
	if err := s.layout.Open(ctx, &citus.Opening{
		DB: s.readers.DB, Schema: s.schema.forCitus(o.added), Mode: o.Migrate, Dialect: &s.dialect, Shards: citus.ReadShards,
		Do:       func(ctx context.Context, do func(*sql.Conn) error) error { return sqlstore.Do(ctx, s.reader, do) },
		RetryFor: o.RetryFor, Reading: o.reading(), Writing: len(s.queue.free),
	}); err != nil {
		return err
	}
	reads, err := sqlstore.New(ctx, sqlx.NewDb(s.readers.DB, "postgres"), s.dialect)
	if err != nil {
		return err
	}
	s.reader = reads
	return s.checkMarks(ctx)
}

// Close implements [storage.Storage].
func (s *Store) Close() error {
	for _, w := range s.queue.close() {
		w.reset() // the pool does not close a connection that is in use
	}
	s.reader.Close()
	return s.disconnect()
}

// parse reads a URL or a key=value string and adds the settings of the vault.
// Its errors do not quote the string, which may contain a password.
func parse(url string) (pq.Config, error) {
	config, err := pq.NewConfig(url)
	if err != nil {
		return pq.Config{}, errors.New("postgres: the connection string is malformed: " +
			"it must be a URL such as postgres://user@host/database, or key=value pairs, as lib/pq takes them")
	}
	config = config.Clone() // Clone creates the map of run-time parameters
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

// checkServer rejects a server that can lose acknowledged writes. It returns the
// server's synchronous_commit.
func checkServer(ctx context.Context, db *sql.DB, allowAsync bool) (string, error) {
	var commit, sync sql.NullString
	err := db.QueryRowContext(ctx,
		"SELECT pg_catalog.current_setting('synchronous_commit', true), pg_catalog.current_setting('fsync', true)").Scan(&commit, &sync)
	if err != nil {
		return "", link.Clean(err)
	}
	for _, setting := range []struct{ name, value string }{
		{"synchronous_commit", commit.String}, {"fsync", sync.String},
	} {
		if setting.value == "off" && !allowAsync {
			return "", fmt.Errorf("%w: its %s is off; turn it on, or set Options.AllowAsyncCommit", ErrNotDurable, setting.name)
		}
	}
	return commit.String, nil
}

func dialect(o *Options, schema schemaName) sqlstore.Dialect {
	return sqlstore.Dialect{
		Prepared:    !o.TransactionPooler,
		ID:          func(id storage.ID) any { return id[:] },
		In:          in,
		Lateral:     true,
		SmallBody:   statements.MaxSharedBody,
		Conns:       o.reading(),
		TenantLists: (o.reading() + 1) / 2,
		Lifetime:    link.MaxAge,
		Qualify:     schema.in,
		Position:    "position(?::bytea IN l.ids) > 0",
	}
}

// in returns an IN condition whose text does not depend on the number of
// values.
func in(column string, values []any) (string, []any) {
	k := sqlstore.Blob
	if _, ok := values[0].(string); ok {
		k = sqlstore.Text
	}
	a := wire.NewArray(k, len(values))
	for _, v := range values {
		switch v := v.(type) {
		case string:
			a.Text(v)
		case []byte:
			a.Bytes(v)
		}
	}
	return column + " = ANY(?::" + wire.TypeOf(k) + "[])", []any{a.Value()}
}

// Pools returns the statistics of the connection pools by name: readers,
// writers and, if it exists, loggers.
func (s *Store) Pools() map[string]sql.DBStats {
	stats := map[string]sql.DBStats{}
	for name, p := range s.pools() {
		stats[name] = p.Stats()
	}
	return stats
}
