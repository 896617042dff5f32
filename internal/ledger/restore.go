package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// AcceptRestore accepts the current database although it does not continue the
// newest note, and ends the suspension of all nodes. The vault's tree continues
// with a new origin. Its first event there contains the notes of the anchors
// and the newest stored note. AcceptRestore returns the first note of the new
// origin.
func (l *Ledger) AcceptRestore(ctx context.Context, reason string) ([]byte, error) {
	if strings.TrimSpace(reason) == "" {
		return nil, errors.New("evidence: a restore needs a reason")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.setStatus()
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
	e, err := l.restored(ctx, reason, ahead)
	if err != nil {
		return nil, err
	}
	restores := v.state.Restores
	for _, text := range e.Notes { // never use an origin twice
		if c, err := evidence.OpenCheckpoint([]byte(text), l.keys()...); err == nil {
			if n, err := evidence.Restores(l.c.Name, c.Origin); err == nil {
				restores = max(restores, n)
			}
		}
	}
	v.state.Restores, v.state.Instance = restores+1, e.Instance
	v.state.Suspended, v.state.Ahead = "", nil
	v.state.Lacks = v.state.Lacks || ahead != nil
	v.origin = evidence.OriginAfter(l.c.Name, v.state.Restores)
	e.Origin = v.origin
	if err := l.push(ctx, []evidence.Event{*e}); err != nil {
		return nil, err
	}
	if err := l.reload(ctx); err != nil {
		return nil, err
	}
	if err := l.mayContinue(ctx); err != nil {
		return nil, err
	}
	return l.signTree(ctx, v.tree.Size)
}

// restored returns the event of an accepted restore.
func (l *Ledger) restored(ctx context.Context, reason string, ahead []byte) (*evidence.Event, error) {
	is, err := l.instance(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := l.c.Store.Checkpoints(ctx, storage.CheckpointQuery{Below: newest, Limit: 1})
	if err != nil {
		return nil, err
	}
	e := &evidence.Event{Kind: evidence.EventRestored, Reason: reason, Instance: is.ID}
	add := func(msg []byte) {
		if len(msg) > 0 && !slices.Contains(e.Notes, string(msg)) {
			e.Notes = append(e.Notes, string(msg))
		}
	}
	add(ahead)
	for _, a := range l.anchors {
		msg, _ := a.newest()
		add(msg)
	}
	for _, n := range notes {
		add(n.Note)
	}
	return e, nil
}
