// Package storage is the contract between the vault and a database.
//
// The vault seals every value before a backend sees it. A backend gets only
// ciphertext, keyed hashes, and the few columns a database needs to find and
// order rows. It cannot even name a plaintext type.
//
// A change is a value: the vault computes a [Change], and [Writer.Write]
// applies all of it or none of it. No code of the vault runs inside a
// transaction, so neither tenant code nor encryption ever holds a lock.
//
// To write a backend, implement [Storage] and run storage/storagetest against
// it. This module has two backends, storage/sqlite and storage/postgres.
//
// # Rules for every backend
//
//   - The tenant is part of every key, and of every query that names a tenant. A
//     call for one tenant never sees, changes or conflicts with a row of another.
//   - Some calls name no tenant, because they do the vault's own work:
//     [TokenReader.Expired], [Pruner.LogTenants], [Queue.DueTenants],
//     [Writer.Sweep], [TreeStorage.Trees] without tenants, and
//     [RecordReader.ListRecords] without a tenant. [RecordReader.Lookup] runs
//     before the tenant is known; its keys are unique across tenants.
//   - Times have microsecond precision and are returned in UTC. A zero time means
//     no time.
//   - The caller owns returned slices and the bytes in them. A backend may use its
//     arguments only until the call returns.
//   - Methods are safe for concurrent use, also by several processes on one
//     database.
//   - Errors never contain the content of a column.
//
// # Compatibility
//
// A release of this module may add a method to an interface, a field to [Change] or to
// a row in it, or a kind of [Cond]. The first does not compile, and a backend returns an
// error for a Cond that it does not know. A field that a backend ignores would lose a
// part of a change without an error. So a backend converts Change and the rows in it
// to its own structs, as the example of Change does, and a new field does not compile
// either. The CHANGELOG names new fields, and storage/storagetest tests them.
package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ID holds the 16 bytes of a UUID. Ids that lists are ordered by are UUIDv7, so
// their order is the order of creation.
type ID [16]byte

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Hash is a keyed hash of something searchable: a metadata pair, a search
// index, or a set of containers. Equal hashes mean equal content.
type Hash [16]byte

// Key is a SHA-256 hash that finds a row whose tenant and content are unknown.
// It is the hash of an API key, a session nonce, a proxy key or an idempotency
// key.
type Key [32]byte

// IsZero reports whether the key is unset.
func (k Key) IsZero() bool { return k == Key{} }

// Storage is a database that holds a vault.
type Storage interface {
	Writer
	Reader
	Queue

	// Ping reports whether the database responds and can be written. It does
	// not wait for a database that is out of reach.
	Ping(ctx context.Context) error
	// Close waits for running writes and releases the database. Later calls
	// return ErrClosed.
	Close() error
}

// Writer changes the database.
type Writer interface {
	Pruner

	// Write applies a change. If the guards of the change hold, Write returns
	// nil once all rows are written and durable. Otherwise it writes nothing
	// and returns a [*Conflict].
	//
	// Canceling ctx has no effect after the change has been handed to the
	// database. Write then waits for the outcome, so its result is never a
	// guess.
	//
	// After a lost connection the backend looks for the first log row of the
	// change before it tries again. A change with a log row is therefore
	// applied at most once. A change without log rows must be safe to repeat.
	// If the backend cannot determine the outcome in time, it sets
	// [Change].Unsure and returns ErrUnavailable or ErrLate.
	Write(ctx context.Context, c *Change) error

	// Purge deletes up to limit rows of a tenant, of any kind, and reports
	// whether more rows are left. It deletes records last, so that an
	// interrupted purge can be resumed from the record that ordered it.
	Purge(ctx context.Context, tenant ID, limit int) (more bool, err error)

	// Sweep deletes rows of all tenants: up to limit claims that expired at or
	// before now, and up to limit dead jobs whose RunAt has passed. Where the
	// database allows, it also makes rows that earlier changes deleted
	// unreadable in its files. It reports whether more claims or jobs are due.
	Sweep(ctx context.Context, now time.Time, limit int) (more bool, err error)
}

// Reader reads the database.
type Reader interface {
	TokenReader
	RecordReader
	Follower
	Counter
}

// TokenReader reads tokens and their log.
type TokenReader interface {
	// Tokens returns the tenant's tokens with these ids, in any order,
	// including expired tokens. It skips ids that do not exist.
	Tokens(ctx context.Context, tenant ID, ids []string) ([]Token, error)

	// Duplicate returns the oldest token with the same fingerprint and expression
	// hash, or nil.
	Duplicate(ctx context.Context, tenant ID, d Duplicate) (*Token, error)

	// ListTokens returns a page of tokens, newest (highest Ord) first. If the
	// filter has Count set, it also returns the number of tokens on all pages.
	ListTokens(ctx context.Context, f TokenFilter) (page []Token, total int, err error)

	// ContainerSets returns every set of containers that a token of the tenant
	// has ever been in.
	ContainerSets(ctx context.Context, tenant ID) ([]ContainerSet, error)

	// Expired returns rows of all tenants whose time has passed, oldest time
	// first. It returns fewer rows of a kind than the limit, but at least one,
	// if they would take too much memory. It returns a row whose columns have
	// values of a wrong length or type without Body and CVC, so that the row
	// does not open and does not hide others.
	Expired(ctx context.Context, f ExpiredFilter) (Expired, error)

	// ListLogs returns a page of the log, newest first, and the number of
	// entries on all pages.
	ListLogs(ctx context.Context, f LogFilter) (page []Log, total int, err error)
}

// RecordReader reads records, which are sealed documents with a few unsealed
// columns.
type RecordReader interface {
	// Records returns the tenant's records of a kind with these ids, in any
	// order. It skips ids that do not exist.
	Records(ctx context.Context, tenant ID, kind string, ids []ID) ([]Record, error)

	// Lookup returns the record with this key, whatever its tenant, or
	// ErrNotFound.
	Lookup(ctx context.Context, key Key) (Record, error)

	// ListRecords returns a page of records, newest (highest ID) first, and the
	// number of records on all pages.
	ListRecords(ctx context.Context, f RecordFilter) (page []Record, total int, err error)
}

// Follower reads the log in commit order.
type Follower interface {
	// FollowLogs returns up to f.Limit of the tenant's entries after a place,
	// and the place after the last of them. The entries are in an order in
	// which their transactions could have been committed. Entries that become
	// visible later always come after the returned place, so a caller that
	// continues there misses nothing.
	//
	// An entry may therefore be held back while an earlier transaction is still
	// open.
	FollowLogs(ctx context.Context, f LogFollowing) (page []Log, next LogPlace, err error)
}

// Counter counts a tenant's rows.
type Counter interface {
	// Count returns how many rows a tenant has. Its cost does not depend on
	// their number.
	Count(ctx context.Context, f CountFilter) (Counts, error)
}

// Queue reads claims and leases jobs.
type Queue interface {
	// Claim returns the claim with this key, live or not, or ErrNotFound.
	Claim(ctx context.Context, tenant ID, key Key) (Claim, error)

	// DueTenants returns up to limit tenants that have a job which
	// [Queue.LeaseJobs] would return. They are ordered by id and come after the
	// given id.
	DueTenants(ctx context.Context, now time.Time, after ID, limit int) ([]ID, error)

	// LeaseJobs leases up to limit of the tenant's due jobs to the owner,
	// oldest RunAt first. A job is due when it is not dead, its RunAt has
	// passed, and no lease on it is active. No two callers get the same job.
	LeaseJobs(ctx context.Context, l Lease) ([]Job, error)

	// Jobs returns the tenant's jobs that match a filter, newest (highest ID)
	// first. It returns fewer jobs than the limit, but at least one, if they
	// would take too much memory.
	Jobs(ctx context.Context, f JobFilter) ([]Job, error)

	// SealedRows returns the sealed parts of claims or jobs of a tenant, in the
	// order of their keys. It returns fewer than the limit, but at least one,
	// if they would take too much memory. A claim without an Answer and a job
	// with an empty payload have no sealed part.
	SealedRows(ctx context.Context, f SealedFilter) ([]Sealed, error)
}

// Pruner deletes old log entries. The timestamp in an entry's ID is the
// millisecond of its CreatedAt, so a backend may find old entries by a key that
// ends with the ID.
type Pruner interface {
	// LogTenants returns up to limit tenants that have an entry which
	// [Pruner.DeleteLogs] would delete. They are ordered by id and come after
	// the given id.
	LogTenants(ctx context.Context, before time.Time, after ID, limit int) ([]ID, error)

	// DeleteLogs deletes up to limit log entries of the tenant that were
	// created before a time, and returns how many. When it returns, no list or
	// total includes them. A result below limit means that no such entries are
	// left, except entries that a concurrent call is deleting.
	DeleteLogs(ctx context.Context, tenant ID, before time.Time, limit int) (deleted int, err error)
}

// ReadLogger is an optional interface of a [Storage] that can read a token and
// log the read in one round trip. Without it, the vault takes two.
type ReadLogger interface {
	// ReadToken returns a token that has not expired at the CreatedAt of the
	// entry, and writes the entry to the log. When it returns the token, the
	// entry is as durable as after the Write of a relaxed change.
	//
	// If there is no such token, it writes nothing and returns ErrNotFound.
	// After any other error the entry may or may not have been written.
	ReadToken(ctx context.Context, r Reading) (Token, error)
}

// Errors that a Storage returns, for use with errors.Is.
var (
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists means that a unique key of the change is taken.
	ErrExists = errors.New("storage: already exists")
	// ErrMalformed means that a row cannot be read, because someone has changed a
	// column to a value of another type or length.
	ErrMalformed = errors.New("storage: a column has a value of the wrong type or length")
	// ErrStale means that a row was changed or deleted after it was read.
	ErrStale = errors.New("storage: changed since it was read")
	// ErrLate means that a change could not be applied before its deadline.
	ErrLate = errors.New("storage: the time to apply the change has passed")
	// ErrTooLarge means that the rows of a page hold more bytes than its filter
	// allows.
	ErrTooLarge = errors.New("storage: the page is too large")
	// ErrClosed means that the storage has been closed.
	ErrClosed = errors.New("storage: closed")
	// ErrUnavailable means that the database cannot do this now but may do it
	// later, because it is out of reach, hangs, or cannot be written. Nothing
	// was changed, unless [Change].Unsure is set.
	ErrUnavailable = errors.New("storage: the vault cannot serve this now; try again")
	// ErrSlow is an ErrUnavailable that means that the database stopped a
	// statement, or that a list was stopped between statements, because it took
	// too long. The same call would take as long again, so it is not repeated.
	ErrSlow = fmt.Errorf("%w: the database stopped a statement that took too long", ErrUnavailable)
	// ErrOtherDatabase means that a transaction of the application is not on
	// the vault's database.
	ErrOtherDatabase = errors.New("storage: the transaction is not on the vault's database")
	// ErrReadOnly means that a transaction of the application is read-only. The
	// vault writes even when it reads, because it logs each read.
	ErrReadOnly = errors.New("storage: the transaction is read-only; the vault writes a log entry even for a read")
	// ErrNewerSchema means that a later version of the backend has migrated the
	// database to a schema that this version cannot use. Opening fails.
	ErrNewerSchema = errors.New("storage: the database has a newer schema than this program supports")
	// ErrOldSchema means that the database lacks migrations and the mode does
	// not allow running them. Opening fails.
	ErrOldSchema = errors.New("storage: migrations have not run; run them, or open the database with MigrateAuto")
	// ErrNameTaken means that a table or index that is not the vault's has a
	// name that the vault needs. Opening fails and changes nothing.
	ErrNameTaken = errors.New("storage: a table or index that is not the vault's has a name that the vault needs")
)

// Conflict reports which guard of a change did not hold. It matches ErrExists
// or ErrStale.
type Conflict struct { //nolint:errname // it names what happened, and errors.As reads well with it
	Kind  ConflictKind
	Index int // index of the row in its slice of the Change
}

// ConflictKind names a guard.
type ConflictKind uint8

// The guards of a Change.
const (
	TokenIDTaken   ConflictKind = iota + 1 // InsertTokens: the id is taken
	DuplicateTaken                         // InsertTokens, UpdateTokens: the Dedup hash is taken
	KeyTaken                               // InsertRecords, UpdateRecords: a key, or the id, is taken
	ClaimTaken                             // Claim: another claim on the key is live
	ClaimLost                              // Claim: the owner has lost it and cannot finish it
	TokenStale                             // UpdateTokens, DeleteTokens: the revision differs
	RecordStale                            // UpdateRecords, DeleteRecords: the revision differs
	JobStale                               // UpdateJobs, DeleteJobs: the owner has lost the lease
	TreeStale                              // TreeChange: the size or state differs
)

var conflictText = [...]string{
	TokenIDTaken: "token id taken", DuplicateTaken: "duplicate key taken", KeyTaken: "record key taken",
	ClaimTaken: "claim taken", ClaimLost: "claim lost", TokenStale: "token changed",
	RecordStale: "record changed", JobStale: "job lease lost", TreeStale: "tree changed",
}

// Error names the guard and the position of the row, never its content.
func (c *Conflict) Error() string {
	return fmt.Sprintf("storage: %s (row %d)", conflictText[c.Kind], c.Index)
}

// Is matches ErrExists or ErrStale.
func (c *Conflict) Is(target error) bool {
	switch c.Kind {
	case TokenIDTaken, DuplicateTaken, KeyTaken, ClaimTaken:
		return target == ErrExists
	default:
		return target == ErrStale
	}
}

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
