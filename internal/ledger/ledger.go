// Package ledger keeps the Merkle trees over the audit log: it sequences entries,
// signs checkpoints, hands them to anchors, and verifies what the database holds.
//
// Writers do not wait for it. A node sequences the tenants it has written to about
// once a second, and all tenants once a minute. Every change of a tree is guarded
// by the tree's size, so that nodes need no leader: of two that append at once, one
// reads again.
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
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// Store is the database of a ledger.
type Store interface {
	storage.TreeStorage
	storage.Follower
}

// Config says how a ledger works. Fields without a remark are required.
type Config struct {
	Store Store
	// Name is the origin of the vault's tree, and the name of the signers.
	Name string
	// Signers sign every note. During a change of keys there are two, the newer
	// one first.
	Signers []note.Signer
	// Keys verify notes of now and earlier. Each signer needs one.
	Keys []note.Verifier
	// Mac returns a keyed hash under the key of a tenant. For an entry, the data is
	// [evidence.Entry.AppendMacFields].
	Mac func(ctx context.Context, tenant uuid.UUID, data []byte) (evidence.Mac, error)
	// Tenants returns up to limit tenants that may have a log, in the order of
	// their ids, after the given one.
	Tenants func(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error)

	// Compare begins to compare the rows of a tenant with its log. It may be nil.
	Compare func(tenant uuid.UUID) Comparison

	// Instance tells one copy of the database from another. It may be nil.
	Instance func(ctx context.Context) (storage.Instance, error)
	Anchors  []Anchor
	// Alarm is called when something is wrong, never twice at once. It may be nil.
	Alarm func(Alarm)
	// Refresh is called at the start of each round, and may call [Ledger.Use]. It may
	// be nil.
	Refresh func(ctx context.Context) error
	// Published is called with every new note. It must not call the ledger, and may
	// be nil.
	Published func(msg []byte)
	Now       func() time.Time
}

// Comparison compares the rows that a log is about with the log. A verification
// shows it the entries in their order.
type Comparison interface {
	// Entry takes in an entry that the vault wrote. The index is -1 for an entry
	// that is not in the tree yet.
	Entry(index int64, e *evidence.Entry)
	// Behind returns a finding for each row that is older than the log says.
	Behind(ctx context.Context) ([]evidence.Finding, error)
}

// Errors of a ledger, for errors.Is.
var (
	// ErrSuspended means that no note is signed because the database is an older
	// or another copy than the one that the newest note is about.
	ErrSuspended = errors.New("evidence: the database is a restored or copied one; accept the restore first")
	// ErrNotSuspended means that there is no restore to accept.
	ErrNotSuspended = errors.New("evidence: there is no restore to accept")
	// ErrNotSequenced means that an entry is not in the tree, or not yet.
	ErrNotSequenced = errors.New("evidence: the entry is not in the tree yet")
	// ErrGone is what Config.Mac returns for a tenant that is deleted.
	ErrGone = errors.New("evidence: the tenant is deleted")
	// ErrTampered means that the rows of a tree contradict each other.
	ErrTampered = errors.New("evidence: the tree was tampered with")
)

// Ledger keeps the trees of a vault. Its methods are safe for concurrent use.
type Ledger struct {
	c       Config
	pending pending
	anchors []*anchored
	alarms  alarms
	signing atomic.Pointer[signing]

	mu     sync.Mutex // held while the vault's tree is in use
	vault  vaultTree
	status atomic.Pointer[Status] // as last asked for

	treesMu sync.Mutex
	trees   map[uuid.UUID]*cached

	server struct {
		mu sync.Mutex
		at time.Time // when it was read
		is storage.Instance
	}
}

// instanceFor is for how long the server of the database is believed to be the same.
const instanceFor = 5 * time.Second

// instance returns the server that the database is on.
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

// Open returns a ledger. It reads the newest note, and begins the vault's tree if
// there is none. A database that is older than an anchor, or another copy, does not
// fail: see [Ledger.Status].
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
	l := &Ledger{c: c, trees: map[uuid.UUID]*cached{}}
	l.Use(c.Signers, c.Keys)
	l.alarms.send = c.Alarm
	l.status.Store(&Status{})
	for _, a := range c.Anchors {
		l.anchors = append(l.anchors, &anchored{Anchor: a, keys: l.keys, now: c.Now})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.start(ctx)
}

// signing are the keys of a ledger.
type signing struct {
	signers []note.Signer
	keys    []note.Verifier
}

// Use replaces the signers and the keys of the configuration.
func (l *Ledger) Use(signers []note.Signer, keys []note.Verifier) {
	l.signing.Store(&signing{signers, keys})
}

func (l *Ledger) signers() []note.Signer { return l.signing.Load().signers }

func (l *Ledger) keys() []note.Verifier { return l.signing.Load().keys }

// Close stops handing notes to anchors, and waits for notes and alarms on their
// way, but no longer than the context says.
func (l *Ledger) Close(ctx context.Context) error {
	for _, a := range l.anchors {
		if err := a.drain(ctx); err != nil {
			return err
		}
	}
	return l.alarms.wait(ctx)
}

// Status is the state of a ledger.
type Status struct {
	Origin    string
	Size      int64  // of the vault's tree
	Note      []byte // the newest one, nil if there is none yet
	SignedAt  time.Time
	Suspended string // why nothing is signed; empty if notes are signed
	// Lag is the age of the oldest entry of this node that is not in a tree.
	Lag     time.Duration
	Pending int
	// Verified is when a verification of everything last ended, and VerifiedOK
	// whether it found no tampering.
	Verified   time.Time
	VerifiedOK bool
	// LacksErasures says that the newest restore may lack erasures: see
	// [Ledger.ErasedAgain].
	LacksErasures bool
	// Alarms are those that last, oldest first, up to maxShown. Raised counts all of
	// them by kind.
	Alarms  []Alarm
	Raised  map[AlarmKind]int64
	Anchors []AnchorStatus
}

// Status returns the state of the ledger. It does not wait for the database: while
// the vault's tree is in use, it returns the state from before.
func (l *Ledger) Status() Status {
	if l.mu.TryLock() {
		now := l.vault.status()
		l.mu.Unlock()
		l.status.Store(&now)
	}
	s := *l.status.Load()
	s.Lag, s.Pending = l.pending.lag(l.c.Now())
	s.Alarms, s.Raised = l.alarms.lasting()
	for _, a := range l.anchors {
		s.Anchors = append(s.Anchors, a.status())
	}
	return s
}

// Alarm reports something that somebody should look at.
type Alarm struct {
	Kind   AlarmKind
	Tenant uuid.UUID // zero if it is about the whole vault
	Entry  uuid.UUID // zero if it is not about one
	// Verdict is set for AlarmTampered.
	Verdict evidence.Verdict
	Text    string
}

// AlarmKind is the sort of an alarm.
type AlarmKind string

// The sorts of alarms.
const (
	// AlarmTampered means that verification found tampering.
	AlarmTampered AlarmKind = "tampered"
	// AlarmMissing means that an acknowledged entry has not come into the tree.
	AlarmMissing AlarmKind = "missing"
	// AlarmLag means that the tree is more than a minute behind the log.
	AlarmLag AlarmKind = "lag"
	// AlarmRestore means that the database is a restored or copied one.
	AlarmRestore AlarmKind = "restore"
	// AlarmForked means that the database contradicts a signed note.
	AlarmForked AlarmKind = "forked"
	// AlarmAnchor means that an anchor does not respond.
	AlarmAnchor AlarmKind = "anchor"
)

// alarms sends each alarm once as long as it lasts, in the background: whoever gets
// one may ask the ledger about it.
type alarms struct {
	mu     sync.Mutex
	send   func(Alarm)
	sent   map[Alarm]bool
	shown  []Alarm // of those, the oldest
	raised map[AlarmKind]int64
	queue  []Alarm
	busy   chan struct{} // closed when the queue is empty; nil when it is
}

const (
	// maxAlarms bounds how many alarms are remembered as sent.
	maxAlarms = 10_000
	// maxShown bounds how many alarms a status lists.
	maxShown = 100
)

func (a *alarms) raise(alarm Alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent[alarm] {
		return
	}
	if a.sent == nil || len(a.sent) >= maxAlarms {
		a.sent = map[Alarm]bool{}
	}
	if a.raised == nil {
		a.raised = map[AlarmKind]int64{}
	}
	a.raised[alarm.Kind]++
	if a.sent[alarm] = true; len(a.shown) < maxShown {
		a.shown = append(a.shown, alarm)
	}
	if a.send == nil {
		return
	}
	a.queue = append(a.queue, alarm)
	if a.busy == nil {
		a.busy = make(chan struct{})
		go a.deliver()
	}
}

// lasting returns the alarms that are not over, oldest first, and counts all that
// were raised.
func (a *alarms) lasting() ([]Alarm, map[AlarmKind]int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.shown), maps.Clone(a.raised)
}

func (a *alarms) deliver() {
	for {
		a.mu.Lock()
		if len(a.queue) == 0 {
			close(a.busy)
			a.busy = nil
			a.mu.Unlock()
			return
		}
		next := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
		a.send(next)
	}
}

// wait waits until all alarms are sent.
func (a *alarms) wait(ctx context.Context) error {
	a.mu.Lock()
	busy := a.busy
	a.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over forgets alarms of a kind about the whole vault, so that they are sent when
// they come again.
func (a *alarms) over(kind AlarmKind) {
	is := func(alarm Alarm) bool { return alarm.Kind == kind && alarm.Tenant == uuid.UUID{} }
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.sent, func(alarm Alarm, _ bool) bool { return is(alarm) })
	a.shown = slices.DeleteFunc(a.shown, is)
}

// cached is a tenant's tree as this node last saw it.
type cached struct {
	size     int64
	frontier *merkle.Frontier
}

const maxCached = 10_000

func (l *Ledger) cachedTree(tenant uuid.UUID) *cached {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	return l.trees[tenant]
}

func (l *Ledger) cacheTree(tenant uuid.UUID, f *merkle.Frontier) {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	if len(l.trees) >= maxCached {
		clear(l.trees)
	}
	l.trees[tenant] = &cached{f.Size(), f}
}

func (l *Ledger) forgetTree(tenant uuid.UUID) {
	l.treesMu.Lock()
	defer l.treesMu.Unlock()
	delete(l.trees, tenant)
}

// mac returns the keyed hash of an entry.
func (l *Ledger) mac(ctx context.Context, tenant uuid.UUID, e *evidence.Entry) (evidence.Mac, error) {
	return l.c.Mac(ctx, tenant, e.AppendMacFields(nil))
}

// tree returns the stored tree of a tenant, which may not exist.
func (l *Ledger) tree(ctx context.Context, tenant uuid.UUID) (storage.Tree, error) {
	all, err := l.c.Store.Trees(ctx, storage.TreeFilter{Tenants: []storage.ID{storage.ID(tenant)}})
	if err != nil || len(all) == 0 {
		return storage.Tree{Tenant: storage.ID(tenant)}, err
	}
	return all[0], nil
}

// maxAttempts bounds how often a change of a tree is tried again after another
// node was faster.
const maxAttempts = 50

// newest asks [storage.TreeStorage.Checkpoints] for the newest.
const newest = math.MaxInt64
