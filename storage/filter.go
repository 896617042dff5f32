package storage

import "time"

// TokenFilter asks for a page of tokens.
type TokenFilter struct {
	Tenant ID
	Where  Cond // nil: every token
	// Now leaves out the tokens that have expired at it. Zero: none is left out.
	Now time.Time

	Before ID // only tokens with a lower Ord, unless zero
	// OldestFirst turns the order around, and with it Before: only tokens with a
	// higher Ord.
	OldestFirst bool
	Offset      int
	Limit       int
	// MaxBytes bounds the bytes of Body and CVC over all rows of the page, unless
	// zero. A page of several rows that hold more fails with ErrTooLarge, as soon
	// as that is known; one of a single row never does.
	MaxBytes int
	Count    bool // whether the total is asked for
	// CountUpTo is where counting may stop, unless zero: a total that is not lower
	// may be any number from it to the true one.
	CountUpTo int
}

// RecordFilter asks for a page of records.
type RecordFilter struct {
	Tenant ID     // zero: of every tenant, as only the embedding program asks
	Kind   string // empty: every kind
	IDs    []ID   // nil: every id
	// Name matches the whole name, without regard to case; '*' stands for any
	// text, and no other character is special. Empty: every name.
	Name string
	// KeyBelow keeps the records that are sealed under an older key, unless zero.
	KeyBelow int

	// Before keeps the records with a lower ID, unless zero. The total is not
	// counted then.
	Before ID
	Offset int
	Limit  int
	// MaxBytes bounds the bytes of Body over all rows of the page, as that of a
	// TokenFilter does.
	MaxBytes int
}

// LogFilter asks for a page of the log.
type LogFilter struct {
	Tenant     ID
	EntityType string    // empty: all
	EntityID   string    // empty: all
	From       time.Time // created at or after it, unless zero
	To         time.Time // created before it, unless zero

	Operation string // empty: all
	ActorID   ID     // zero: all
	ActorType string // empty: all

	// Before keeps the entries with a lower ID, unless zero. The total is not
	// counted then, and is zero.
	Before ID
	Offset int
	Limit  int
	// CountUpTo is where counting may stop, as that of a TokenFilter.
	CountUpTo int
}

// LogFollowing asks for what comes after a place in the log.
type LogFollowing struct {
	Tenant ID
	// After is a place that FollowLogs has returned. Without one, the entries are
	// those that were created at From or later; without that too, there are none,
	// and the place is that of the entries to come.
	After LogPlace
	From  time.Time
	// Until is a place that FollowLogs has returned for neither After nor From:
	// the entries are those before it. When there are no more, the place after
	// them is Until itself.
	Until LogPlace
	Limit int
}

// LogPlace is a place in the log of a tenant. What is in it is the backend's
// affair; it has at most 64 bytes, is good for as long as the database, and is
// an error elsewhere only if it cannot be read.
type LogPlace []byte

// CountFilter asks for numbers.
type CountFilter struct {
	Tenant ID
	// Now is the moment at which what has expired does not count, and leases are
	// judged.
	Now time.Time
	// Kind is the kind of the records that are counted.
	Kind string
	// UpTo is where the counting of jobs, and that of records, may stop.
	UpTo int
}

// Counts is how much a tenant has.
type Counts struct {
	Tokens []TokenCount // of each set and type that has any
	Logs   int

	Records          int // of the kind that was asked for, up to a number
	Waiting, Running int // jobs, of up to a number
	Dead             int
}

// TokenCount is how many tokens there are of a set and a type.
type TokenCount struct {
	Set  Hash
	Type string
	N    int
}

// Cond is a condition on tokens: And, Or, Not, or one of the terms below.
type Cond interface{ isCond() }

type (
	// And holds when every one of its conditions does; so an empty one always.
	And []Cond
	// Or holds when one of its conditions does; so an empty one never.
	Or []Cond
	// Not holds when its condition does not.
	Not struct{ Cond Cond }

	// SetIn holds for tokens whose containers are one of these sets.
	SetIn []Hash
	// TypeIn holds for tokens of one of these types.
	TypeIn []string
	// IDIn holds for tokens with one of these ids.
	IDIn []string
	// IDPrefix holds for tokens whose id starts with it, byte for byte.
	IDPrefix string
	// HashIs holds for tokens that were stored with this hash.
	HashIs Hash
	// FingerprintIs holds for tokens with this fingerprint.
	FingerprintIs Key
	// ByIs holds for tokens that this actor made, or last changed.
	ByIs struct {
		Field Field
		ID    ID
	}
	// TimeIn holds for tokens whose time lies between From and To. A zero end
	// is open. An end belongs to the range unless it is marked as excluded.
	// A token that was never modified is in no range of ModifiedAt.
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

// CreatedBy, CreatedAt, ModifiedBy and ModifiedAt are the columns that ByIs
// and TimeIn know.
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
