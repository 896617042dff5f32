package core

import (
	"sync"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Pending collects the writes of a request inside Once, until they are committed
// together.
type Pending struct {
	// Leased means that the work has effects outside the database.
	Leased bool
	// Uses are the tokens that the response depends on.
	Uses TokenUses

	mu      sync.Mutex
	changes []pendingChange
	after   []func() // called after the changes are committed
}

// pendingChange is a held-back write, with the ring that sealed it.
type pendingChange struct {
	*storage.Change
	ring *seal.Ring
}

func (p *Pending) add(ch *storage.Change, ring *seal.Ring) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = append(p.changes, pendingChange{ch, ring})
}

// Changes returns the collected writes.
func (p *Pending) Changes() []*storage.Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*storage.Change, len(p.changes))
	for i := range p.changes {
		all[i] = p.changes[i].Change
	}
	return all
}

// afterwards registers f to be called after the changes are committed.
func (p *Pending) afterwards(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after = append(p.after, f)
}

// Committed calls the registered functions.
func (p *Pending) Committed() {
	p.mu.Lock()
	after := p.after
	p.after = nil
	p.mu.Unlock()
	for _, f := range after {
		f()
	}
}

// Change returns all writes as one change, to be written under the keys of op. The
// work may have taken longer than a change may wait, and cannot always be
// repeated. So Change seals the first writes again under keys that are not too
// old.
func (p *Pending) Change(op *Op) (*storage.Change, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ch := range p.changes {
		if err := op.Reseal(ch.Change, ch.ring); err != nil {
			return nil, err
		}
	}
	if len(p.changes) == 1 && !p.changes[0].Relaxed {
		return p.changes[0].Change, nil
	}
	all := op.Change()
	for _, ch := range p.changes {
		all.Merge(ch.Change)
	}
	return all, nil
}
