package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// formerTables are the tables of versions whose names had no prefix, with their
// columns.
var formerTables = []struct {
	name    string
	columns []string
}{
	{"schema_version", []string{"version"}},
	{"tokens", []string{
		"tenant_id", "ord", "id", "type", "set_id", "containers", "fingerprint", "expression", "dedup",
		"hashes", "key_version", "body", "cvc", "cvc_expires_at", "expires_at", "created_by",
		"created_at", "modified_by", "modified_at", "rev",
	}},
	{"token_hashes", []string{"tenant_id", "hash", "ord"}},
	{"container_sets", []string{"tenant_id", "set_id", "containers"}},
	{"token_counts", []string{"tenant_id", "set_id", "type", "shard", "n"}},
	{"logs", []string{
		"tenant_id", "id", "created_at", "actor_id", "actor_type", "entity_type", "entity_id",
		"operation", "message",
	}},
	{"records", []string{
		"tenant_id", "kind", "id", "name", "name_fold", "key_hash", "alt_hash", "expires_at",
		"key_version", "body", "created_at", "rev",
	}},
	{"lookups", []string{"hash", "tenant_id", "kind", "id"}},
	{"claims", []string{"tenant_id", "key", "owner", "lease_until", "expires_at", "key_version", "answer"}},
	{"jobs", []string{
		"tenant_id", "id", "kind", "run_at", "attempts", "dead", "owner", "lease_until", "key_version",
		"payload",
	}},
}

// former rejects a database with all tables of an unprefixed version and all of
// their columns. An application may use some of these names.
func (m *Migrator) former(ctx context.Context) error {
	var columns []string
	if err := m.DB.SelectContext(ctx, &columns, m.Catalog.Former); err != nil {
		return fmt.Errorf("storage: looking for the schema: %w", err)
	}
	for _, table := range formerTables {
		for _, column := range table.columns {
			if !slices.Contains(columns, table.name+"."+column) {
				return nil
			}
		}
	}
	var version int
	if err := m.DB.GetContext(ctx, &version, `SELECT COALESCE(MAX(version), 0) FROM `+m.Catalog.FormerVersion); err != nil {
		return fmt.Errorf("storage: reading the schema version: %w", err)
	}
	return fmt.Errorf("%w: schema version %d wrote them", storage.ErrFormerSchema, version)
}

// FormerNames lists the names of the former tables as SQL literals.
func FormerNames() string {
	names := make([]string, len(formerTables))
	for i, table := range formerTables {
		names[i] = "'" + table.name + "'"
	}
	return strings.Join(names, ", ")
}
