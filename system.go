package vault

import (
	"context"
	"database/sql"
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
}

// System returns how the vault is set up. The storages of this module say all of
// it.
func (v *Vault) System(ctx context.Context) (*System, error) {
	if v.closed.Load() {
		return nil, ErrClosed
	}
	out := &System{Config: v.cfg}
	if s, ok := v.store.(interface{ Pools() map[string]sql.DBStats }); ok {
		out.Pools = s.Pools()
	}
	var err error
	if s, ok := v.store.(interface {
		SchemaVersions(ctx context.Context) ([]int, error)
	}); ok {
		out.Migrations, err = s.SchemaVersions(ctx)
	}
	return out, err
}
