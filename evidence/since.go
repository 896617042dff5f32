package evidence

import (
	"fmt"

	"github.com/google/uuid"
)

// earlier is a note whose log the bundle must extend.
type earlier struct {
	restores int // restores that the newest note counts

	opened   bool
	ofTenant bool
	at       Checkpoint
	past     int // restores that the earlier note counts
	compared bool
	excused  bool // a restore removed entries that the earlier note covers
	err      error
}

// open reads the earlier note. It must be signed by the key, or by a key from
// a genuine event.
func (s *earlier) open(v *Checker) {
	if len(v.Since) == 0 {
		return
	}
	c, err := OpenCheckpoint(v.Since, append(v.keys, v.Key)...)
	if err != nil {
		s.err = fmt.Errorf("evidence: the earlier note: %w", err)
		return
	}
	origin, tenant := splitOrigin(c.Origin)
	if s.past, err = Restores(v.Key.Name(), origin); err != nil {
		s.err = fmt.Errorf("evidence: the earlier note: %w", err)
		return
	}
	s.ofTenant = tenant != (uuid.UUID{})
	if s.ofTenant && tenant != v.tenant {
		s.err = fmt.Errorf("evidence: the earlier note is about another tenant")
		return
	}
	s.opened, s.at = true, *c
	v.Report.Notes++
	next, ok := v.Report.NextRestore(v.Key.Name(), s.past)
	s.excused = ok && !s.ofTenant && c.Size > next.Index
}

// compare compares the note with the tenant's or the vault's tree, which has
// just grown.
func (s *earlier) compare(v *Checker, ofTenant bool) {
	if !s.opened || s.ofTenant != ofTenant {
		return
	}
	tree := &v.vault
	if ofTenant {
		tree = &v.leaves
	}
	if tree.Size() == s.at.Size {
		s.match(v, tree.Root())
	}
}

// match compares the note with the root of its tree at its size.
func (s *earlier) match(v *Checker, root Hash) {
	if s.compared || s.excused {
		return
	}
	s.compared = true
	switch {
	case root == s.at.Root:
	case s.past < s.restores:
		s.compared = false // a restore may have removed entries that the note covers
	default:
		v.wrong(Forked)
	}
}

// finish records a finding if the note is ahead of the bundle.
func (s *earlier) finish(v *Checker) {
	size := v.note.Size
	if s.ofTenant {
		size = v.head.Size
	}
	if !s.opened || s.compared || s.excused || s.at.Size <= size || s.past != s.restores {
		return
	}
	s.compared = true
	v.wrong(Truncated)
}

// problem returns the reason why a good bundle could not be compared with the
// earlier note.
func (s *earlier) problem(r *Report) error {
	switch {
	case s.compared || s.excused || !r.OK():
		return nil
	case s.err != nil:
		return s.err
	case !s.opened:
		return nil
	default:
		return fmt.Errorf("%w: the bundle does not reach back to the earlier note of size %d", ErrCannotTell, s.at.Size)
	}
}
