package storage

import (
	"cmp"
	"time"
)

// Token is a sealed token.
type Token struct {
	Tenant ID // set by reads; Write uses the tenant of its Change

	Ord  ID     // UUIDv7; the row's key under the tenant, and the order of lists
	ID   string // unique under the tenant
	Type string

	// Set identifies the set of containers. Equal sets have equal hashes.
	Set        Hash
	Containers []string

	Fingerprint Key    // keyed hash of type and value
	Expression  Hash   // hash of the text of the fingerprint expression
	Dedup       Hash   // unique under the tenant, if not zero
	Hashes      []Hash // metadata pairs and search indexes; reads do not return them

	KeyVersion   int    // version of the data key that seals Body and CVC
	Body         []byte // sealed
	CVC          []byte // sealed separately; nil without a CVC
	CVCExpiresAt time.Time
	ExpiresAt    time.Time

	CreatedBy  ID
	CreatedAt  time.Time
	ModifiedBy ID
	ModifiedAt time.Time

	// Rev counts the writes of this row. An insert stores it as given, and an
	// update names the revision that it replaces.
	Rev int64
}

// ContainerSet is a set of containers that holds tokens.
type ContainerSet struct {
	Set        Hash
	Containers []string
}

// Duplicate describes the content of a token to look for.
type Duplicate struct {
	Fingerprint Key
	Expression  Hash
	Except      string // id of a token to ignore; may be empty
	// Now excludes tokens that have expired by then. If zero, none are
	// excluded.
	Now time.Time
}

// Reading names a token to read and the log entry to write for it.
type Reading struct {
	Tenant ID
	ID     string // of the token
	Entry  Log    // EntityType and EntityID are ignored; they are the token's
}

// ExpiredFilter selects rows that have expired.
type ExpiredFilter struct {
	Now                   time.Time
	Limit                 int // of the rows of each kind
	Tokens, CVCs, Records ExpiryPlace
}

// ExpiryPlace is where a page of expired rows begins. The zero value is for a
// caller that deletes every row of a page. A caller that leaves rows continues
// after them.
type ExpiryPlace struct {
	// Ordered requires that rows with the same time always come in the same
	// order. Without it the database need not sort them, which matters if very
	// many rows expire at the same time.
	Ordered bool
	From    time.Time // the earliest time of the rows; zero for any
	Skip    int       // the number of rows to skip
}

// Pass moves an ordered place past a row with a time. Left means that the row was
// not deleted.
func (p *ExpiryPlace) Pass(at time.Time, left bool) {
	if at.After(p.From) {
		p.From, p.Skip = at, 0
	}
	if left {
		p.Skip++
	}
}

// Expired lists the rows that a sweep should delete.
type Expired struct {
	Tokens  []Token  // ExpiresAt has passed
	CVCs    []Token  // CVCExpiresAt has passed, ExpiresAt has not
	Records []Record // ExpiresAt has passed
}

// Record is a sealed document, such as a tenant, an application, a session, a
// reactor, a proxy, or a ring of data keys.
type Record struct {
	Tenant ID // set by reads; Write uses the tenant of its Change

	Kind string
	ID   ID     // UUIDv7, unique under the tenant and kind
	Name string // for lists that filter by name; may be empty

	// Key and AltKey are the keys that Lookup finds the record by, if they are
	// not zero. They are unique across tenants.
	Key, AltKey Key

	ExpiresAt  time.Time
	KeyVersion int
	Body       []byte // sealed
	CreatedAt  time.Time
	Rev        int64 // see Token.Rev
}

// Log is an entry of the audit log. It holds names and ids, but no values.
type Log struct {
	ID         ID // UUIDv7 of CreatedAt; the entry's key under the tenant, and the order of lists
	ActorID    ID // zero if the tenant itself acted
	ActorType  string
	ActorName  string // the embedding program's name for a user; empty for other actors
	EntityType string
	EntityID   string
	Operation  string
	Message    string
	// Origin says where the call came from, such as an IP address. It has at
	// most 45 characters, and is empty if the origin is unknown.
	Origin    string
	CreatedAt time.Time

	// Mac is a keyed hash over the other fields. Without it, an entry is forged.
	Mac Hash
	// Seq is the number of the entry's transaction in the order of
	// [Follower.FollowLogs]. Only FollowLogs and [TreeStorage.LogsByRef] return
	// it; writes and other reads ignore it.
	Seq int64
}

// Claim is an idempotency key in use. Without an Answer the work is in
// progress, and the claim is live until LeaseUntil. With an Answer it is live
// until ExpiresAt.
type Claim struct {
	Key        Key
	Owner      ID // the call that does or did the work
	LeaseUntil time.Time
	ExpiresAt  time.Time
	KeyVersion int
	Answer     []byte // sealed
}

// Live reports whether the claim still blocks other calls.
func (c *Claim) Live(now time.Time) bool {
	if c.Answer != nil {
		return c.ExpiresAt.After(now)
	}
	return c.LeaseUntil.After(now)
}

// Job is work for any node to do.
type Job struct {
	Tenant ID // set by reads; Write uses the tenant of its Change

	ID         ID
	Kind       string
	RunAt      time.Time
	Attempts   int
	Dead       bool // not due; kept until RunAt, so that it can be counted and revived
	Owner      ID   // holder of the lease; zero if there is no lease
	LeaseUntil time.Time
	KeyVersion int
	Payload    []byte // sealed; may be empty
}

// JobFilter selects jobs to read without a lease.
type JobFilter struct {
	Tenant ID
	ID     ID   // only this job; zero for any
	Dead   bool // selects dead jobs if true, live jobs if false
	Before ID   // only jobs with a lower ID; zero for all
	Limit  int
}

// Lease describes a lease on jobs of a tenant, from Now to Until.
type Lease struct {
	Tenant ID
	Owner  ID
	Now    time.Time
	Until  time.Time
	Limit  int
}

// SealedKind selects the rows of SealedRows and Reseal.
type SealedKind uint8

// Kinds of sealed rows that have no revision.
const (
	SealedClaims SealedKind = iota + 1
	SealedJobs
)

// Sealed is the sealed part of a claim or a job. Key holds the key of the
// claim, or the id of the job in its first 16 bytes.
type Sealed struct {
	Kind       SealedKind
	Key        Key
	KeyVersion int
	Body       []byte
	// Replace makes Reseal also replace a part that is sealed under the same
	// key. Otherwise Reseal replaces only parts under older keys.
	Replace bool
}

// Below returns the key version below which Reseal replaces a stored part.
func (s *Sealed) Below() int {
	if s.Replace {
		return s.KeyVersion + 1
	}
	return s.KeyVersion
}

// SealedFilter selects sealed parts of claims or jobs.
type SealedFilter struct {
	Tenant ID
	Kind   SealedKind
	After  Key // only parts with a higher Key
	Limit  int
}

// Change is a set of rows that are all written together, or not at all.
//
// A backend checks the guards of the change before it writes anything. The
// guards are unique keys (token ids, Dedup hashes, record ids and keys),
// expected revisions, the claim, and the owners of jobs.
type Change struct {
	Tenant ID
	// Now is the time at which a claim counts as live or not.
	Now time.Time
	// Before is the last time, on the real clock, at which an attempt to apply
	// the change may begin. Zero means no limit. After it Write returns
	// ErrLate, because the keys that seal the change may have been replaced.
	Before time.Time

	// Unsure means that an earlier Write of this change failed without knowing
	// whether the change was applied. The next Write first looks for the
	// change's log entries, which must stay the same. The backend sets Unsure.
	Unsure bool

	// Hold, if not nil, names the record of the keys that seal the change. If
	// the record has another revision, Write returns ErrLate and writes
	// nothing, because the database may have been restored to a state without
	// these keys.
	Hold *Hold

	Claim *ClaimChange

	InsertTokens []Token
	UpdateTokens []TokenUpdate
	DeleteTokens []TokenDelete

	InsertRecords []Record
	UpdateRecords []RecordUpdate
	DeleteRecords []RecordDelete

	InsertJobs []Job
	UpdateJobs []JobUpdate
	DeleteJobs []JobDelete

	// Reseal replaces the sealed part of rows that are still sealed under an
	// older key. It skips rows that have been deleted.
	Reseal []Sealed

	Logs []Log

	// Relaxed means that the change consists only of log entries of reads. When
	// Write returns, it must survive a crash of the process. It must survive a
	// crash of the database server or a power loss only some time later.
	Relaxed bool
}

// Late reports whether it is too late to begin an attempt to apply the change.
func (c *Change) Late(now time.Time) bool { return !c.Before.IsZero() && now.After(c.Before) }

// Merge adds the writes of another change, so that both are applied or neither
// is. Tenant and Now do not change. The result has the earlier Before of the
// two, and is Relaxed only if both are.
func (c *Change) Merge(other *Change) {
	if c.Before.IsZero() || !other.Before.IsZero() && other.Before.Before(c.Before) {
		c.Before = other.Before
	}
	c.Unsure = c.Unsure || other.Unsure
	c.Relaxed = c.Relaxed && other.Relaxed
	c.Hold = cmp.Or(c.Hold, other.Hold)
	c.Claim = cmp.Or(c.Claim, other.Claim)
	c.InsertTokens = append(c.InsertTokens, other.InsertTokens...)
	c.UpdateTokens = append(c.UpdateTokens, other.UpdateTokens...)
	c.DeleteTokens = append(c.DeleteTokens, other.DeleteTokens...)
	c.InsertRecords = append(c.InsertRecords, other.InsertRecords...)
	c.UpdateRecords = append(c.UpdateRecords, other.UpdateRecords...)
	c.DeleteRecords = append(c.DeleteRecords, other.DeleteRecords...)
	c.InsertJobs = append(c.InsertJobs, other.InsertJobs...)
	c.UpdateJobs = append(c.UpdateJobs, other.UpdateJobs...)
	c.DeleteJobs = append(c.DeleteJobs, other.DeleteJobs...)
	c.Reseal = append(c.Reseal, other.Reseal...)
	c.Logs = append(c.Logs, other.Logs...)
}

// ClaimChange takes, finishes or drops an idempotency claim.
type ClaimChange struct {
	Op ClaimOp
	Claim
}

// ClaimOp is the operation of a Change on a claim.
type ClaimOp uint8

// Operations on a claim.
const (
	// ClaimTake inserts the claim, with or without its answer. It fails if the
	// key has a live claim, and replaces a claim that is no longer live.
	ClaimTake ClaimOp = iota + 1
	// ClaimFinish stores the Answer and the expiry of a claim in progress that
	// its owner still holds.
	ClaimFinish
	// ClaimDrop deletes a claim in progress that its owner still holds.
	ClaimDrop
)

// TokenUpdate replaces the row that has the token's Ord and the revision Rev.
// Ord, ID, Type, CreatedBy and CreatedAt do not change. The stored revision
// becomes Rev+1; Token.Rev is ignored.
type TokenUpdate struct {
	Rev    int64
	OldSet Hash // the set of the replaced row
	Token  Token
	// KeepHashes keeps the stored hashes; Token.Hashes is ignored.
	KeepHashes bool
}

// TokenDelete deletes the row that has this Ord and revision.
type TokenDelete struct {
	Ord  ID
	Rev  int64
	Set  Hash
	Type string
}

// RecordUpdate replaces the record that has the Kind and ID of Record and the
// revision Rev, together with its keys. The stored revision becomes Rev+1.
type RecordUpdate struct {
	Rev    int64
	Record Record
}

// RecordDelete deletes a record and its keys.
type RecordDelete struct {
	Kind string
	ID   ID
	Rev  int64
}

// JobUpdate replaces RunAt, Attempts, Dead, KeyVersion and Payload of a job
// that Owner holds.
type JobUpdate struct {
	Owner ID
	Job   Job
	// Until is the end of the lease that Owner keeps. Zero releases the lease.
	Until time.Time
}

// JobDelete deletes a job that Owner holds. A zero Owner deletes a job without
// a lease.
type JobDelete struct {
	Owner ID
	ID    ID
}
