// Package ledger keeps Merkle trees over the audit log. It sequences entries,
// signs checkpoints, sends them to anchors, and verifies the database.
//
// Writers do not wait for the ledger. A node sequences the tenants it has
// written to about once a second, and all tenants once a minute. Every change
// to a tree is conditional on the tree's size, so nodes need no leader. If two
// nodes append at once, one of them reads the tree again.
//
// It rests on the storage for changes that are complete or absent, on package merkle
// for roots, and on package evidence for the formats and for the verifier of a bundle.
// Package notary gives it keys, tenants and anchors. Begin with [Ledger.Sequence], which
// grows a tree, then read [Ledger.Checkpoint] and [Ledger.Verify].
//
// # Invariants
//
// Verification rests on these rules, in place and offline. Each names a test that
// fails without it, here or in packages notary, evidence and test/tampering.
//
//  1. Heads only grow: a tree has, at the size of every head, the root of that head.
//     A tree that does not extend its newest head gets no leaf and no head.
//     (TestGuardsOfAppends)
//  2. Nothing begins twice: a tenant with a head, with leaves or with a signed deletion
//     gets no new tree. (TestTreeWithoutAHeadDoesNotBeginAgain)
//  3. Every entry has a valid MAC, whether it is new or imported, or a signed event says
//     that it was erased. A row without one is forged, and stays out of the tree.
//     (TestForgedEntryStaysOutOfTheTree)
//  4. The vault's tree is the only list of tenants, heads, deletions, erasures, keys and
//     restores. A leaf that names a missing row is tampering.
//     (TestDeletedTenantsStayDeleted, TestEveryChangeOfEveryLine)
//  5. A note that this vault did not make, or that is ahead of the database, stops
//     signing in every process until a person accepts a restore.
//     (TestSuspensionReachesEveryProcess, TestFork)
//  6. Rows do not contradict the log: a row has the highest revision that its entries
//     name, and a deletion is final. (TestHighestRevisionOrDeletionCounts)
//  7. The vault vouches only for what it has opened: the sweep opens a row before it
//     writes that the row expired. (TestSweepOpensWhatItDeletes)
//  8. Retention hides nothing: an entry without a valid MAC is forged, whatever its age.
//     (TestForgedEntriesDoNotExpire)
//  9. A crash explains the loss of reads that were acknowledged in the two seconds
//     before it, and of nothing else. (TestOlderReadsAreNotLostInACrash)
//  10. A report names what was compared. A note that cannot be compared has no verdict.
//     (TestIncomparableNoteHasNoVerdict)
//  11. A row that nothing seals puts no words into an entry, improves no verdict and
//     grants no right. A bundle has the MAC of the row, never a computed one.
//     (TestRowsAboutKeysDoNotSpeak, TestBundleIsNoOracle)
//  12. States only move forward: the row of a tree has a revision, heads have the newest
//     one, and a node remembers what it has seen. An older row is tampering, also at
//     the same size, or changes nothing.
//     (TestRowOfAnOpenImport, TestFormerSessionsAreFound, TestFormerReminderChangesNothing)
//  13. Verification does not believe itself: its progress says where to continue, and a
//     verification that is due and does not advance is an alarm within an hour.
//     (TestVerificationThatDoesNotAdvance)
package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// Store is the database of a ledger.
type Store interface {
	storage.TreeStorage
	storage.Follower
}

// Config configures a ledger. Fields are required unless their comment says
// otherwise.
type Config struct {
	Store Store
	// Name is the origin of the vault's tree and the name of the signers.
	Name string
	// Signers sign every note. During a key change there are two, the newer one
	// first.
	Signers []note.Signer
	// Keys verify current and earlier notes. Each signer needs one.
	Keys []note.Verifier
	// Mac returns a MAC with the tenant's key. For an entry, the data is
	// [evidence.Entry.AppendMacFields]. It returns ErrGone if the tenant does not
	// exist, and ErrTampered if its key cannot be read.
	Mac func(ctx context.Context, tenant uuid.UUID, data []byte) (evidence.Mac, error)
	// OtherMacs returns further valid MACs of the data, for a tenant whose key was
	// replaced. It may be nil.
	OtherMacs func(ctx context.Context, tenant uuid.UUID, data []byte) ([]evidence.Mac, error)
	// KnownType reports whether an entry may be about entities of a type. The MAC of a
	// read does not cover the type, so another text would be a stranger's. It may be nil.
	KnownType func(entityType string) bool
	// Tenants returns up to limit tenants that may have a log. They are ordered
	// by id and start after the given one.
	Tenants func(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error)

	// Stored returns an error if the signing keys in the database cannot be read,
	// or differ from the keys that this node uses. It may be nil.
	Stored func(ctx context.Context) error

	// Living calls a function for each tenant that exists or has keys, once or twice. It
	// may be nil.
	Living func(ctx context.Context, do func(tenant uuid.UUID) error) error

	// Compare starts a comparison of a tenant's rows with its log. It may be
	// nil.
	Compare func(ctx context.Context, tenant uuid.UUID) (Comparison, error)

	// Instance identifies the server and copy of the database. It may be nil.
	Instance func(ctx context.Context) (storage.Instance, error)
	Anchors  []Anchor
	// Alarm receives alarms, one call at a time. It may be nil.
	Alarm func(Alarm)
	// Refresh is called at the start of each round. It may call [Ledger.Use].
	// It may be nil.
	Refresh func(ctx context.Context) error
	Now     func() time.Time
}

// Comparison compares rows with the log entries about them. A verification
// passes it the entries in order.
type Comparison interface {
	// Entry receives an entry that the vault wrote. The index is -1 if the
	// entry is not in the tree yet.
	Entry(index int64, e *evidence.Entry)
	// Behind returns a finding for each row that is older than the log says.
	Behind(ctx context.Context) ([]evidence.Finding, error)
}

// Errors of a ledger.
var (
	// ErrSuspended means that no note is signed. The database is an older state
	// or another copy than the one in the newest note.
	ErrSuspended = errors.New("evidence: the database is a restored or copied one; accept the restore first")
	// ErrNotSuspended means that there is no restore to accept.
	ErrNotSuspended = errors.New("evidence: there is no restore to accept")
	// ErrNotSequenced means that an entry is not in the tree (yet).
	ErrNotSequenced = errors.New("evidence: the entry is not in the tree yet")
	// ErrGone is the error of Config.Mac for a deleted tenant.
	ErrGone = errors.New("evidence: the tenant is deleted")
	// ErrTampered means that the rows of a tree contradict each other.
	ErrTampered = errors.New("evidence: the tree was tampered with")
)

// Ledger keeps the trees of a vault. Its methods are safe for concurrent use.
type Ledger struct {
	c       Config
	pending Pending
	anchors []*anchored
	alarms  alarms
	signing atomic.Pointer[signing]
	failing atomic.Pointer[time.Time] // since when the verification of everything fails; nil if it does not

	mu     pace.Lock // guards vault, saw, looked and anchored.compared
	vault  vaultTree
	saw    watched                // the verification of everything, when it was last looked at
	looked *merkle.Frontier       // of the vault's tree, as far as its events were read
	gone   sync.RWMutex           // held with mu to change vault.tenants.deleted, so that either suffices to read it
	status atomic.Pointer[Status] // the last known
	rounds rounds

	treesMu sync.Mutex
	trees   bounded.Map[uuid.UUID, *cached]
	signed  bounded.Map[uuid.UUID, tenantNote]
	id      uuid.UUID           // of this node
	recent  map[uuid.UUID]int64 // the first leaf of each tree that was appended since the last look

	server struct {
		mu sync.Mutex
		at time.Time // when it was read
		is storage.Instance
	}
}

// instanceFor is how long the identity of the database server is cached.
const instanceFor = 5 * time.Second

// instance returns the identity of the database server.
func (l *Ledger) instance(ctx context.Context) (storage.Instance, error) {
	if l.c.Instance == nil {
		return storage.Instance{}, nil
	}
	s := &l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	now := l.c.Now()
	if !s.at.IsZero() && now.Sub(s.at) < instanceFor {
		return s.is, nil
	}
	is, err := l.c.Instance(ctx)
	if err == nil {
		s.is, s.at = is, now
	}
	return is, err
}

// Open returns a ledger. It reads the newest note, and begins the vault's tree
// if it does not exist. A restored or copied database is not an error here:
// [Ledger.Status] then has the reason why no notes are signed.
func Open(ctx context.Context, c Config) (*Ledger, error) {
	if err := evidence.CheckOrigin(c.Name); err != nil {
		return nil, err
	}
	for _, s := range c.Signers {
		if s.Name() != c.Name {
			return nil, fmt.Errorf("evidence: the signer is named %q, and the origin %q", s.Name(), c.Name)
		}
	}
	if len(c.Signers) == 0 || len(c.Keys) == 0 {
		return nil, errors.New("evidence: a signer and its key are required")
	}
	l := &Ledger{c: c, id: uuid.New(), mu: pace.NewLock(), recent: map[uuid.UUID]int64{}}
	l.Use(c.Signers, c.Keys)
	l.alarms.send, l.alarms.raised = c.Alarm, map[AlarmKind]int64{}
	l.status.Store(&Status{})
	l.rounds.begin()
	for _, a := range c.Anchors {
		of := &anchored{Anchor: a, keys: l.keys, now: c.Now}
		of.mayFollow = func(ctx context.Context, msg []byte) bool { return l.mayFollow(ctx, of, msg) }
		l.anchors = append(l.anchors, of)
	}
	l.mu.Lock()
	err := l.start(ctx)
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return l, nil
}

// signing holds the keys that a ledger uses.
type signing struct {
	signers []note.Signer
	keys    []note.Verifier
}

// Use replaces the signers and keys of the configuration.
func (l *Ledger) Use(signers []note.Signer, keys []note.Verifier) {
	l.signing.Store(&signing{signers, keys})
}

func (l *Ledger) signers() []note.Signer { return l.signing.Load().signers }

func (l *Ledger) keys() []note.Verifier { return l.signing.Load().keys }

// Close stops sending notes to anchors. It waits for notes and alarms that are
// being sent, until ctx ends.
func (l *Ledger) Close(ctx context.Context) error {
	l.rounds.close(ctx)
	for _, a := range l.anchors {
		if err := a.drain(ctx); err != nil {
			return err
		}
	}
	return l.alarms.Finish(ctx)
}

// Status is the state of a ledger.
type Status struct {
	Origin    string
	Size      int64  // of the vault's tree
	Note      []byte // the newest; nil before the first
	SignedAt  time.Time
	Suspended string // the reason why no notes are signed, or empty
	// Lag is the age of this node's oldest acknowledged entry that is not in a
	// tree. Pending is the number of such entries.
	Lag     time.Duration
	Pending int
	// Verified is the end of the last complete verification, by this node or
	// according to the vault's tree. VerifiedOK reports whether it found no
	// tampering.
	Verified   time.Time
	VerifiedOK bool
	Compared   string             // its summary, if this node did all of it
	Findings   []evidence.Finding // the tampering in that summary
	// LacksErasures reports whether the newest restore may lack erasures: see
	// [Ledger.ErasedAgain].
	LacksErasures bool
	// Alarms are the current alarms, newest first, at most maxShown. Raised
	// counts all alarms since the start, by kind.
	Alarms  []Alarm
	Raised  map[AlarmKind]int64
	Anchors []AnchorStatus
}

// Status returns the state of the ledger. It does not wait for the database:
// while the vault's tree is in use, it returns the previous state.
func (l *Ledger) Status() Status {
	if l.mu.TryLock() {
		l.setStatus()
		l.mu.Unlock()
	}
	s := *l.status.Load()
	s.Lag, s.Pending = l.pending.Lag(l.c.Now())
	s.Alarms, s.Raised = l.alarms.lasting()
	for _, a := range l.anchors {
		s.Anchors = append(s.Anchors, a.status())
	}
	return s
}

// setStatus stores the status. The caller holds mu.
func (l *Ledger) setStatus() {
	v := &l.vault
	now := Status{
		Origin: v.origin, Size: v.tree.Size, Note: v.note, SignedAt: v.signedAt, Suspended: v.suspended,
		Verified: v.verified, VerifiedOK: v.verifiedOK, Compared: v.compared, Findings: v.findings, LacksErasures: v.state.Lacks,
	}
	if p := &v.tenants.pass; p.done.After(now.Verified) {
		now.Verified, now.VerifiedOK, now.Compared, now.Findings = p.done, p.ok, "", nil
	}
	l.status.Store(&now)
}

// Alarm reports a problem that needs attention.
type Alarm struct {
	Kind   AlarmKind
	Tenant uuid.UUID // zero if the alarm is about the whole vault
	Entry  uuid.UUID // zero if the alarm is not about one entry
	// Verdict is set for AlarmTampered.
	Verdict evidence.Verdict
	Text    string
}

// AlarmKind is the kind of an alarm.
type AlarmKind string

// The kinds of alarms.
const (
	// AlarmTampered means that verification found tampering.
	AlarmTampered AlarmKind = "tampered"
	// AlarmMissing means that an acknowledged entry did not reach the tree in
	// time.
	AlarmMissing AlarmKind = "missing"
	// AlarmLag means that the tree is more than a minute behind the log.
	AlarmLag AlarmKind = "lag"
	// AlarmRestore means that the database is restored or copied.
	AlarmRestore AlarmKind = "restore"
	// AlarmForked means that the database contradicts a signed note.
	AlarmForked AlarmKind = "forked"
	// AlarmStalled means that the verification of everything, or the signing of
	// notes, has not advanced for almost an hour.
	AlarmStalled AlarmKind = "stalled"
	// AlarmAnchor means that an anchor does not respond.
	AlarmAnchor AlarmKind = "anchor"
)

// alarms sends each alarm once while it lasts. It sends in the background, so
// that the receiver may call the ledger.
type alarms struct {
	pace.Worker
	send   func(Alarm)
	sent   bounded.Map[Alarm, bool]
	shown  []Alarm // the newest of sent, newest first
	raised map[AlarmKind]int64
	queue  []Alarm
}

const (
	// maxAlarms is the maximum number of alarms that are remembered as sent.
	maxAlarms = 10_000
	// maxShown is the maximum number of alarms in a status.
	maxShown = 100
)

func (a *alarms) raise(alarm Alarm) {
	a.Lock()
	defer a.Unlock()
	if a.sent[alarm] {
		return
	}
	a.raised[alarm.Kind]++
	a.sent.Put(maxAlarms, alarm, true)
	a.shown = slices.Insert(a.shown[:min(len(a.shown), maxShown-1)], 0, alarm)
	if a.send == nil {
		return
	}
	a.queue = append(a.queue, alarm)
	a.Start(func() func() {
		if len(a.queue) == 0 {
			return nil
		}
		next := a.queue[0]
		a.queue = a.queue[1:]
		return func() { a.send(next) }
	})
}

// lasting returns the current alarms, newest first, and the number of all
// raised alarms by kind.
func (a *alarms) lasting() ([]Alarm, map[AlarmKind]int64) {
	a.Lock()
	defer a.Unlock()
	return slices.Clone(a.shown), maps.Clone(a.raised)
}

// over forgets the alarms of a kind about the whole vault. They are sent again
// if they recur.
func (a *alarms) over(kind AlarmKind) {
	is := func(alarm Alarm) bool { return alarm.Kind == kind && alarm.Tenant == uuid.UUID{} }
	a.Lock()
	defer a.Unlock()
	maps.DeleteFunc(a.sent, func(alarm Alarm, _ bool) bool { return is(alarm) })
	a.shown = slices.DeleteFunc(a.shown, is)
}

// cached is the last state of a tenant's tree that this node has seen.
type cached struct {
	size, revision int64
	frontier       *merkle.Frontier
}

const maxCached = 10_000

func (l *Ledger) cachedTree(tenant uuid.UUID) *cached {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	return l.trees[tenant]
}

func (l *Ledger) cacheTree(tenant uuid.UUID, f *merkle.Frontier, revision int64) {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	if known := l.trees[tenant]; known == nil || known.revision <= revision {
		l.trees.Put(maxCached, tenant, &cached{f.Size(), revision, f})
	}
}

// noteRecent remembers that leaves were appended to a tree.
func (l *Ledger) noteRecent(tenant uuid.UUID, from int64) {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	if first, ok := l.recent[tenant]; ok {
		from = min(first, from)
	}
	l.recent[tenant] = from
}

// usualFields is more than most entries need.
const usualFields = 512

// tree returns the stored tree of a tenant, or an empty tree if it does not
// exist.
func (l *Ledger) tree(ctx context.Context, tenant uuid.UUID) (storage.Tree, error) {
	all, err := l.c.Store.Trees(ctx, storage.TreeFilter{Tenants: []storage.ID{storage.ID(tenant)}})
	if err != nil || len(all) == 0 {
		return storage.Tree{Tenant: storage.ID(tenant)}, err
	}
	return all[0], nil
}

// maxAttempts limits how often a change to a tree is retried after another node
// was faster.
const maxAttempts = 50

// newest makes [storage.TreeStorage.Checkpoints] begin at the newest
// checkpoint.
const newest = math.MaxInt64
