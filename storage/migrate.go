package storage

// Migration is a step from one version of a schema to the next. Run the SQL of
// each migration once, in a transaction, in the order of the versions.
type Migration struct {
	Version int
	SQL     string
}

// MigrateMode selects what opening a database does about missing migrations.
type MigrateMode uint8

// Modes of opening a database.
const (
	// MigrateAuto runs the missing migrations and opens the database.
	MigrateAuto MigrateMode = iota
	// MigrateCheck opens the database without running migrations. If one is
	// missing, opening fails with ErrOldSchema. The program then needs no right
	// to create tables.
	MigrateCheck
	// MigrateOnly runs the missing migrations. The storage it returns is
	// already closed.
	MigrateOnly
)
