// Package storage is the contract between the vault and a database.
//
// The vault seals every value before a backend sees it. What crosses this
// border is ciphertext, keyed hashes, and the few columns a database needs to
// find and order rows; a backend cannot even name a plaintext type.
//
// A change is a value: the vault computes a [Change], and [Writer.Write]
// applies it whole or not at all. Nothing of the vault's runs inside a
// transaction, so no tenant's code and no encryption ever holds a lock.
//
// To write a backend, implement [Storage] and run
// storage/storagetest against it. The backends of this module are
// storage/sqlite and storage/postgres.
//
// # Rules for every backend
//
//   - The tenant is part of every key, and of every query that is given one. No
//     row of one tenant is ever visible through, changed by, or in conflict
//     with another tenant's call. What is given none is the vault's own work:
//     [TokenReader.Expired], [Pruner.LogTenants], [Queue.DueTenants],
//     [Writer.Sweep], [TreeStorage.Trees] without tenants, and
//     [RecordReader.ListRecords] without a tenant; and
//     [RecordReader.Lookup], which is asked before the tenant is known: its
//     hashes are unique across tenants.
//   - Times keep microseconds and come back in UTC. A zero time is "none".
//   - Returned slices and the bytes in them belong to the caller, and the
//     arguments belong to the backend only until the call returns.
//   - Methods are safe for concurrent use, by several processes on one
//     database too.
//   - Errors never carry a column's content.
package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ID is a UUID in its 16 bytes. Identifiers that a Storage is given to order
// by are UUIDv7, so that their order is the order of creation.
type ID [16]byte

// IsZero reports whether the id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Hash is a keyed hash of something searchable: a metadata pair, a search
// index, or a set of containers. Equal hashes mean equal content.
type Hash [16]byte

// Key is a SHA-256 by which a row is found without its tenant or its content
// being known: of an API key, a session's nonce, a proxy's key, or an
// idempotency key.
type Key [32]byte

// IsZero reports whether the key is unset.
func (k Key) IsZero() bool { return k == Key{} }

// Storage is a database that holds a vault.
type Storage interface {
	Writer
	Reader
	Queue

	// Ping reports whether the database answers and can be written. It does not
	// wait for one that is out of reach.
	Ping(ctx context.Context) error
	// Close waits for writes under way and releases the database. Calls that
	// come later return ErrClosed.
	Close() error
}

// Writer changes the database.
type Writer interface {
	Pruner

	// Write applies a change: when its guards hold, all of its rows are written
	// and durable when Write returns nil; otherwise nothing is, and the error
	// is a [*Conflict]. ctx counts only until the change is handed over: after
	// that Write waits for the outcome, so that nil and error are never a guess.
	//
	// After a lost connection the backend looks for the change's first log row
	// before it tries again, so a change with a log row is applied at most once.
	// A change without one must be safe to repeat. When it cannot find out in time
	// it sets [Change].Unsure, and the error is ErrUnavailable or ErrLate.
	Write(ctx context.Context, c *Change) error

	// Purge deletes up to limit rows of a tenant, of any kind, and reports
	// whether there are more. Records go last, so that a purge which was cut off
	// can be found again by the record that ordered it.
	Purge(ctx context.Context, tenant ID, limit int) (more bool, err error)

	// Sweep deletes up to limit claims that expired at or before now, and up to
	// limit dead jobs whose RunAt has come, of any tenant, and makes what earlier
	// changes deleted unreadable in the files where the database can. It reports
	// whether more claims or jobs are due.
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
	// Tokens returns the tenant's tokens with these ids, in any order, expired
	// ones too. Ids that do not exist are left out.
	Tokens(ctx context.Context, tenant ID, ids []string) ([]Token, error)

	// Duplicate returns the oldest token with the same fingerprint and expression
	// hash, or nil.
	Duplicate(ctx context.Context, tenant ID, d Duplicate) (*Token, error)

	// ListTokens returns a page of tokens, newest (highest Ord) first, and, if
	// the filter asks for it, the number of tokens over all pages.
	ListTokens(ctx context.Context, f TokenFilter) (page []Token, total int, err error)

	// ContainerSets returns every set of containers that a token of the tenant
	// has ever been in.
	ContainerSets(ctx context.Context, tenant ID) ([]ContainerSet, error)

	// Expired returns rows of any tenant whose time has come: up to limit of each
	// sort, and fewer, but at least one, of those that would take much memory.
	Expired(ctx context.Context, now time.Time, limit int) (Expired, error)

	// ListLogs returns a page of the log, newest first, and the number of
	// entries over all pages.
	ListLogs(ctx context.Context, f LogFilter) (page []Log, total int, err error)
}

// RecordReader reads records: sealed documents with a few columns beside them.
type RecordReader interface {
	// Records returns the tenant's records of a kind with these ids, in any
	// order. Ids that do not exist are left out.
	Records(ctx context.Context, tenant ID, kind string, ids []ID) ([]Record, error)

	// Lookup returns the record that has this key, of any tenant; or
	// ErrNotFound.
	Lookup(ctx context.Context, key Key) (Record, error)

	// ListRecords returns a page of records, newest (highest ID) first, and the
	// number of records over all pages.
	ListRecords(ctx context.Context, f RecordFilter) (page []Record, total int, err error)
}

// Follower reads the log in the order in which it came to be.
type Follower interface {
	// FollowLogs returns up to a limit of the tenant's entries that come after a
	// place, and the place after the last of them. Their order is one in which
	// their transactions could have been committed, and no entry that becomes
	// visible later comes before that place: so one who goes on from there misses
	// nothing. An entry may therefore be held back while a transaction that began
	// before its own is under way.
	FollowLogs(ctx context.Context, f LogFollowing) (page []Log, next LogPlace, err error)
}

// Counter counts what there is.
type Counter interface {
	// Count returns how much a tenant has. What it costs does not depend on that.
	Count(ctx context.Context, f CountFilter) (Counts, error)
}

// Queue reads claims and leases jobs.
type Queue interface {
	// Claim returns the claim with this key, live or not; or ErrNotFound.
	Claim(ctx context.Context, tenant ID, key Key) (Claim, error)

	// DueTenants returns up to limit tenants, in order of their ids and after
	// the given one, that have a job which [Queue.LeaseJobs] would return.
	DueTenants(ctx context.Context, now time.Time, after ID, limit int) ([]ID, error)

	// LeaseJobs gives the owner up to limit of the tenant's due jobs, oldest
	// RunAt first, until the given time. A job is due when it is not dead, its
	// RunAt has come, and that no running lease is on. No
	// two callers get the same job.
	LeaseJobs(ctx context.Context, l Lease) ([]Job, error)

	// Jobs returns the tenant's jobs that a filter asks for, newest (highest ID)
	// first; fewer than its limit, but at least one, of those that would take much
	// memory.
	Jobs(ctx context.Context, f JobFilter) ([]Job, error)

	// SealedRows returns claims or jobs of a tenant, in the order of their keys;
	// fewer than the limit, but at least one, of those that would take much
	// memory. A claim without an answer, or a job whose payload is empty, is not
	// sealed.
	SealedRows(ctx context.Context, f SealedFilter) ([]Sealed, error)
}

// Pruner deletes old entries of the log. An entry's ID is of the millisecond of
// its CreatedAt, so a backend may look for them in the order of a key that ends
// with the ID.
type Pruner interface {
	// LogTenants returns up to limit tenants, in order of their ids and after
	// the given one, that have an entry which [Pruner.DeleteLogs] would delete.
	LogTenants(ctx context.Context, before time.Time, after ID, limit int) ([]ID, error)

	// DeleteLogs deletes up to limit log entries of the tenant that were created
	// before a time, not at it, and returns how many. They are gone from every
	// list and its total when it returns. Fewer than limit means that no more are
	// left, but for those that another call is deleting at that moment.
	DeleteLogs(ctx context.Context, tenant ID, before time.Time, limit int) (deleted int, err error)
}

// ReadLogger is a [Storage] that reads a token and enters that in the log in one
// round trip. No Storage has to be one: the vault then does the one after the
// other.
type ReadLogger interface {
	// ReadToken returns a token that has not expired at the entry's CreatedAt,
	// and enters in the log that it was read. When it returns the token, the
	// entry is in the log as after the Write of a relaxed change; when there is
	// no such token, the log is as it was, and the error is ErrNotFound. After
	// any other error the entry may be there or not.
	ReadToken(ctx context.Context, r Reading) (Token, error)
}

// Errors that a Storage returns, for errors.Is.
var (
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("storage: not found")
	// ErrExists means that a unique key of the change is taken.
	ErrExists = errors.New("storage: already exists")
	// ErrStale means that a row has changed, or gone, since it was read.
	ErrStale = errors.New("storage: changed since it was read")
	// ErrLate means that a change could not be applied before its time was up.
	ErrLate = errors.New("storage: the time to apply the change has passed")
	// ErrTooLarge means that the rows of a page hold more bytes than its filter
	// allows.
	ErrTooLarge = errors.New("storage: the page is too large")
	// ErrClosed means that the storage has been closed.
	ErrClosed = errors.New("storage: closed")
	// ErrUnavailable means that the database cannot do it now, and later it may:
	// it is out of reach, hangs, or cannot be written. Nothing was changed, unless
	// [Change].Unsure is set.
	ErrUnavailable = errors.New("storage: the vault cannot serve this now; try again")
	// ErrOtherDatabase means that a transaction of the application is not on the
	// database of the vault.
	ErrOtherDatabase = errors.New("storage: the transaction is not on the vault's database")
	// ErrReadOnly means that a transaction of the application may not write, as
	// the vault has to even to read: each read is entered in the log.
	ErrReadOnly = errors.New("storage: the transaction is read-only; the vault writes a log entry even for a read")
	// ErrNewerSchema means that the database was migrated by a later version of
	// its backend, to a schema that this one cannot work with. Opening it fails.
	ErrNewerSchema = errors.New("storage: the database has a newer schema than this program supports")
	// ErrOldSchema means that migrations have not run, and that opening was not
	// to run them. Opening fails.
	ErrOldSchema = errors.New("storage: migrations have not run; run them, or open the database with MigrateAuto")
	// ErrFormerSchema means that the database has the tables of a version whose
	// table names had no prefix. This program does not read them, so the vault would
	// seem empty. Opening fails, and changes nothing.
	ErrFormerSchema = errors.New("storage: the database has the tables of an earlier version that this program cannot read; " +
		"move the data with that version, and then drop or rename its tables")
	// ErrNameTaken means that the database has a table or an index of somebody
	// else under a name that the vault needs. Opening fails, and changes nothing.
	ErrNameTaken = errors.New("storage: a table or index that is not the vault's has a name that the vault needs")
)

// Conflict says which guard of a change did not hold. It matches ErrExists or
// ErrStale.
type Conflict struct { //nolint:errname // it names what happened, and errors.As reads well with it
	Kind  ConflictKind
	Index int // of the row in its slice of the Change
}

// ConflictKind names a guard.
type ConflictKind uint8

// The guards of a Change.
const (
	TokenIDTaken   ConflictKind = iota + 1 // InsertTokens: the id is taken
	DuplicateTaken                         // InsertTokens, UpdateTokens: the Dedup hash is taken
	KeyTaken                               // InsertRecords, UpdateRecords: a key, or the id, is taken
	ClaimTaken                             // Claim: another claim on the key is live
	ClaimLost                              // Claim: no longer the owner's to finish
	TokenStale                             // UpdateTokens, DeleteTokens: another revision
	RecordStale                            // UpdateRecords, DeleteRecords: another revision
	JobStale                               // UpdateJobs, DeleteJobs: no longer the owner's
	TreeStale                              // TreeChange: another size or state
)

var conflictText = [...]string{
	TokenIDTaken: "token id taken", DuplicateTaken: "duplicate key taken", KeyTaken: "record key taken",
	ClaimTaken: "claim taken", ClaimLost: "claim lost", TokenStale: "token changed",
	RecordStale: "record changed", JobStale: "job lease lost", TreeStale: "tree changed",
}

// Error names the guard and the row's position, never the row.
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
