package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// layout is where the tables are: on one server, or distributed over the workers
// of a Citus cluster. All differences between the two are methods of a layout.
// The implementations are oneServer and citus.
type layout interface {
	setup
	sessions
	meanings
	sharing
	statements.Composer
}

// setup is what opening and maintaining a database needs of its layout.
type setup interface {
	// logDelay returns how long a bound for followers of the log is held back.
	logDelay() time.Duration
	// settings returns settings of sessions, where the server may take some time to
	// respond.
	settings(hang time.Duration) map[string]string
	// migrated completes the tables after a migration, or checks them.
	migrated(ctx context.Context, db *sql.DB, schema schemaName, mode storage.MigrateMode) error
	// adapt changes how the reader of all backends reads.
	adapt(d *sqlstore.Dialect)
	// recount returns the statements that forget the counts of a tenant's log, and
	// whether the log is counted while it is written.
	recount() (texts []string, counted bool)
}

// sessions is what connections that write need of the layout.
type sessions interface {
	// begin begins a transaction.
	begin(s *writer) error
	// joins returns a statement that makes the vault's rows part of a transaction of
	// the application, all or nothing. It is empty if nothing is needed.
	joins() string
	// fence returns a statement with a tenant as its parameter. It keeps the tenant's
	// rows where they are until the transaction ends. It is empty if they never
	// move.
	fence() string
	// setLockTimeout changes how long statements wait for a lock, if there is a
	// limit.
	setLockTimeout(s *writer, d time.Duration)
	// relaxes reports whether log entries of reads can be committed without
	// waiting for the disk.
	relaxes() bool
	// ping returns a statement that inserts random bytes, to see whether the
	// database can write.
	ping(random []byte) (text string, args []any)
}

// meanings is what errors of the server mean for a change.
type meanings interface {
	// committed explains the error of a COMMIT.
	committed(err error) error
	// explain explains the error of a statement.
	explain(err error) error
}

// sharing is how changes and reads share statements.
type sharing interface {
	// placed reads which server has which tenants. It returns nil if there is only
	// one server.
	placed(ctx context.Context, on citus.Queryer, schema schemaName) (*citus.Shards, error)
	// lane returns the tenant if only its own changes and reads may share a
	// statement, and otherwise zero.
	lane(tenant storage.ID) storage.ID
	// guard refuses a change that its statements would not refuse.
	guard(c *storage.Change) error
	// inSteps reports whether a change takes several statements, and each of them
	// is for one table.
	inSteps() bool
	// read reads the tokens of a batch and logs the reads.
	read(ctx context.Context, s *writer, batch []*pending) error
	// logReads writes the log entries of reads.
	logReads(s *writer, batch []*pending) error
}

// layoutOf returns the layout of a database.
func layoutOf(ctx context.Context, db *sql.DB) (layout, error) {
	if yes, err := citus.HasCitus(ctx, db); err != nil || !yes {
		return oneServer{}, err
	}
	return manyServers{}, nil
}
