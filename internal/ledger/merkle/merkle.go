// Package merkle has operations on RFC 6962 trees that
// golang.org/x/mod/sumdb/tlog lacks: growing a tree leaf by leaf without
// keeping its leaves, and listing the subtrees that cover a range.
package merkle

import (
	"crypto/sha256"
	"errors"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is the hash of a leaf or of a subtree.
type Hash = tlog.Hash

// Subtree is the complete subtree over the leaves from N<<Level up to, but
// not including, (N+1)<<Level.
type Subtree struct {
	Level int
	N     int64
}

// Cover returns the largest complete subtrees that cover the leaves from one
// index up to, but not including, another. They are in tree order.
func Cover(from, to int64) []Subtree {
	var all []Subtree
	for from < to {
		level := bits.Len64(uint64(to-from)) - 1
		if from > 0 {
			level = min(level, bits.TrailingZeros64(uint64(from)))
		}
		all = append(all, Subtree{Level: level, N: from >> level})
		from += 1 << level
	}
	return all
}

// Frontier is a tree that keeps only the roots of its largest complete
// subtrees. The zero value is the empty tree.
type Frontier struct {
	// Complete, if not nil, is called for each subtree that becomes complete.
	Complete func(Subtree, Hash)

	size  int64
	roots []Hash // largest subtree first
}

// Size returns the number of leaves.
func (f *Frontier) Size() int64 { return f.size }

// Clone returns an independent copy without the hook.
func (f *Frontier) Clone() *Frontier {
	return &Frontier{size: f.size, roots: slices.Clone(f.roots)}
}

// Add appends a leaf.
func (f *Frontier) Add(leaf Hash) { f.merge(0, leaf) }

var errMisfit = errors.New("merkle: a subtree does not fit here")

// maxLevel is the maximum height of a tree, so that sizes cannot overflow.
const maxLevel = 60

// AddSubtree appends a complete subtree by its root. The size of the tree
// must be a multiple of the size of the subtree.
func (f *Frontier) AddSubtree(level int, root Hash) error {
	if level < 0 || level > maxLevel || f.size&(1<<level-1) != 0 || f.size > 1<<maxLevel {
		return errMisfit
	}
	f.merge(level, root)
	return nil
}

// AddRange appends the leaves up to a size, by the roots of the subtrees from
// [Cover].
func (f *Frontier) AddRange(to int64, roots []Hash) error {
	if to < f.size || to > 1<<maxLevel {
		return errMisfit
	}
	cover := Cover(f.size, to)
	if len(cover) != len(roots) {
		return errMisfit
	}
	for i, root := range roots {
		if err := f.AddSubtree(cover[i].Level, root); err != nil {
			return err
		}
	}
	return nil
}

func (f *Frontier) merge(level int, h Hash) {
	f.note(level, f.size>>level, h)
	f.size += 1 << level
	for ; f.size>>level&1 == 0; level++ {
		last := len(f.roots) - 1
		h = tlog.NodeHash(f.roots[last], h)
		f.roots = f.roots[:last]
		f.note(level+1, f.size>>(level+1)-1, h)
	}
	f.roots = append(f.roots, h)
}

// note reports a complete subtree.
func (f *Frontier) note(level int, n int64, h Hash) {
	if f.Complete != nil {
		f.Complete(Subtree{level, n}, h)
	}
}

// Root returns the root of the tree.
func (f *Frontier) Root() Hash {
	if len(f.roots) == 0 {
		return sha256.Sum256(nil)
	}
	h := f.roots[len(f.roots)-1]
	for i := len(f.roots) - 2; i >= 0; i-- {
		h = tlog.NodeHash(f.roots[i], h)
	}
	return h
}
