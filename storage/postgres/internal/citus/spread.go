package citus

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// Schema are the tables of a vault that can be distributed.
type Schema struct {
	Tables []string                      // starting with the anchor
	In     func(statement string) string // adds the schema to the names of tables
}

// HasCitus reports whether tables of the database can be distributed.
func HasCitus(ctx context.Context, db *sql.DB) (yes bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus')").Scan(&yes)
	return yes, link.Clean(err)
}

// FollowUp distributes tables that later migrations have added to a distributed
// vault. With [storage.MigrateCheck] it only checks that they are distributed.
func FollowUp(ctx context.Context, db *sql.DB, schema *Schema, mode storage.MigrateMode) error {
	if yes, err := HasCitus(ctx, db); err != nil || !yes {
		return err
	}
	left, err := undistributed(ctx, db, schema)
	switch {
	case err != nil:
		return link.Clean(err)
	case len(left) == 0 || slices.Contains(left, Anchor): // all tables are distributed, or the vault is not
		return nil
	case mode == storage.MigrateCheck:
		return fmt.Errorf("%w: not distributed as the others are: %s; run postgres.Distribute",
			storage.ErrOldSchema, strings.Join(left, ", "))
	}
	return Spread(ctx, db, schema)
}

const (
	// Anchor is the table that the others are colocated with.
	Anchor = "vault_tokens"
	// Everywhere is the reference table that every worker has. It is not keyed
	// by tenant.
	Everywhere = "vault_lookups"
	// Local is the table that is never distributed.
	Local = "vault_migrations"
)

// undistributed returns the tables that are only on this server.
func undistributed(ctx context.Context, on link.Queryer, schema *Schema) ([]string, error) {
	var names []string
	for _, table := range schema.Tables {
		names = append(names, pq.QuoteLiteral(schema.In(table)))
	}
	left := slices.Clone(schema.Tables)
	err := link.Each(ctx, on, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		left = slices.DeleteFunc(left, func(table string) bool { return table == name })
		return err
	}, "SELECT c.relname FROM pg_catalog.pg_dist_partition p"+
		" JOIN pg_catalog.pg_class c ON c.oid = p.logicalrelid"+
		" WHERE c.oid = ANY (ARRAY["+strings.Join(names, ", ")+"]::regclass[])")
	return left, err
}

const (
	// spreadLock is how long spread waits for a lock while it holds others.
	// spreadPause is how long it then lets other transactions continue.
	spreadLock  = 2 * time.Second
	spreadPause = 200 * time.Millisecond
)

// Spread distributes the tables that are not yet distributed, all in one
// transaction. No statement of the vault works if only some of its tables are
// distributed. spread tries again if other transactions hold locks.
func Spread(ctx context.Context, db *sql.DB, schema *Schema) error {
	for {
		err := spreadOnce(ctx, db, schema)
		switch link.Code(err) {
		case pqerror.LockNotAvailable, pqerror.TRDeadlockDetected, pqerror.TRSerializationFailure:
		default:
			return link.Clean(err)
		}
		if err := pace.Sleep(ctx, spreadPause); err != nil {
			return err
		}
	}
}

func spreadOnce(ctx context.Context, db *sql.DB, schema *Schema) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	// The vault's tables have more shards than there should be connections.
	settings := fmt.Sprintf("SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; SET LOCAL citus.multi_shard_modify_mode = 'sequential'; "+
		"SET LOCAL client_min_messages = error", spreadLock.Milliseconds())
	if _, err := tx.ExecContext(ctx, settings); err != nil {
		return err
	}
	left, err := undistributed(ctx, tx, schema)
	if err != nil || len(left) == 0 {
		return err
	}
	lock := "LOCK TABLE " + schema.In(strings.Join(left, ", ")) + " IN EXCLUSIVE MODE"
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
func distributeTable(ctx context.Context, tx *sql.Tx, schema *Schema, table string) error {
	name := pq.QuoteLiteral(schema.In(table))
	with := "none"
	if table != Anchor {
		with = schema.In(Anchor)
	}
	statement := "SELECT create_distributed_table(" + name + ", 'tenant_id', colocate_with => " + pq.QuoteLiteral(with) + ")"
	if table == Everywhere {
		statement = "SELECT create_reference_table(" + name + ")"
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "SELECT truncate_local_data_after_distributing_table("+name+")")
	return err
}
