package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// vaultTree is the vault's own tree, as this node knows it. It never shrinks:
// the database must continue every state that a node has seen.
type vaultTree struct {
	tree     storage.Tree
	state    vaultState
	frontier *merkle.Frontier
	tenants  tenants

	origin   string
	signed   evidence.Checkpoint
	note     []byte
	signedAt time.Time

	suspended string // the reason why nothing is signed
	ahead     []byte // the note that the database does not continue
	// blind means that the tree cannot be read, so that the heads of tenants are
	// unknown. Then no tree grows.
	blind bool

	verified   time.Time // the end of the last complete verification of this node
	verifiedOK bool
	compared   string // what it compared
	findings   []evidence.Finding
}

// start loads the vault's tree, or begins it. It compares the tree with the
// notes in the database and in the anchors.
func (l *Ledger) start(ctx context.Context) error {
	for _, a := range l.anchors {
		a.kick(nil)
	}
	for attempt := 0; ; attempt++ {
		err := l.load(ctx)
		if errors.Is(err, ErrTampered) {
			l.blind(AlarmForked, err.Error())
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
		if err := l.recall(ctx); err != nil {
			return err
		}
		if err := l.mayContinue(ctx); err != nil && !errors.Is(err, ErrSuspended) {
			return err
		}
		return nil
	}
}

// blind suspends a ledger that does not know its tree.
func (l *Ledger) blind(kind AlarmKind, why string) {
	l.looked = &merkle.Frontier{}
	l.set(&vaultTree{frontier: &merkle.Frontier{}, tenants: newTenants(), origin: l.c.Name, blind: true})
	l.suspend(kind, why, nil)
}

// load reads the vault's tree from the database: the newest summary, and the
// events after it. The root of the tree covers both.
func (l *Ledger) load(ctx context.Context) error {
	v := vaultTree{
		tenants: newTenants(), verified: l.vault.verified, verifiedOK: l.vault.verifiedOK, compared: l.vault.compared, findings: l.vault.findings,
	}
	var err error
	if v.tree, v.state, err = l.readVault(ctx); err != nil {
		return err
	}
	v.origin = evidence.OriginAfter(l.c.Name, v.state.Restores)
	if v.frontier, err = l.hashes(ctx, uuid.UUID{}).frontier(max(0, v.state.Summary-1)); err != nil {
		return err
	}
	if err := l.grow(ctx, &v, &v.tree, time.Time{}); err != nil {
		return err
	}
	if v.tree.State != nil && v.frontier.Root() != merkle.Hash(v.tree.Root) {
		return fmt.Errorf("%w: the root of the vault's tree does not fit its leaves", ErrTampered)
	}
	v.suspended, v.ahead = v.state.Suspended, v.state.Ahead
	l.set(&v)
	l.looked = v.frontier.Clone()
	if v.suspended != "" {
		l.alarms.raise(Alarm{Kind: AlarmRestore, Text: v.suspended})
	}
	return nil
}

// grow adds the events up to the size of a stored tree.
func (l *Ledger) grow(ctx context.Context, v *vaultTree, to *storage.Tree, now time.Time) error {
	for e, err := range l.events(ctx, storage.EventQuery{From: v.frontier.Size(), To: to.Size}) {
		if err != nil {
			return err
		}
		v.frontier.Add(tlog.RecordHash(e.Body))
		if err := v.tenants.apply(e, now); err != nil {
			return err
		}
	}
	if v.frontier.Size() != to.Size {
		return fmt.Errorf("%w: events are missing", ErrTampered)
	}
	return nil
}

// begin stores the first event of a new tree, unless an anchor has a note
// already.
func (l *Ledger) begin(ctx context.Context) error {
	over := time.After(anchorWait)
	for _, a := range l.anchors {
		a.wait(over)
		if msg, _ := a.newest(); msg != nil {
			l.blind(AlarmRestore, "the database has no log, and an anchor has a note of one, as after a restore")
			l.vault.ahead = msg
			return nil
		}
	}
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	l.vault.state.Instance = is.ID
	return l.push(ctx, []evidence.Event{{Kind: evidence.EventStarted, Origin: l.vault.origin, Instance: is.ID}})
}

// recall compares the server of the database and the newest stored note with the
// tree.
func (l *Ledger) recall(ctx context.Context) error {
	if l.vault.blind {
		return nil
	}
	is, err := l.instance(ctx)
	if err != nil {
		return err
	}
	if l.vault.state.Instance != is.ID {
		l.suspend(AlarmRestore, "the database is on another server than before, as after a restore", nil)
	}
	if !l.hasKeys(l.vault.state.Keys) {
		l.suspend(AlarmForked, "the log names a signing key that the database does not have, as after a restore", nil)
	}
	return l.recallNote(ctx, newest)
}

// hasKeys reports whether this node has public keys.
func (l *Ledger) hasKeys(all []string) bool {
	for _, text := range all {
		key, err := note.NewVerifier(text)
		same := func(k note.Verifier) bool { return k.Name() == key.Name() && k.KeyHash() == key.KeyHash() }
		if err != nil || !slices.ContainsFunc(l.keys(), same) {
			return false
		}
	}
	return true
}

// recallNote reads the newest stored note below a size and compares it with the
// tree.
func (l *Ledger) recallNote(ctx context.Context, below int64) error {
	notes, err := l.c.Store.Checkpoints(ctx, storage.CheckpointQuery{Below: below, Limit: 1})
	if err != nil || len(notes) == 0 {
		return err
	}
	c, err := evidence.OpenCheckpoint(notes[0].Note, l.keys()...)
	if err != nil {
		l.suspend(AlarmForked, "the newest note in the database is not signed by a known key", notes[0].Note)
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
		l.suspend(AlarmRestore, "the database is older than a note, as after a restore", msg)
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

// storeSuspension stores the reason why nothing is signed with the tree, so that
// other processes do not sign either. Only a restore that a person accepts
// removes it.
func (l *Ledger) storeSuspension(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &l.vault
	if v.suspended == "" || v.suspended == v.state.Suspended || v.blind {
		return nil
	}
	tree, st, err := l.readVault(ctx)
	if err != nil || tree.State == nil || st.Suspended != "" {
		return err
	}
	c := &storage.TreeChange{Was: tree, Tree: tree}
	st.Revision++
	st.Suspended, st.Ahead = v.suspended, v.ahead
	if c.Tree.State, err = l.sealState(ctx, &c.Tree, &st); err != nil {
		return err
	}
	if err := l.c.Store.WriteTree(ctx, c); err != nil && !errors.Is(err, storage.ErrStale) {
		return err
	}
	return nil // if another node was faster, the next round tries again
}

// resume ends the suspension of this node if another process has accepted the
// restore.
func (l *Ledger) resume(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.vault.suspended == "" {
		return nil
	}
	_, st, err := l.readVault(ctx)
	if err != nil || st.Restores <= l.vault.state.Restores {
		return err
	}
	return l.reload(ctx)
}

// reload reads the tree after a restore was accepted, and forgets what this node
// knew before.
func (l *Ledger) reload(ctx context.Context) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	l.treesMu.Lock()
	clear(l.trees)
	l.treesMu.Unlock()
	l.alarms.over(AlarmRestore)
	l.alarms.over(AlarmForked)
	for _, a := range l.anchors {
		a.compared = nil
	}
	return l.recall(ctx)
}

// learn is refresh for a node that only wants to know of deleted tenants.
func (l *Ledger) learn(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.vault.suspended != "" {
		return nil
	}
	err := l.refresh(ctx)
	if errors.Is(err, ErrSuspended) || errors.Is(err, ErrTampered) {
		return nil // there is an alarm about it
	}
	return err
}

// exists returns ErrGone if another node has deleted a tenant. It is called before an
// alarm about missing rows.
func (l *Ledger) exists(ctx context.Context, tenant uuid.UUID) error {
	if err := l.learn(ctx); err != nil {
		return err
	}
	if l.Deleted(tenant) {
		return ErrGone
	}
	return nil
}

// refresh reads the events that other nodes have appended to the vault's tree.
func (l *Ledger) refresh(ctx context.Context) error {
	v := &l.vault
	tree, st, err := l.readVault(ctx)
	if err != nil {
		return err
	}
	if tree.Size < v.tree.Size || st.Revision < v.state.Revision {
		l.suspend(AlarmRestore, "the database is older than what this node knows, as after a restore", v.note)
		return ErrSuspended
	}
	if st.Signed != v.state.Signed { // another node has signed a note
		l.rounds.hasSigned()
	}
	next := *v
	next.frontier, next.tenants = v.frontier.Clone(), v.tenants
	if tree.Size > v.tree.Size {
		next.tenants = v.tenants.clone()
	}
	if err := l.grow(ctx, &next, &tree, time.Now()); err != nil {
		if errors.Is(err, ErrTampered) {
			l.alarms.raise(Alarm{Kind: AlarmTampered, Verdict: evidence.Missing, Text: err.Error()})
		}
		return err
	}
	if next.frontier.Root() != merkle.Hash(tree.Root) {
		l.suspend(AlarmForked, fmt.Sprintf("the vault's tree does not continue the one of size %d", v.tree.Size), v.note)
		return ErrSuspended
	}
	next.tree, next.state, next.origin = tree, st, evidence.OriginAfter(l.c.Name, st.Restores)
	l.set(&next)
	if st.Suspended != "" {
		l.suspend(AlarmRestore, st.Suspended, st.Ahead)
		return ErrSuspended
	}
	return nil
}

// push appends events, and a summary if the newest one is far behind. Each head
// names the one before it. Its work does not grow with the number of tenants,
// except for a summary, which follows as many events as there are tenants.
func (l *Ledger) push(ctx context.Context, events []evidence.Event) error {
	v := &l.vault
	f, st := v.frontier.Clone(), v.state
	st.Revision++
	nodes := nodesOf(f)
	c := &storage.TreeChange{Was: v.tree}
	now, heads := l.c.Now().UTC(), map[uuid.UUID]int64{} // the next Prev of tenants with a head in events
	add := func(e *evidence.Event) {
		e.Time = now
		switch e.Kind {
		case evidence.EventHead:
			if e.Prev = heads[e.Tenant]; e.Prev == 0 {
				e.Prev = v.tenants.head(e.Tenant).index + 1 // 0 without a head
			}
			heads[e.Tenant] = f.Size() + 1
		case evidence.EventKeyChanged:
			st.Keys = e.Keys
		default:
		}
		stored := storage.TreeEvent{N: f.Size(), About: storage.ID(e.Tenant), Body: e.Body()}
		c.Events = append(c.Events, stored)
		f.Add(tlog.RecordHash(stored.Body))
	}
	for i := range events {
		add(&events[i])
	}
	// A node that starts reads about as many events as the newest summary has tenants.
	if f.Size()-st.Summary >= max(4096, int64(len(v.tenants.heads)+len(v.tenants.deleted)/8)) {
		st.Summary = f.Size() + 1
		known := v.tenants.clone()
		if err := known.applyAll(c.Events); err != nil {
			return err
		}
		add(&evidence.Event{Kind: evidence.EventSummary, Summary: known.encode()})
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
	l.gone.Lock()
	defer l.gone.Unlock()
	v.frontier, v.tree, v.state = f, c.Tree, st
	return v.tenants.applyAll(c.Events)
}

// record appends events to the current tree. The function events returns the
// events for the tree as it is then. It may be called several times.
func (l *Ledger) record(ctx context.Context, events func() []evidence.Event) error {
	for attempt := 0; ; attempt++ {
		if l.vault.suspended != "" {
			return ErrSuspended
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
		if err := l.mayContinue(ctx); err != nil {
			return err
		}
		all := events()
		if len(all) == 0 {
			return nil
		}
		err := l.push(ctx, all)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return err
	}
}

// Record appends events: about the whole vault, such as a changed signing key, or
// about a tenant.
func (l *Ledger) Record(ctx context.Context, events ...evidence.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record(ctx, func() []evidence.Event { return events })
}
