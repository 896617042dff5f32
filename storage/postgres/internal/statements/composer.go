package statements

import (
	"database/sql/driver"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Composer is how changes and reads become statements: AsOne, or AsSteps if tables
// are distributed.
type Composer interface {
	// TenantIs returns the condition that a row read by its ctid belongs to the
	// tenant in a parameter.
	TenantIs(column, parameter string) string
	// Guard refuses a change that its statements would not refuse.
	Guard(c *storage.Change) error
	// Create returns the statements of changes that only create tokens.
	Create(s *Session, changes []*storage.Change) []Step
	// Read returns the statements of readings, each in a separate transaction.
	Read(s *Session, batch []*Reading) []Step
	// LogReads returns the statements of changes that only log reads.
	LogReads(s *Session, changes []*storage.Change) []Step
	composing
}

// composing is how the parts of a change are written.
type composing interface {
	// write adds a part: see [Statement.write].
	write(s *Statement, name string, want int, body func(*Statement) string)
	// selects returns the main statement, which evaluates a list, the parts before
	// it, and the function for its rows; nil for none.
	selects(s *Statement, list []string) (parts []part, proper string, row func([]driver.Value) error)
	insertLogs(s *Statement, logs []storage.Log)
	// insertSets adds sets that do not exist yet. Transactions of the application have
	// a negative shard.
	insertSets(s *Statement, sets []storage.ContainerSet, shard int64)
	// moveCounts counts tokens that changed their set or were deleted, and created
	// ones.
	moveCounts(s *Statement, moved []string, created Counts, shard int64)
	// replaceKeys replaces the keys of records that an expression lists.
	replaceKeys(s *Statement, before string, after []wire.Lookup)
}

// Session is a connection that writes: its settings, and memory for its statements.
type Session struct {
	Shard    int64 // shard of the counters that its writes add to
	Unsynced bool  // it does not wait for the disk

	groups   [2]Group // of many changes and of a single one, with memory of the last ones
	group    *Group   // the last one, with rows; nil if released
	steps    []Step
	args     []any
	readings [2]*wire.Rows // of many readings and of a single one
	logs     *wire.Rows    // of LogReads
}

// parameters returns memory for the parameters of a statement.
func (s *Session) parameters() []any {
	if s.args == nil {
		s.args = make([]any, 0, roomForRows)
	}
	return s.args[:0]
}

// one returns a statement with such parameters.
func (s *Session) one(text string, args []any, row func([]driver.Value) error) []Step {
	s.args = args
	s.steps = append(s.steps[:0], Step{text: text, args: args, prepare: true, want: anyRows, row: row})
	return s.steps
}

// Release forgets the rows of the last statements, so that a connection does not
// keep large ones.
func (s *Session) Release() {
	if s.group != nil {
		s.group.release()
		s.group = nil
	}
	clear(s.args)
	clear(s.steps)
}
