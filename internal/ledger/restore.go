package ledger

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// AcceptRestore accepts the current database although it does not continue the
// newest note. The vault's tree continues with a new origin. Its first event
// there contains both notes: the note ahead of the database and the newest
// stored note. AcceptRestore returns the first note of the new origin.
func (l *Ledger) AcceptRestore(ctx context.Context, reason string) ([]byte, error) {
	if strings.TrimSpace(reason) == "" {
		return nil, errors.New("evidence: a restore needs a reason")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.vault.suspended == "" {
		return nil, ErrNotSuspended
	}
	ahead := l.vault.ahead
	for attempt := 0; ; attempt++ {
		msg, err := l.acceptOnce(ctx, reason, ahead)
		if errors.Is(err, storage.ErrStale) && attempt < maxAttempts {
			continue
		}
		return msg, err
	}
}

func (l *Ledger) acceptOnce(ctx context.Context, reason string, ahead []byte) ([]byte, error) {
	if err := l.load(ctx); err != nil {
		return nil, err
	}
	v := &l.vault
	v.suspended, v.ahead = "accepting a restore", ahead
	e := evidence.Event{Kind: evidence.EventRestored, Reason: reason}
	restores := v.state.Restores
	if ahead != nil {
		v.state.Lacks = true
		e.Notes = append(e.Notes, string(ahead))
		if c, err := evidence.OpenCheckpoint(ahead, l.keys()...); err == nil {
			if n, err := evidence.Restores(l.c.Name, c.Origin); err == nil {
				restores = max(restores, n) // never use an origin twice
			}
		}
	}
	notes, err := l.c.Store.Checkpoints(ctx, newest, 1)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		e.Notes = append(e.Notes, string(n.Note))
	}
	is, err := l.instance(ctx)
	if err != nil {
		return nil, err
	}
	v.state.Restores, v.state.Instance = restores+1, is.ID
	v.origin = evidence.OriginAfter(l.c.Name, v.state.Restores)
	e.Origin, e.Instance = v.origin, is.ID
	if err := l.push(ctx, []evidence.Event{e}, true); err != nil {
		return nil, err
	}
	l.treesMu.Lock()
	clear(l.trees)
	l.treesMu.Unlock()
	v.suspended, v.ahead = "", nil
	l.alarms.over(AlarmRestore)
	l.alarms.over(AlarmForked)
	for _, a := range l.anchors {
		a.compared = evidence.Checkpoint{}
	}
	if err := l.recall(ctx); err != nil {
		return nil, err
	}
	return l.signTree(ctx)
}
