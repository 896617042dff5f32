package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
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
	schema := ""
	err = connected(config, func(db *sql.DB) (err error) {
		schema, err = schemaOnCitus(ctx, db, &o)
		return err
	})
	if err != nil {
		return err
	}
	config.Runtime["search_path"] = onlyBuiltIn
	return connected(config, func(db *sql.DB) error {
		if err := migrate(ctx, db, schema, &o); err != nil {
			return fmt.Errorf("postgres: updating the schema: %w", link.Clean(err))
		}
		return citus.Spread(ctx, db, newSchemaName(schema).forCitus(o.added))
	})
}

// connected calls do with a pool of connections. The server sends nothing while it
// copies tables, however long that takes.
func connected(config pq.Config, do func(*sql.DB) error) error {
	db, err := link.NewPool(config, 2, 0, nil)
	if err != nil {
		return err
	}
	err = do(db.DB)
	if closed := db.Close(); !link.Lost(closed) {
		err = errors.Join(err, link.Clean(closed))
	}
	return err
}

// schemaOnCitus returns the schema of the tables, if the server can distribute them.
func schemaOnCitus(ctx context.Context, db *sql.DB, o *Options) (string, error) {
	found, err := citus.HasCitus(ctx, db)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", errNoCitus
	}
	return findSchema(ctx, db, o)
}

var createdTable = regexp.MustCompile(`CREATE TABLE (?:\S+\.)?(vault_\w+)`)

// forCitus returns the tables of the program's migrations, and of added ones, that
// can be distributed, starting with the anchor.
func (n schemaName) forCitus(added []storage.Migration) *citus.Schema {
	names := []string{citus.Anchor}
	for _, m := range n.migrations(added) {
		for _, found := range createdTable.FindAllStringSubmatch(m.SQL, -1) {
			if name := found[1]; name != citus.Local && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return &citus.Schema{Tables: names, In: n.in}
}
