package citus

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// Layout is where the tables of a vault are: on one server, or distributed over the
// workers of a cluster. All differences between the two are here and in
// [statements.Composer].
type Layout interface {
	// Traits returns the differences that are values.
	Traits() *Traits
	// Open completes the tables after a migration, or checks them, and changes how
	// the reader of all backends reads.
	Open(ctx context.Context, o *Opening) error
	// Begin begins a transaction that waits for locks for a limited time. It returns
	// the number of the transaction, if statements need it. pooled means that
	// settings of the session are lost.
	Begin(ctx context.Context, conn *sql.Conn, pooled bool, lockTimeout time.Duration) (number int64, err error)
	// Explain records the result of a statement, or of a COMMIT, on the server of a
	// tenant. It returns what the error means for a change.
	Explain(server int32, err error, commit bool) error
	// Enter waits until a change or reading of a tenant may begin. The caller calls
	// ended afterwards.
	Enter(ctx context.Context, tenant storage.ID, until time.Time) (turn Turn, ended func(), err error)
	// Run runs another statement for a tenant when it may begin.
	Run(ctx context.Context, tenant storage.ID, do func() error) error
}

// Traits are the differences between layouts that are values.
type Traits struct {
	statements.Composer

	// Settings are settings of sessions.
	Settings map[string]string
	// LogDelay is how long a bound for followers of the log is held back.
	LogDelay time.Duration
	// CountsLogs means that the log is counted while it is written.
	CountsLogs bool
	// UnsyncedReads means that log entries of reads have a connection that commits
	// without waiting for the disk.
	UnsyncedReads bool
	// Join are statements that make the vault's rows part of a transaction of the
	// application, all or nothing.
	Join []string
	// Fence are statements with a tenant as their parameter. They keep the tenant's
	// rows where they are until the transaction ends.
	Fence []string
	// Ping is a statement that writes, to see whether the database can. Its parameter
	// is random bytes.
	Ping string

	Pace Pace
}

// Pace is how long changes wait for others that can share their statement.
type Pace struct {
	// Alternate means that half of the callers start a statement while another
	// runs.
	Alternate bool
	// Wait is how long a create waits while another runs, at least.
	Wait time.Duration
	// Pause is how long the next statement waits for the callers of the last one.
	Pause time.Duration
}

// Turn is what the queue needs to know of a change or reading.
type Turn struct {
	Lane   storage.ID // the tenant, if only its changes may share a statement
	Server int32      // of the tenant; zero if unknown
	Most   int        // how many connections the tenants of that server may use
}

// Opening is what a layout needs to open a database.
type Opening struct {
	DB      *sql.DB
	Schema  *Schema
	Mode    storage.MigrateMode
	Dialect *sqlstore.Dialect // to change

	Shards           func(context.Context, link.Queryer, *Schema) (*Shards, error) // usually ReadShards
	Do               func(context.Context, func(*sql.Conn) error) error            // with the retries of reads
	RetryFor         time.Duration
	Reading, Writing int // number of connections
}

// Find returns the layout of a database. hang is how long a server may take to
// respond.
func Find(ctx context.Context, db *sql.DB, hang time.Duration) (Layout, error) {
	if yes, err := HasCitus(ctx, db); err != nil || !yes {
		return OneServer{}, err
	}
	return NewCluster(hang), nil
}

// OneServer is the layout of tables on one server. A change is one statement with
// common table expressions.
type OneServer struct{}

var onOneServer = Traits{
	Composer:   statements.AsOne{},
	CountsLogs: true, UnsyncedReads: true,
	Ping: `INSERT INTO vault_claims (tenant_id, key, owner, key_version, answer)
		SELECT none.id, substring(random.bytes FOR 32), none.id, 0, random.bytes
		FROM (SELECT decode(repeat('00', 16), 'hex') AS id) none, (SELECT $1::bytea AS bytes) random`,
	Pace: Pace{Alternate: true},
}

// Traits implements Layout.
func (OneServer) Traits() *Traits { return &onOneServer }

// Open implements Layout.
func (OneServer) Open(context.Context, *Opening) error { return nil }

// Begin implements Layout.
func (OneServer) Begin(ctx context.Context, conn *sql.Conn, pooled bool, lockTimeout time.Duration) (number int64, err error) {
	text := "BEGIN"
	if pooled {
		text += "; " + SetLockTimeout("LOCAL ", lockTimeout)
	}
	_, err = conn.ExecContext(ctx, text)
	return 0, err
}

// Explain implements Layout.
func (OneServer) Explain(_ int32, err error, _ bool) error { return err }

// Enter implements Layout.
func (OneServer) Enter(context.Context, storage.ID, time.Time) (turn Turn, ended func(), err error) {
	return Turn{}, func() {}, nil
}

// Run implements Layout.
func (OneServer) Run(_ context.Context, _ storage.ID, do func() error) error { return do() }

// SetLockTimeout returns the statement that limits the wait for a lock.
func SetLockTimeout(scope string, d time.Duration) string {
	return "SET " + scope + "lock_timeout = " + strconv.FormatInt(d.Milliseconds(), 10)
}
