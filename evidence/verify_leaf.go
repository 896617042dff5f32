package evidence

import (
	"github.com/google/uuid"
)

// leafLine checks a leaf, or the roots that replace pruned leaves.
func (v *verification) leafLine(b []byte) {
	var l leafLine
	var p prunedLine
	plain := scanLeaf(b, &l)
	if !plain {
		l = leafLine{}
	}
	switch {
	case plain || decode(b, &l) && l.N >= 0:
		if v.place(l.N, l.ID) {
			v.leaf(&l)
		}
	case decode(b, &p) && p.N == 0 && p.Pruned > 0:
		v.prunedLine(&p)
	default:
		v.find(v.next, uuid.UUID{}, Altered)
		v.next++
	}
}

// place reports whether the leaf with this index is expected now.
func (v *verification) place(n int64, id uuid.UUID) bool {
	switch {
	case !v.signed:
		return false
	case n >= v.head.Size:
		v.find(n, id, Forged)
		return false
	case n < v.next:
		v.gaps.remove(n)
		v.find(n, id, Reordered)
		return false
	case n > v.next:
		v.gaps.add(v.next, n)
	}
	v.next = n + 1
	return true
}

// leaf checks a leaf in its position.
func (v *verification) leaf(l *leafLine) {
	v.report.Entries++
	v.leaves.Add(LeafHash(l.Kind, l.ID, l.C))
	v.since.compare(v, true)
	switch {
	case l.Entry == nil:
		verdict := Missing
		if l.Mac == nil && l.Erased == nil && Millis(l.ID) < v.pruned.Cutoff {
			verdict = Expired
		}
		v.find(l.N, l.ID, verdict)
	case l.Entry.ID != l.ID.String():
		v.find(l.N, l.ID, Altered)
	case l.Erased != nil:
		v.erased(l)
	case len(l.Mac) != len(Mac{}) || l.Entry.commit(v.tenant, Mac(l.Mac)) != l.C:
		v.find(l.N, l.ID, Altered)
	}
}

// erased checks an entry from which a person was removed.
func (v *verification) erased(l *leafLine) {
	e, err := l.Erased.Open(&v.note)
	if err != nil || e.Kind != EventErased || e.Tenant != v.tenant || e.Entry != l.ID ||
		l.Mac != nil || l.Entry.commit(v.tenant, Mac{}) != e.After {
		v.find(l.N, l.ID, Altered)
		return
	}
	v.find(l.N, l.ID, Erased)
}

// prunedLine processes the roots of pruned leaves.
func (v *verification) prunedLine(p *prunedLine) {
	if !v.signed {
		return
	}
	if v.next > 0 {
		v.find(0, uuid.UUID{}, Reordered)
		return
	}
	if p.Pruned > v.pruned.Below || p.Pruned > v.head.Size || v.leaves.AddRange(p.Pruned, p.Roots) != nil {
		v.find(0, uuid.UUID{}, Missing)
		v.next = min(p.Pruned, v.head.Size)
		return
	}
	v.next = p.Pruned
	v.find(0, uuid.UUID{}, Expired)
	v.since.compare(v, true)
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
