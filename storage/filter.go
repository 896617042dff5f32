package storage

import "time"

// TokenFilter selects a page of tokens.
type TokenFilter struct {
	Tenant ID
	Where  Cond // nil for every token
	// Now excludes tokens that have expired by then. If zero, none are
	// excluded.
	Now time.Time

	Before ID // only tokens with a lower Ord, if not zero
	// OldestFirst reverses the order. Before then selects tokens with a higher
	// Ord.
	OldestFirst bool
	Offset      int
	Limit       int
	// MaxBytes limits the total size of Body and CVC over all rows of the page.
	// Zero means no limit. A larger page of several rows fails with
	// ErrTooLarge, as soon as its size is known. A page of one row never fails.
	MaxBytes int
	Count    bool // whether to count the tokens on all pages
	// CountUpTo allows counting to stop at this number, if it is not zero. A
	// total at or above it may be any number between it and the true total.
	CountUpTo int
}

// RecordFilter selects a page of records.
type RecordFilter struct {
	Tenant ID     // zero for every tenant, which only the embedding program may use
	Kind   string // empty for every kind
	IDs    []ID   // nil for every id
	// Name matches the whole name, ignoring case. '*' matches any text, and no
	// other character is special. An empty Name matches every name.
	Name string

	// Before selects records with a lower ID, if it is not zero. The total is
	// then not counted.
	Before ID
	Offset int
	Limit  int
	// MaxBytes limits the total size of Body over all rows of the page, as in
	// TokenFilter.
	MaxBytes int
}

// LogFilter selects a page of the log.
type LogFilter struct {
	Tenant     ID
	EntityType string    // empty for all
	EntityID   string    // empty for all
	From       time.Time // created at or after this time, if not zero
	To         time.Time // created before this time, if not zero

	Operation string // empty for all
	ActorID   ID     // zero for all
	ActorType string // empty for all

	// Before selects entries with a lower ID, if it is not zero. The total is
	// then not counted and is zero.
	Before ID
	Offset int
	Limit  int
	// CountUpTo allows counting to stop, as in TokenFilter.
	CountUpTo int
}

// LogFollowing selects entries after a place in the log.
type LogFollowing struct {
	Tenant ID
	// After is a place that FollowLogs has returned. If it is nil, FollowLogs
	// starts with the entries created at From or later. If both are unset,
	// FollowLogs returns no entries and the place at the current end of the
	// log.
	After LogPlace
	From  time.Time
	// Until is the place at an end of the log, which FollowLogs has returned
	// for neither After nor From. FollowLogs returns only entries before it.
	// After the last of them, the next place is Until itself.
	Until LogPlace
	Limit int
	// IDsOnly allows the storage to leave out everything but ID and Seq of the
	// entries. The time in an id then counts as the time of the entry.
	IDsOnly bool
}

// LogPlace is a place in the log of a tenant. Its content is private to the
// backend, it has at most 64 bytes, and it stays valid as long as the database
// exists. In another database it is an error only if it cannot be decoded.
type LogPlace []byte

// CountFilter selects what Count counts.
type CountFilter struct {
	Tenant ID
	// Now is the time at which Count decides what has expired and which leases
	// are active.
	Now time.Time
	// Kind is the kind of records to count.
	Kind string
	// UpTo allows counting of jobs and records to stop at this number.
	UpTo int
}

// Counts holds the numbers of a tenant's rows.
type Counts struct {
	Tokens []TokenCount // by set and type, without zeros
	Logs   int

	Records          int // of the filter's Kind, at most about UpTo
	Waiting, Running int // jobs, at most about UpTo
	Dead             int
}

// TokenCount is the number of tokens of a set and a type.
type TokenCount struct {
	Set  Hash
	Type string
	N    int
}

// Cond is a condition on tokens: And, Or, Not, or one of the terms below.
type Cond interface{ isCond() }

type (
	// And holds if all of its conditions hold. An empty And always holds.
	And []Cond
	// Or holds if one of its conditions holds. An empty Or never holds.
	Or []Cond
	// Not holds if its condition does not hold.
	Not struct{ Cond Cond }

	// SetIn holds for tokens whose set of containers is one of these.
	SetIn []Hash
	// TypeIn holds for tokens of one of these types.
	TypeIn []string
	// IDIn holds for tokens with one of these ids.
	IDIn []string
	// IDPrefix holds for tokens whose id starts with these bytes.
	IDPrefix string
	// HashIs holds for tokens that were stored with this hash.
	HashIs Hash
	// FingerprintIs holds for tokens with this fingerprint.
	FingerprintIs Key
	// ByIs holds for tokens that this actor created or last modified.
	ByIs struct {
		Field Field
		ID    ID
	}
	// TimeIn holds for tokens whose time lies between From and To. A zero bound
	// is open. A bound is part of the range unless it is excluded. A token that
	// was never modified is in no range of ModifiedAt.
	TimeIn struct {
		Field       Field
		From, To    time.Time
		ExcludeFrom bool
		ExcludeTo   bool
	}
	// KeyBelow holds for tokens that are sealed under an older key than this.
	KeyBelow int
)

// Field names a column that ByIs and TimeIn compare.
type Field uint8

// Columns that ByIs and TimeIn compare.
const (
	CreatedBy Field = iota + 1
	CreatedAt
	ModifiedBy
	ModifiedAt
)

func (And) isCond()           {}
func (Or) isCond()            {}
func (Not) isCond()           {}
func (SetIn) isCond()         {}
func (TypeIn) isCond()        {}
func (IDIn) isCond()          {}
func (IDPrefix) isCond()      {}
func (HashIs) isCond()        {}
func (FingerprintIs) isCond() {}
func (ByIs) isCond()          {}
func (TimeIn) isCond()        {}
func (KeyBelow) isCond()      {}
