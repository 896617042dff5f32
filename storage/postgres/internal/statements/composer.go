package statements

import (
	"database/sql/driver"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Composer is how a change becomes statements: AsOne, or AsSteps if tables are
// distributed.
type Composer interface {
	building
	composing
}

// building is how a statement is built of parts.
type building interface {
	// TenantIs returns the condition that a row read by its ctid belongs to the
	// tenant in a parameter.
	TenantIs(column, place string) string
	// write adds a part: see [Statement.write].
	write(s *Statement, name string, want int, body func(*Statement) string)
	// selects returns the main statement, which evaluates a list, and the parts
	// before it.
	selects(s *Statement, list []string) (parts []part, proper string)
	// result returns the function for rows of the main statement; nil for none.
	result(s *Statement) func([]driver.Value) error
}

// composing is how the parts of a change are written.
type composing interface {
	insertLogs(s *Statement, logs []storage.Log)
	insertSets(s *Statement, sets []storage.ContainerSet, shard int64)
	// moveCounts counts tokens that changed their set or were deleted, and created
	// ones.
	moveCounts(s *Statement, moved []string, created Counts, shard int64)
	// replaceKeys replaces the keys of updated records, and dropKeys deletes the keys
	// of deleted ones.
	replaceKeys(s *Statement, after []wire.Lookup)
	dropKeys(s *Statement)
}
