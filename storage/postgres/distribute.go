package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// errNoCitus is the error of Distribute for a server that cannot distribute
// tables.
var errNoCitus = errors.New("postgres: the database has no extension citus: " +
	"add citus to shared_preload_libraries, restart the server, run CREATE EXTENSION citus, and add the workers with citus_add_node")

// Distribute spreads the tables of a vault over the workers of a Citus cluster.
// The url names the coordinator. opts are the options of the vault; they may be
// nil.
//
// All rows of a tenant go to one worker, chosen by the hash of the tenant. The
// small table that finds the tenant of an API key is copied to every worker.
// The table of migrations stays on the coordinator.
//
// The vault may contain data and may be in use. Distribute moves all tables in
// one transaction, and changes and reads wait for it. Calls that would wait
// longer than [Options].RetryFor fail with [storage.ErrUnavailable] and change
// nothing. Nodes that opened the vault before the extension existed must be
// restarted first; see docs/scaling.md.
//
// Distribute migrates the schema according to [Options].Migrate. It may be
// repeated, because it skips tables that are already distributed. It does not
// touch other tables of the database. The number of shards is the server
// setting citus.shard_count, which the URL may set.
func Distribute(ctx context.Context, url string, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	config, err := parse(url)
	if err != nil {
		return err
	}
	// The server sends nothing while it copies tables, however long that takes.
	db, err := link.NewPool(config, 2, 0, nil)
	if err != nil {
		return err
	}
	err = distribute(ctx, db.DB, &o)
	if closed := db.Close(); !link.Lost(closed) {
		err = errors.Join(err, link.Clean(closed))
	}
	return err
}

func distribute(ctx context.Context, db *sql.DB, o *Options) error {
	found, err := hasCitus(ctx, db)
	switch {
	case err != nil:
		return err
	case !found:
		return errNoCitus
	}
	schema, err := findSchema(ctx, db, o)
	if err != nil {
		return err
	}
	if err := migrate(ctx, db, schema, o.Migrate); err != nil {
		return fmt.Errorf("postgres: updating the schema: %w", link.Clean(err))
	}
	return spread(ctx, db, newSchemaName(schema))
}

// hasCitus reports whether tables of the database can be distributed.
func hasCitus(ctx context.Context, db *sql.DB) (yes bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')").Scan(&yes)
	return yes, link.Clean(err)
}

// followUp distributes tables that later migrations have added to a distributed
// vault. With [storage.MigrateCheck] it only checks that they are distributed.
func followUp(ctx context.Context, db *sql.DB, schema schemaName, mode storage.MigrateMode) error {
	if yes, err := hasCitus(ctx, db); err != nil || !yes {
		return err
	}
	left, err := undistributed(ctx, db, schema)
	switch {
	case err != nil:
		return link.Clean(err)
	case len(left) == 0 || slices.Contains(left, anchor): // all tables are distributed, or the vault is not
		return nil
	case mode == storage.MigrateCheck:
		return fmt.Errorf("%w: not distributed as the others are: %s; run postgres.Distribute",
			storage.ErrOldSchema, strings.Join(left, ", "))
	}
	return spread(ctx, db, schema)
}

const (
	// anchor is the table that the others are colocated with.
	anchor = "vault_tokens"
	// everywhere is the reference table that every worker has. It is not keyed
	// by tenant.
	everywhere = "vault_lookups"
	// local is the table that is never distributed.
	local = "vault_migrations"
)

var createdTable = regexp.MustCompile(`CREATE TABLE (?:\S+\.)?(vault_\w+)`)

// tables returns the tables of the migrations that can be distributed, starting
// with the anchor.
func (n schemaName) tables() []string {
	names := []string{anchor}
	for _, m := range n.migrations() {
		for _, found := range createdTable.FindAllStringSubmatch(m.SQL, -1) {
			if name := found[1]; name != local && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

type rowsQueryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// undistributed returns the tables that are only on this server.
func undistributed(ctx context.Context, on rowsQueryer, schema schemaName) ([]string, error) {
	var names []string
	for _, table := range schema.tables() {
		names = append(names, pq.QuoteLiteral(schema.in(table)))
	}
	rows, err := on.QueryContext(ctx, "SELECT c.relname FROM pg_catalog.pg_dist_partition p"+
		" JOIN pg_catalog.pg_class c ON c.oid = p.logicalrelid"+
		" WHERE c.oid = ANY (ARRAY["+strings.Join(names, ", ")+"]::regclass[])")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	left := schema.tables()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(table string) bool { return table == name })
	}
	return left, rows.Err()
}

const (
	// spreadLock is how long spread waits for a lock while it holds others.
	// spreadPause is how long it then lets other transactions continue.
	spreadLock  = 2 * time.Second
	spreadPause = 200 * time.Millisecond
)

// spread distributes the tables that are not yet distributed, all in one
// transaction. No statement of the vault works if only some of its tables are
// distributed. spread tries again if other transactions hold locks.
func spread(ctx context.Context, db *sql.DB, schema schemaName) error {
	for {
		err := spreadOnce(ctx, db, schema)
		switch link.Code(err) {
		case pqerror.LockNotAvailable, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure:
		default:
			return link.Clean(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(spreadPause):
		}
	}
}

func spreadOnce(ctx context.Context, db *sql.DB, schema schemaName) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	// The vault's tables have more shards than there should be connections.
	settings := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL citus.multi_shard_modify_mode = 'sequential'; "+
		"SET LOCAL client_min_messages = error", spreadLock.Milliseconds())
	if _, err := tx.ExecContext(ctx, settings); err != nil {
		return err
	}
	left, err := undistributed(ctx, tx, schema)
	if err != nil || len(left) == 0 {
		return err
	}
	lock := "LOCK TABLE " + schema.in(strings.Join(left, ", ")) + " IN EXCLUSIVE MODE"
	if _, err := tx.ExecContext(ctx, lock); err != nil {
		return err
	}
	if left, err = undistributed(ctx, tx, schema); err != nil { // another node may have been faster
		return err
	}
	for _, table := range left {
		if err := distributeTable(ctx, tx, schema, table); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// distributeTable distributes one table. It removes the rows left on the
// coordinator, which no statement sees any more.
func distributeTable(ctx context.Context, tx *sql.Tx, schema schemaName, table string) error {
	name := pq.QuoteLiteral(schema.in(table))
	with := "none"
	if table != anchor {
		with = schema.in(anchor)
	}
	statement := "SELECT create_distributed_table(" + name + ", 'tenant_id', colocate_with => " + pq.QuoteLiteral(with) + ")"
	if table == everywhere {
		statement = "SELECT create_reference_table(" + name + ")"
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "SELECT truncate_local_data_after_distributing_table("+name+")")
	return err
}
