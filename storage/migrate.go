package storage

// Migration is a step from one version of a schema to the next. Its SQL is to
// be run in one transaction, in the order of the versions, each once.
type Migration struct {
	Version int
	SQL     string
}

// MigrateMode says what opening a database does about migrations that it lacks.
type MigrateMode uint8

// What opening does about the schema.
const (
	// MigrateAuto runs the migrations that are missing, and then serves.
	MigrateAuto MigrateMode = iota
	// MigrateCheck serves, and runs none: a missing one is ErrOldSchema. The
	// program then needs no right to create tables.
	MigrateCheck
	// MigrateOnly runs the migrations that are missing, and does not serve: what
	// was opened is closed already.
	MigrateOnly
)
