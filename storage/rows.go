package storage

import (
	"cmp"
	"time"
)

// Token is a sealed token.
type Token struct {
	Tenant ID // filled by reads; a Write takes the tenant from its Change

	Ord  ID     // UUIDv7: the row's key under the tenant, and the order of lists
	ID   string // unique under the tenant
	Type string

	// Set names the set of containers: equal sets have equal hashes.
	Set        Hash
	Containers []string

	Fingerprint Key    // keyed hash of type and value
	Expression  Hash   // of the text of the fingerprint expression
	Dedup       Hash   // unique under the tenant, unless zero
	Hashes      []Hash // metadata pairs and search indexes; written, not read back

	KeyVersion   int    // of the data key that Body and CVC are sealed under
	Body         []byte // sealed
	CVC          []byte // sealed by itself; nil without one
	CVCExpiresAt time.Time
	ExpiresAt    time.Time

	CreatedBy  ID
	CreatedAt  time.Time
	ModifiedBy ID
	ModifiedAt time.Time

	// Rev counts the writes of this row. An insert stores it as given; an
	// update names the revision it replaces.
	Rev int64
}

// ContainerSet is a set of containers that tokens are in.
type ContainerSet struct {
	Set        Hash
	Containers []string
}

// Duplicate asks for a token with the same content.
type Duplicate struct {
	Fingerprint Key
	Expression  Hash
	Except      string // id of a token that does not count; may be empty
	// Now leaves out the tokens that have expired at it. Zero: none is left out.
	Now time.Time
}

// Reading asks for a token, and for an entry in the log that says so.
type Reading struct {
	Tenant ID
	ID     string // of the token
	Entry  Log    // about the token: its EntityType and EntityID do not count
}

// Expired lists what a sweep should delete.
type Expired struct {
	Tokens  []Token  // ExpiresAt has come
	CVCs    []Token  // CVCExpiresAt has come, ExpiresAt has not
	Records []Record // ExpiresAt has come
}

// Record is a sealed document: a tenant, an application, a session, a reactor,
// a proxy, a ring of data keys.
type Record struct {
	Tenant ID // filled by reads; a Write takes the tenant from its Change

	Kind string
	ID   ID     // UUIDv7, unique under the tenant and kind
	Name string // for lists that ask by name; may be empty

	// Key and AltKey are what Lookup finds the record by, unless zero. They are
	// unique across tenants.
	Key, AltKey Key

	ExpiresAt  time.Time
	KeyVersion int
	Body       []byte // sealed
	CreatedAt  time.Time
	Rev        int64 // as for Token
}

// Log is an entry of the audit log. It holds names and ids, never a value.
type Log struct {
	ID         ID // UUIDv7 of CreatedAt: the entry's key under the tenant, and the order of lists
	ActorID    ID // zero when the tenant itself acted
	ActorType  string
	ActorName  string // what the embedding program calls a user; empty for others
	EntityType string
	EntityID   string
	Operation  string
	Message    string
	// Origin is where the call came from: at most 45 characters, empty when
	// unknown.
	Origin    string
	CreatedAt time.Time

	// Mac is a keyed hash over the other fields; zero for entries of versions
	// that had none.
	Mac Hash
	// Seq is the number of the entry's transaction in the order of
	// [Follower.FollowLogs], which returns it, as [TreeStorage.LogsByRef] does.
	// Writes and other reads pass over it.
	Seq int64
}

// Claim is one idempotency key in use. While Answer is nil the work is in
// progress, and the claim is live until LeaseUntil; with an answer it is live
// until ExpiresAt.
type Claim struct {
	Key        Key
	Owner      ID // of the call that did, or does, the work
	LeaseUntil time.Time
	ExpiresAt  time.Time
	KeyVersion int
	Answer     []byte // sealed
}

// Live reports whether the claim still keeps others out.
func (c *Claim) Live(now time.Time) bool {
	if c.Answer != nil {
		return c.ExpiresAt.After(now)
	}
	return c.LeaseUntil.After(now)
}

// Job is work that some node will do.
type Job struct {
	Tenant ID // filled by reads; a Write takes the tenant from its Change

	ID         ID
	Kind       string
	RunAt      time.Time
	Attempts   int
	Dead       bool // not due; kept until RunAt, so that it can be counted and revived
	Owner      ID   // the holder of the lease; zero when there is no lease
	LeaseUntil time.Time
	KeyVersion int
	Payload    []byte // sealed; empty when nothing is left of it
}

// JobFilter asks for jobs to look at, without a lease.
type JobFilter struct {
	Tenant ID
	ID     ID   // that one job; zero for any
	Dead   bool // those that are dead, or those that are not
	Before ID   // those with a lower ID; zero for all
	Limit  int
}

// Lease asks for jobs.
type Lease struct {
	Tenant ID
	Owner  ID
	Now    time.Time
	Until  time.Time
	Limit  int
}

// SealedKind names the rows that SealedRows and Reseal are about.
type SealedKind uint8

// Rows that have no revision of their own.
const (
	SealedClaims SealedKind = iota + 1
	SealedJobs
)

// Sealed is the sealed part of a claim or a job. Key holds the claim's key, or
// the job's id in its first 16 bytes.
type Sealed struct {
	Kind       SealedKind
	Key        Key
	KeyVersion int
	Body       []byte
	// Replace makes Reseal replace a part that is sealed under the same key too.
	// Without it, Reseal replaces older ones only.
	Replace bool
}

// Below returns the version of the key that a stored part must be older than, so
// that Reseal replaces it.
func (s *Sealed) Below() int {
	if s.Replace {
		return s.KeyVersion + 1
	}
	return s.KeyVersion
}

// SealedFilter asks for sealed parts of claims or jobs.
type SealedFilter struct {
	Tenant   ID
	Kind     SealedKind
	KeyBelow int // sealed under an older key than this one, unless zero
	After    Key // with a higher Key
	Limit    int
}

// Change is a set of rows that are written together, or not at all.
//
// Its guards are judged before anything is written: every unique key (of token
// ids, of Dedup hashes, of record ids and keys), every expected revision, the
// claim, and the ownership of jobs.
type Change struct {
	Tenant ID
	// Now is the moment by which claims are judged live.
	Now time.Time
	// Before is the last moment, on the real clock, at which an attempt to apply
	// the change may begin, unless zero. After it Write gives up with ErrLate:
	// the keys that the change was sealed under may have been replaced.
	Before time.Time

	// Unsure says that an earlier Write of this change has failed without knowing
	// whether it was applied: the next one finds out first, by its log entries,
	// which must not change. A backend sets it.
	Unsure bool

	// Hold is heeded by [Tx.Write] alone. It may be nil.
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
	// older key. Rows that have gone meanwhile are passed over.
	Reseal []Sealed

	Logs []Log

	// Relaxed says that the change holds nothing but log entries of reads: it
	// must survive a crash of the process when Write returns, and a power loss
	// soon after.
	Relaxed bool
}

// Late reports whether no attempt to apply the change may begin any more.
func (c *Change) Late(now time.Time) bool { return !c.Before.IsZero() && now.After(c.Before) }

// Merge adds the writes of another change, so that both are applied or neither.
// Tenant and Now stay as they are. The result ends with the change that ends
// first, and is relaxed only if both are.
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

// ClaimOp is what a Change does to a claim.
type ClaimOp uint8

// The life of a claim.
const (
	// ClaimTake inserts the claim, with or without its answer, unless a live
	// one has the key. A claim that is no longer live is replaced.
	ClaimTake ClaimOp = iota + 1
	// ClaimFinish stores the answer, and its expiry, of a claim in progress
	// that is still its owner's.
	ClaimFinish
	// ClaimDrop deletes a claim in progress that is still its owner's.
	ClaimDrop
)

// TokenUpdate replaces the row that has the token's Ord and the revision Rev.
// Ord, ID, Type, CreatedBy and CreatedAt do not change. The stored revision
// becomes Rev+1, whatever Token.Rev says.
type TokenUpdate struct {
	Rev    int64
	OldSet Hash // the set of the row that is replaced
	Token  Token
	// KeepHashes says that Token.Hashes is not given and the stored ones stay.
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
	// Until is when the lease ends that Owner goes on holding. Zero gives the
	// lease up.
	Until time.Time
}

// JobDelete deletes a job that Owner holds; with a zero Owner, a job that nobody
// has leased.
type JobDelete struct {
	Owner ID
	ID    ID
}
