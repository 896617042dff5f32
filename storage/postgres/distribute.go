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
)

// errNoCitus is what Distribute says to a server that cannot distribute.
var errNoCitus = errors.New("postgres: the database has no extension citus: " +
	"add citus to shared_preload_libraries, restart the server, run CREATE EXTENSION citus, and add the workers with citus_add_node")

// Distribute spreads the tables of a vault over the workers of a Citus cluster.
// The URL is that of its coordinator, and opts are those that the vault is
// opened with; they may be nil. Rows go where the hash of their tenant says, all
// rows of a tenant to one place; the small table that finds the tenant of an API
// key is copied to every worker, and the table of migrations stays where it is.
//
// The vault may be empty or filled, and may be in use: all tables are moved in
// one transaction, for which changes and reads wait. Those that would have to
// wait for longer than [Options].RetryFor fail with [storage.ErrUnavailable] and
// leave nothing. Nodes that opened the vault before the extension was there must
// be restarted first; see docs/scaling.md.
//
// It brings the schema up to date as [Options].Migrate says. What is distributed
// already stays as it is, so that Distribute may be repeated. Other tables of the
// database are not touched. The number of shards is the server's setting
// citus.shard_count, which the URL may set.
func Distribute(ctx context.Context, url string, opts *Options) error {
	var o Options
	if opts != nil {
		o = *opts
	}
	config, err := parse(url)
	if err != nil {
		return err
	}
	db, err := newPool(config, 2, 0) // the second reads the schema while the first has a transaction
	if err != nil {
		return err
	}
	err = distribute(ctx, db.DB, &o)
	if closed := db.Close(); !lost(closed) {
		err = errors.Join(err, clean(closed))
	}
	return err
}

func distribute(ctx context.Context, db *sql.DB, o *Options) error {
	routed, err := hasCitus(ctx, db)
	switch {
	case err != nil:
		return err
	case !routed:
		return errNoCitus
	}
	schema, err := findSchema(ctx, db, o)
	if err != nil {
		return err
	}
	if err := migrate(ctx, db, schema, o.Migrate); err != nil {
		return fmt.Errorf("postgres: updating the schema: %w", clean(err))
	}
	return spread(ctx, db, newSchemaName(schema))
}

// hasCitus reports whether tables of the database can be distributed.
func hasCitus(ctx context.Context, db *sql.DB) (yes bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')").Scan(&yes)
	return yes, clean(err)
}

// followUp distributes the tables that later migrations have added to a vault
// that is distributed. With [storage.MigrateCheck] that has to be done already.
func followUp(ctx context.Context, db *sql.DB, schema schemaName, mode storage.MigrateMode) error {
	if yes, err := hasCitus(ctx, db); err != nil || !yes {
		return err
	}
	left, err := undistributed(ctx, db, schema)
	switch {
	case err != nil:
		return clean(err)
	case len(left) == 0 || slices.Contains(left, anchor): // it is whole, or is not distributed
		return nil
	case mode == storage.MigrateCheck:
		return fmt.Errorf("%w: not distributed as the others are: %s; run postgres.Distribute",
			storage.ErrOldSchema, strings.Join(left, ", "))
	}
	return spread(ctx, db, schema)
}

const (
	// anchor is the table that the others are placed with.
	anchor = "vault_tokens"
	// everywhere is the table that is not under tenants and that every worker has.
	everywhere = "vault_lookups"
	// local is the table that stays where it is.
	local = "vault_migrations"
)

var createdTable = regexp.MustCompile(`CREATE TABLE (?:\S+\.)?(vault_\w+)`)

// tables are those that the migrations make and that can be distributed. The
// anchor is the first.
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
	// spreadLock is for how long spread waits for a lock while it holds others,
	// and spreadPause for how long it lets everybody else go on then.
	spreadLock  = 2 * time.Second
	spreadPause = 200 * time.Millisecond
)

// spread distributes the tables that are not, all in one transaction: no
// statement of the vault's can be about tables of which some are and some are
// not. It tries again when others hold locks.
func spread(ctx context.Context, db *sql.DB, schema schemaName) error {
	for {
		err := spreadOnce(ctx, db, schema)
		switch code(err) {
		case pqerror.LockNotAvailable, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure:
		default:
			return clean(err)
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
	// A vault of many tables has more shards than there should be connections.
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

// distributeTable distributes one table, and removes the rows that it has left
// behind on this server, where no statement sees them any more.
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
