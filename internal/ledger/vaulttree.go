package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// vaultTree is the vault's own tree, as this node knows it. It never shrinks:
// the database must continue every state that a node has seen.
type vaultTree struct {
	tree     storage.Tree
	state    vaultState
	frontier *merkle.Frontier
	heads    map[uuid.UUID]head // the newest known to this node
	began    time.Time          // when the tree began

	origin   string
	signed   evidence.Checkpoint
	note     []byte
	signedAt time.Time

	suspended string
	ahead     []byte // the note that the database does not continue

	verified   time.Time
	verifiedOK bool
}

// head is a tenant's newest tree head.
type head struct {
	index, size int64
	state       evidence.Hash
}

func (v *vaultTree) status() Status {
	return Status{
		Origin: v.origin, Size: v.tree.Size, Note: v.note, SignedAt: v.signedAt, Suspended: v.suspended,
		Verified: v.verified, VerifiedOK: v.verifiedOK, LacksErasures: v.state.Lacks,
	}
}

// start loads the vault's tree, or begins it.
func (l *Ledger) start(ctx context.Context) error {
	for _, a := range l.anchors {
		a.kick(nil)
	}
	for attempt := 0; ; attempt++ {
		err := l.load(ctx)
		if errors.Is(err, ErrTampered) {
			l.vault = vaultTree{frontier: &merkle.Frontier{}, heads: map[uuid.UUID]head{}, origin: l.c.Name}
			l.suspend(AlarmForked, err.Error(), nil)
			return nil
		}
		if err == nil && l.vault.tree.State == nil {
			err = l.begin(ctx)
			if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
				continue
			}
		}
		if err != nil {
			return err
		}
		return l.recall(ctx)
	}
}

// load reads the vault's tree from the database.
func (l *Ledger) load(ctx context.Context) error {
	v := vaultTree{heads: map[uuid.UUID]head{}, verified: l.vault.verified, verifiedOK: l.vault.verifiedOK}
	var err error
	if v.tree, err = l.tree(ctx, uuid.UUID{}); err != nil {
		return err
	}
	if err := l.openState(ctx, &v.tree, &v.state); err != nil {
		return err
	}
	v.origin = evidence.OriginAfter(l.c.Name, v.state.Restores)
	if v.frontier, err = l.hashes(ctx, uuid.UUID{}).frontier(v.tree.Size); err != nil {
		return err
	}
	if v.tree.State != nil && v.frontier.Root() != merkle.Hash(v.tree.Root) {
		return fmt.Errorf("%w: the root of the vault's tree does not fit its leaves", ErrTampered)
	}
	l.vault = v
	return nil
}

// begin stores the first event of a new tree.
func (l *Ledger) begin(ctx context.Context) error {
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	l.vault.state.Instance = is.ID
	return l.push(ctx, []evidence.Event{{Kind: evidence.EventStarted, Origin: l.vault.origin, Instance: is.ID}}, true)
}

// headsToRecall is how many of the newest events are searched for heads when a
// node starts.
const headsToRecall = 4096

// recall reads when the tree began, the newest heads, and the newest note.
func (l *Ledger) recall(ctx context.Context) error {
	v := &l.vault
	first, err := l.c.Store.TreeEvents(ctx, 0, 1)
	if err != nil {
		return err
	}
	if len(first) == 1 {
		if e, err := evidence.ParseEvent(first[0].Body); err == nil {
			v.began = e.Time
		}
	}
	events, err := l.c.Store.TreeEvents(ctx, max(0, v.tree.Size-headsToRecall), v.tree.Size)
	if err != nil {
		return err
	}
	for _, e := range events {
		v.noteHead(e.N, e.Body)
	}
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	if v.state.Instance != is.ID {
		l.suspend(AlarmRestore, "the database is on another server than before", nil)
	}
	return l.recallNote(ctx, newest)
}

// recallNote reads the newest stored note below a size and compares it with the
// tree.
func (l *Ledger) recallNote(ctx context.Context, below int64) error {
	notes, err := l.c.Store.Checkpoints(ctx, below, 1)
	if err != nil || len(notes) == 0 {
		return err
	}
	c, err := evidence.OpenCheckpoint(notes[0].Note, l.keys()...)
	if err != nil {
		l.suspend(AlarmForked, "the newest note in the database is not signed by a known key", nil)
		return nil //nolint:nilerr // the ledger is suspended instead
	}
	if err := l.compare(ctx, c, notes[0].Note); err != nil {
		return err
	}
	if l.vault.suspended == "" && c.Origin == l.vault.origin {
		l.vault.signed, l.vault.note, l.vault.signedAt = *c, notes[0].Note, notes[0].At
	}
	return nil
}

// compare suspends the ledger if the tree does not continue a note. If a note
// is ahead of the tree, another node may have signed it. A tree is stored
// before its note, so compare then reads the tree again.
func (l *Ledger) compare(ctx context.Context, c *evidence.Checkpoint, msg []byte) error {
	v := &l.vault
	restores, err := evidence.Restores(l.c.Name, c.Origin)
	if err == nil && v.suspended == "" && (restores > v.state.Restores || c.Size > v.tree.Size) {
		if err := l.refresh(ctx); err != nil && !errors.Is(err, ErrSuspended) {
			return err
		}
	}
	switch {
	case err != nil:
		l.suspend(AlarmForked, "a note is about another log", msg)
		return nil //nolint:nilerr // the ledger is suspended instead
	case restores < v.state.Restores:
		return nil // a restore was accepted after this note
	case restores > v.state.Restores || c.Size > v.tree.Size:
		l.suspend(AlarmRestore, "the database is older than a note", msg)
		return nil
	case *c == v.signed:
		return nil
	}
	root, err := l.hashes(ctx, uuid.UUID{}).root(c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		l.suspend(AlarmForked, "the database contradicts a note", msg)
	}
	return nil
}

// suspend stops signing and raises an alarm.
func (l *Ledger) suspend(kind AlarmKind, why string, ahead []byte) {
	if l.vault.suspended == "" {
		l.vault.suspended, l.vault.ahead = why, ahead
	}
	l.alarms.raise(Alarm{Kind: kind, Text: why})
}

func (v *vaultTree) noteHead(n int64, body []byte) {
	e, err := evidence.ParseEvent(body)
	if err != nil {
		return
	}
	switch e.Kind {
	case evidence.EventHead:
		v.heads[e.Tenant] = head{n, e.Size, e.State}
	case evidence.EventTenantDeleted:
		delete(v.heads, e.Tenant)
	default:
	}
}

// refresh reads the events that other nodes have appended to the vault's tree.
func (l *Ledger) refresh(ctx context.Context) error {
	v := &l.vault
	tree, err := l.tree(ctx, uuid.UUID{})
	if err != nil {
		return err
	}
	var st vaultState
	if err := l.openState(ctx, &tree, &st); err != nil {
		return err
	}
	if tree.Size < v.tree.Size {
		l.suspend(AlarmRestore, "the database is older than what this node knows", v.note)
		return ErrSuspended
	}
	f, known := v.frontier.Clone(), v.tree.Size
	for f.Size() < tree.Size {
		from, to := f.Size(), min(tree.Size, f.Size()+maxStep)
		events, err := l.c.Store.TreeEvents(ctx, from, to)
		if err != nil {
			return err
		}
		for _, e := range events {
			f.Add(tlog.RecordHash(e.Body))
			v.noteHead(e.N, e.Body)
		}
		if f.Size() != to {
			return fmt.Errorf("%w: events are missing", ErrTampered)
		}
	}
	if f.Root() != merkle.Hash(tree.Root) {
		l.suspend(AlarmForked, fmt.Sprintf("the vault's tree does not continue the one of size %d", known), v.note)
		return ErrSuspended
	}
	v.frontier, v.tree, v.state = f, tree, st
	v.origin = evidence.OriginAfter(l.c.Name, st.Restores)
	return nil
}

// push appends events. Each event about the whole vault names the one before
// it.
func (l *Ledger) push(ctx context.Context, events []evidence.Event, ofVault bool) error {
	v := &l.vault
	f, st := v.frontier.Clone(), v.state
	nodes := nodesOf(f)
	c := &storage.TreeChange{Was: v.tree}
	now := l.c.Now().UTC()
	for i := range events {
		e := &events[i]
		e.Time = now
		if ofVault {
			e.Prev, st.Last = st.Last, f.Size()+1
		}
		body := e.Body()
		c.Events = append(c.Events, storage.TreeEvent{N: f.Size(), Body: body})
		f.Add(tlog.RecordHash(body))
	}
	c.Nodes = *nodes
	c.Tree = storage.Tree{Size: f.Size(), Root: storage.Key(f.Root())}
	var err error
	if c.Tree.State, err = l.sealState(ctx, &c.Tree, &st); err != nil {
		return err
	}
	if err := l.c.Store.WriteTree(ctx, c); err != nil {
		return err
	}
	f.Complete = nil
	v.frontier, v.tree, v.state = f, c.Tree, st
	for _, e := range c.Events {
		v.noteHead(e.N, e.Body)
	}
	return nil
}

// record appends events to the current tree and returns the index of the first.
// The function events returns the events for the tree as it is then. It may be
// called several times.
func (l *Ledger) record(ctx context.Context, ofVault bool, events func() []evidence.Event) (int64, error) {
	for attempt := 0; ; attempt++ {
		if l.vault.suspended != "" {
			return 0, ErrSuspended
		}
		if err := l.refresh(ctx); err != nil {
			return 0, err
		}
		if err := l.mayContinue(ctx); err != nil {
			return 0, err
		}
		all, index := events(), l.vault.tree.Size
		if len(all) == 0 {
			return index, nil
		}
		err := l.push(ctx, all, ofVault)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return index, err
	}
}

// Record appends an event about the whole vault: a changed signing key, the end
// of evidence, or a kind that a later version adds.
func (l *Ledger) Record(ctx context.Context, e evidence.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.record(ctx, true, func() []evidence.Event { return []evidence.Event{e} })
	return err
}

// started returns when the vault's tree began.
func (l *Ledger) started(context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vault.began, nil
}
