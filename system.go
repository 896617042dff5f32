package vault

import (
	"context"
	"database/sql"

	"github.com/seed-72ea4aab/vault/script"
)

// System is how a vault is set up and how its database is connected, for a page
// or a command that shows it. It holds no key and no address.
type System struct {
	// Config is what [Open] was given, with defaults in place of zero values.
	Config Config
	// Migrations are the versions of the schema that have run, oldest first; nil
	// for a storage that does not say.
	Migrations []int
	// Pools are the pools of database connections, by name; nil for a storage that
	// does not say.
	Pools map[string]sql.DBStats
	// Workers are the figures of Config.Runtime; nil for a runtime that does not
	// report them, and without one.
	Workers *script.Stats
}

// System returns how the vault is set up. The storages of this module and the
// worker processes of jsruntime say all of it.
func (v *Vault) System(ctx context.Context) (*System, error) {
	if err := v.core.Alive(); err != nil {
		return nil, err
	}
	out := &System{Config: v.cfg}
	if s, ok := v.store.(interface{ Pools() map[string]sql.DBStats }); ok {
		out.Pools = s.Pools()
	}
	if r, ok := v.cfg.Runtime.(script.Reporter); ok {
		stats := r.Stats()
		out.Workers = &stats
	}
	var err error
	if s, ok := v.store.(interface {
		SchemaVersions(ctx context.Context) ([]int, error)
	}); ok {
		out.Migrations, err = s.SchemaVersions(ctx)
	}
	return out, err
}
