package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"
)

// EventKind is the kind of an event in the vault's tree. A verifier ignores
// unknown kinds.
type EventKind string

// The kinds of events, and the fields that each uses besides Time.
const (
	// EventHead has the size and root of a tenant's tree: Tenant, Size, Root,
	// Revision, State, Prev.
	EventHead EventKind = "head"
	// EventBegun precedes the first head of a tenant: Tenant, Import. Only a tree
	// with Import may have leaves of the kind imported. Without a Tenant it means
	// that every tenant from before evidence has begun.
	EventBegun EventKind = "begun"
	// EventImported ends the import of the entries from before the tree: Tenant,
	// Count, the number of their leaves.
	EventImported EventKind = "imported"
	// EventSummary has the newest heads and the deleted tenants: Summary. A node
	// that starts reads only the newest summary and what follows it.
	EventSummary EventKind = "summary"
	// EventPruned allows the deletion of a tenant's old entries: Tenant, Below,
	// Cutoff. Entries created before the cutoff may be missing, and leaves below
	// the index Below may be replaced by the roots of subtrees.
	EventPruned EventKind = "pruned"
	// EventErased allows the removal of a person from an entry: Tenant, Entry,
	// After.
	EventErased EventKind = "erased"
	// EventLost records entries of reads that the database lost in a crash:
	// Tenant, Entries.
	EventLost EventKind = "lost"
	// EventRestored records that an older copy of the database was accepted:
	// Origin, Notes (the newest note known elsewhere, and the newest in the
	// database), Reason, Instance.
	EventRestored EventKind = "restored"
	// EventTenantDeleted records the last head of a deleted tenant: Tenant, Size,
	// Root.
	EventTenantDeleted EventKind = "tenant deleted"
	// EventKeyChanged records a new signing key: Keys (the old one, the new one).
	EventKeyChanged EventKind = "signing key changed"
	// EventStarted and EventStopped record when evidence was switched on or off:
	// Origin, Instance.
	EventStarted EventKind = "evidence started"
	EventStopped EventKind = "evidence stopped"
	// EventErasure records the deletion of a person's tokens: Tenant, ID, Reason,
	// Count. If transactions of the application deleted them, each part has an event,
	// with another Entry.
	EventErasure EventKind = "erasure"
	// EventVerified records how far a verification of everything has come: ID, the
	// node that verifies, Began, Last, Count (the leaves so far), Bad, Done.
	EventVerified EventKind = "verified"
	// EventErasedAgain records that erasures which a restore had undone were
	// applied again: Count.
	EventErasedAgain EventKind = "erased again"
)

// Event is a leaf of the vault's tree.
type Event struct {
	Kind   EventKind `json:"kind"`
	Time   time.Time `json:"time"`
	Tenant uuid.UUID `json:"tenant,omitzero"`
	// Prev is one more than the index of the previous event of the same chain:
	// the heads of a tenant, or the events about the whole vault.
	Prev int64 `json:"prev,omitempty"`

	Size int64 `json:"size,omitempty"`
	Root Hash  `json:"root,omitzero"`
	// Revision is the number of changes of the tree so far. State is a SHA-256
	// over the state that the vault keeps with the tree.
	Revision int64 `json:"revision,omitempty"`
	State    Hash  `json:"state,omitzero"`
	Import   bool  `json:"import,omitempty"`

	Below  int64 `json:"below,omitempty"`
	Cutoff int64 `json:"cutoff,omitempty"` // Unix time in milliseconds

	Entry   uuid.UUID   `json:"entry,omitzero"`
	After   Hash        `json:"after,omitzero"`
	Entries []uuid.UUID `json:"entries,omitempty"`

	Origin   string   `json:"origin,omitempty"`
	Instance string   `json:"instance,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Keys     []string `json:"keys,omitempty"`

	ID     uuid.UUID `json:"id,omitzero"`
	Reason string    `json:"reason,omitempty"`
	Count  int64     `json:"count,omitempty"`

	Began time.Time `json:"began,omitzero"`
	Last  uuid.UUID `json:"last,omitzero"`  // the last tenant that was verified
	Bad   bool      `json:"bad,omitempty"`  // tampering was found
	Done  bool      `json:"done,omitempty"` // everything was verified

	Summary []byte `json:"summary,omitempty"`
}

// Body returns the bytes that the leaf of the event hashes.
func (e *Event) Body() []byte { return encode(e) }

var (
	errKind  = errors.New("evidence: unknown kind of leaf")
	errEvent = errors.New("evidence: not an event")
)

// ParseEvent reads the body of an event.
func ParseEvent(body []byte) (*Event, error) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil || e.Kind == "" {
		return nil, errEvent
	}
	return &e, nil
}

// Proven is an event with the proof that it is in the vault's tree.
type Proven struct {
	Body  string `json:"body"`
	Index int64  `json:"index"`
	Proof []Hash `json:"proof"`
}

// Open returns the event if its proof is valid for the tree of a note.
func (p *Proven) Open(in *Checkpoint) (*Event, error) {
	if err := tlog.CheckRecord(p.Proof, in.Size, in.Root, p.Index, tlog.RecordHash([]byte(p.Body))); err != nil {
		return nil, fmt.Errorf("evidence: the proof of an event does not hold")
	}
	return ParseEvent([]byte(p.Body))
}
