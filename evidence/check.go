package evidence

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
)

// Checker verifies the log of a tenant. It implements [Log], and its methods
// never fail: what is wrong becomes a finding. Call Finish after the last part.
// Memory does not grow with the log.
type Checker struct {
	Report *Report // receives the findings
	// Key verifies the note. If it is nil, the caller knows the vault's tree, and has
	// verified the heads that it passes. Then these need no proofs, the log needs no
	// note, and leaves may follow the last head.
	Key note.Verifier
	// Vault is the vault's tree that events must be in, if there is no Key.
	Vault Checkpoint
	// Since, if not nil, is an earlier note of the vault or of the tenant that
	// the log must extend. It needs a Key.
	Since []byte

	signed bool // the note is genuine, or there is no key
	tenant uuid.UUID
	note   Checkpoint
	events struct{ want, have, last int64 }
	begun  Event
	closed Event // the end of the import
	pruned Event // the newest
	keys   []note.Verifier

	head   Event // the newest
	at     int64 // one more than its index; 0 before the first
	next   int64 // index of the next leaf
	gaps   gaps
	broken bool  // leaves are missing, so roots cannot be compared
	grew   bool  // the vault's tree has grown since the last head; a head must follow
	old    int64 // imported leaves

	leaves merkle.Frontier // of the tenant's tree
	vault  merkle.Frontier // of the vault's tree
	since  earlier
}

var _ Log = (*Checker)(nil)

func (c *Checker) find(index int64, id uuid.UUID, verdict Verdict) {
	c.Report.Add(Finding{Tenant: c.tenant, Index: index, EntryID: id, Verdict: verdict})
}

// findLeaf records a finding about a leaf.
func (c *Checker) findLeaf(l *Leaf, verdict Verdict) {
	f := Finding{Tenant: c.tenant, Index: l.N, EntryID: l.ID, Verdict: verdict, Entry: l.Entry}
	if l.text != nil {
		f.Entry = l.text.entry()
	}
	c.Report.Add(f)
}

// wrong records a finding that is not about an entry.
func (c *Checker) wrong(verdict Verdict) { c.find(-1, uuid.UUID{}, verdict) }

// Header implements [Log].
func (c *Checker) Header(h *Header) error {
	c.tenant, c.events.want, c.events.last = h.Tenant, int64(h.Events), -1
	c.Report.Tenants++
	if c.Key == nil {
		c.signed = true
		return nil
	}
	at, err := OpenCheckpoint(h.Note, c.Key)
	if err != nil {
		c.wrong(BadSignature)
		return nil //nolint:nilerr // a finding
	}
	if c.since.restores, err = Restores(c.Key.Name(), at.Origin); err != nil {
		c.wrong(Forked)
		return nil //nolint:nilerr // a finding
	}
	c.note, c.signed = *at, true
	c.Report.Origin, c.Report.Size, c.Report.Notes = at.Origin, at.Size, 1
	c.Report.Key = KeyName(c.Key)
	return nil
}

// Event implements [Log].
func (c *Checker) Event(p Proven) error {
	c.events.have++
	if !c.signed {
		return nil // there is nothing to check it against
	}
	e, err := c.open(&p)
	switch {
	case err != nil:
		c.wrong(Altered)
	case p.Index <= c.events.last:
		c.wrong(Reordered)
	default:
		c.events.last = p.Index
		c.event(p.Index, e)
	}
	return nil
}

// open returns a genuine event.
func (c *Checker) open(p *Proven) (*Event, error) {
	if c.Key == nil {
		return p.Open(&c.Vault)
	}
	return p.Open(&c.note)
}

// event processes a genuine event.
func (c *Checker) event(index int64, e *Event) {
	switch e.Kind {
	case EventRestored:
		c.Report.Restores = append(c.Report.Restores, Restore{Time: e.Time, Reason: e.Reason, Index: index, Origin: e.Origin})
	case EventKeyChanged:
		for _, text := range e.Keys {
			if key, err := note.NewVerifier(text); err == nil {
				c.keys = append(c.keys, key)
			}
		}
	default:
	}
	if e.Tenant != c.tenant {
		return
	}
	switch e.Kind {
	case EventBegun:
		if c.begun.Kind != "" { // a tree begins once
			c.wrong(Forked)
			return
		}
		c.begun = *e
	case EventImported:
		c.closed = *e
	case EventPruned:
		c.pruned = *e
	case EventLost:
		for _, id := range e.Entries {
			c.find(-1, id, LostRead)
		}
	case EventTenantDeleted:
		c.wrong(Forged) // a deleted tenant has no log
	default:
	}
}

// endEvents checks that no event is missing, and opens the earlier note.
func (c *Checker) endEvents() {
	if !c.signed || c.Key == nil {
		return
	}
	origin := c.Key.Name()
	if n := len(c.Report.Restores); n > 0 {
		origin = c.Report.Restores[n-1].Origin
	}
	if c.events.have < c.events.want || c.note.Origin != origin {
		c.wrong(Missing)
	} else if c.events.have > c.events.want {
		c.wrong(Forged)
	}
	c.since.open(c)
	c.since.compare(c, true)
	c.since.compare(c, false)
}

// Pruned implements [Log].
func (c *Checker) Pruned(below int64, roots []Hash) error {
	switch {
	case !c.signed:
	case c.next > 0:
		c.find(0, uuid.UUID{}, Reordered)
	case below > c.pruned.Below || c.leaves.AddRange(below, roots) != nil:
		c.find(0, uuid.UUID{}, Missing)
		c.next, c.broken = below, true
	default:
		c.next = below
		c.find(0, uuid.UUID{}, Expired)
		c.since.compare(c, true)
	}
	return nil
}

// Leaf implements [Log].
func (c *Checker) Leaf(l *Leaf) error {
	if !c.expects(l) {
		return nil
	}
	c.Report.Entries++
	at := time.UnixMilli(Millis(l.ID)).UTC()
	c.Report.cover(at, at)
	if !c.broken {
		c.leaves.Add(LeafHash(l.Kind, l.ID, l.C))
		c.since.compare(c, true)
	}
	if !c.allowed(l) {
		c.findLeaf(l, Forged)
		return nil
	}
	switch {
	case !l.hasEntry():
		verdict := Missing
		if l.Mac == nil && l.Erased == nil && Millis(l.ID) < c.pruned.Cutoff {
			verdict = Expired
		}
		c.findLeaf(l, verdict)
	case !l.isOf(l.ID):
		c.findLeaf(l, Altered)
	case l.Erased != nil:
		c.erased(l)
	case len(l.Mac) != len(Mac{}) || l.commit(c.tenant, Mac(l.Mac)) != l.C:
		c.findLeaf(l, Altered)
	}
	return nil
}

// expects reports whether the leaf is expected now.
func (c *Checker) expects(l *Leaf) bool {
	n := l.N
	switch {
	case !c.signed || n < 0:
		return false
	case n < c.next || c.grew:
		c.gaps.remove(n)
		c.findLeaf(l, Reordered)
		return false
	case n > c.next:
		c.gap(n)
	}
	c.next = n + 1
	return true
}

// gap records that the leaves before an index are missing.
func (c *Checker) gap(to int64) {
	c.gaps.add(c.next, to)
	c.next, c.broken = to, true
}

// allowed reports whether the tree may have a leaf of this kind.
func (c *Checker) allowed(l *Leaf) bool {
	if l.Kind != KindImported {
		return l.Kind.Valid()
	}
	c.old++
	return c.begun.Import
}

// erased checks an entry from which a person was removed.
func (c *Checker) erased(l *Leaf) {
	e, err := c.open(l.Erased)
	if err != nil || e.Kind != EventErased || e.Tenant != c.tenant || e.Entry != l.ID ||
		l.Mac != nil || l.commit(c.tenant, Mac{}) != e.After {
		c.findLeaf(l, Altered)
		return
	}
	c.findLeaf(l, Erased)
}

// Head implements [Log].
func (c *Checker) Head(index int64, body []byte) error {
	if !c.signed {
		return nil
	}
	e, err := ParseEvent(body)
	if err != nil || e.Kind != EventHead || e.Tenant != c.tenant {
		c.wrong(Altered)
		return nil //nolint:nilerr // a finding
	}
	if c.Key != nil {
		if index != c.vault.Size() {
			c.wrong(Reordered)
			return nil
		}
		c.vault.Add(tlog.RecordHash(body))
		c.since.compare(c, false)
	}
	if e.Prev != c.at {
		c.wrong(Missing)
	}
	c.compareHead(e)
	c.head, c.at, c.grew = *e, index+1, false
	return nil
}

// compareHead compares a head with the tree so far, and with an earlier note.
func (c *Checker) compareHead(e *Event) {
	if s := &c.since; s.opened && s.ofTenant && s.at.Size == e.Size {
		s.match(c, e.Root)
	}
	if e.Size > c.next { // the leaves that it covers are missing
		c.wrong(Truncated)
		c.gap(e.Size)
		return
	}
	switch {
	case c.broken || e.Size < c.pruned.Below && e.Size < c.next:
	case e.Size < c.head.Size || e.Size == c.next && e.Size > 0 && e.Root != c.leaves.Root():
		c.wrong(Forked)
		c.broken = true
	case e.Size < c.next: // leaves that no head covers
		c.find(e.Size, uuid.UUID{}, Forged)
		c.broken = true
	}
}

// Grow implements [Log].
func (c *Checker) Grow(size int64, hashes []Hash) error {
	if !c.signed || c.Key == nil {
		return nil
	}
	if c.grew = len(hashes) > 0 && c.vault.AddRange(size, hashes) == nil; !c.grew {
		c.wrong(Reordered)
	}
	c.since.compare(c, false)
	return nil
}

// Finish makes the checks that need the end of the log. The error says why a
// good log could not be compared with the earlier note.
func (c *Checker) Finish() error {
	for _, gap := range c.gaps.all {
		for n := gap.from; n < gap.to && n-gap.from <= MaxFindings; n++ {
			c.find(n, uuid.UUID{}, Missing)
		}
	}
	// If leaves were pruned, the count of the rest is a lower bound.
	if c.closed.Kind != "" && (c.old > c.closed.Count || c.old < c.closed.Count && c.pruned.Below == 0) && !c.broken {
		c.wrong(Forged)
	}
	if c.Key == nil || !c.signed {
		return nil
	}
	c.finishTrees()
	c.since.finish(c)
	return c.since.problem(c.Report)
}

func (c *Checker) finishTrees() {
	switch {
	case c.Report.tampered:
	case c.vault.Size() < c.note.Size:
		c.wrong(Truncated)
	case c.vault.Size() != c.note.Size || c.vault.Root() != c.note.Root:
		c.wrong(Altered)
	case c.at == 0:
		c.wrong(Missing) // every bundle has a head
	case c.next > c.head.Size:
		c.find(c.head.Size, uuid.UUID{}, Forged)
	}
}

// gap is a range of leaves that have not appeared yet.
type gap struct{ from, to int64 }

// gaps are the leaves that were skipped. A leaf that appears later is out of
// order; the others are missing.
type gaps struct{ all []gap }

// maxGaps limits the memory that a hostile bundle can use.
const maxGaps = 10_000

func (g *gaps) add(from, to int64) {
	if len(g.all) < maxGaps {
		g.all = append(g.all, gap{from, to})
	}
}

func (g *gaps) remove(n int64) {
	for i, one := range g.all {
		if n < one.from || n >= one.to {
			continue
		}
		rest := []gap{{one.from, n}, {n + 1, one.to}}
		g.all = append(append(g.all[:i:i], rest...), g.all[i+1:]...)
		return
	}
}
