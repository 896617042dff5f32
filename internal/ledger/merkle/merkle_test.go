package merkle

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func leaf(n int64) Hash {
	return tlog.RecordHash(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// naive is the definition of RFC 6962, section 2.1.
func naive(from, to int64) Hash {
	switch to - from {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaf(from)
	}
	k := int64(1)
	for k*2 < to-from {
		k *= 2
	}
	return tlog.NodeHash(naive(from, from+k), naive(from+k, to))
}

func TestFrontierEqualsTheDefinition(t *testing.T) {
	t.Parallel()
	var f Frontier
	for n := range int64(300) {
		if f.Root() != naive(0, n) || f.Size() != n {
			t.Fatalf("the root of %d leaves differs", n)
		}
		f.Add(leaf(n))
	}
}

func TestCoverAndAddRange(t *testing.T) {
	t.Parallel()
	for from := range int64(70) {
		for to := from; to < 140; to += 7 {
			var f Frontier
			for n := range from {
				f.Add(leaf(n))
			}
			var roots []Hash
			next := from
			for _, s := range Cover(from, to) {
				if s.N<<s.Level != next {
					t.Fatalf("Cover(%d, %d) has a gap at %d", from, to, next)
				}
				next = s.N<<s.Level + 1<<s.Level
				roots = append(roots, naive(s.N<<s.Level, next))
			}
			if err := f.AddRange(to, roots); err != nil || next != to || f.Root() != naive(0, to) {
				t.Fatalf("the root of %d leaves, from %d on by subtrees, differs: %v", to, from, err)
			}
		}
	}
}

func TestAddRangeRefusesWrongRanges(t *testing.T) {
	t.Parallel()
	var f Frontier
	f.Add(leaf(0))
	for name, err := range map[string]error{
		"backwards":       f.AddRange(0, nil),
		"too few":         f.AddRange(3, []Hash{leaf(1)}),
		"too many":        f.AddRange(2, []Hash{leaf(1), leaf(2)}),
		"too high":        f.AddRange(1<<62, nil),
		"level":           f.AddSubtree(-1, leaf(1)),
		"level unaligned": f.AddSubtree(1, leaf(1)),
		"level too high":  f.AddSubtree(63, leaf(1)),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestCompleteReportsEverySubtree(t *testing.T) {
	t.Parallel()
	got := map[Subtree]Hash{}
	f := Frontier{Complete: func(s Subtree, h Hash) { got[s] = h }}
	for n := range int64(37) {
		f.Add(leaf(n))
	}
	want := map[Subtree]Hash{}
	for level := range 6 {
		for n := int64(0); (n+1)<<level <= 37; n++ {
			want[Subtree{level, n}] = naive(n<<level, (n+1)<<level)
		}
	}
	must.Same(t, "roots", want, got)
	must.Same(t, "how many roots are kept", len(Cover(0, 37)), len(f.roots))
}
