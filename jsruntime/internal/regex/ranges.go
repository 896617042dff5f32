package regex

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// runeRange is the range of characters from lo to hi.
type runeRange struct{ lo, hi rune }

// normal sorts ranges and joins adjacent ones.
func normal(ranges []runeRange) []runeRange {
	slices.SortFunc(ranges, func(a, b runeRange) int { return cmp.Compare(a.lo, b.lo) })
	var out []runeRange
	for _, r := range ranges {
		if n := len(out); n > 0 && out[n-1].hi >= r.lo-1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// complement returns all other characters, including lone surrogates, as in
// JavaScript.
func complement(ranges []runeRange) []runeRange {
	var out []runeRange
	next := rune(0)
	for _, r := range append(slices.Clip(ranges), runeRange{utf8.MaxRune + 1, utf8.MaxRune + 1}) {
		if next < r.lo {
			out = append(out, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	return out
}

// intersect returns the characters that are in both. The ranges must be normal.
func intersect(a, b []runeRange) []runeRange {
	var out []runeRange
	for len(a) > 0 && len(b) > 0 {
		lo, hi := max(a[0].lo, b[0].lo), min(a[0].hi, b[0].hi)
		if lo <= hi {
			out = append(out, runeRange{lo, hi})
		}
		if a[0].hi < b[0].hi {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// foldable covers all characters that have a case.
var foldable = []runeRange{{'A', 0x24ff}, {0x2c00, 0x2dff}, {0xa640, 0xa7ff}, {0xab30, 0xabbf}, {0xfb00, 0xffff}, {0x10400, 0x1e9ff}}

// set is a set of characters with fast lookup.
type set struct {
	low    [4]uint64 // the first 256
	ranges []runeRange
}

// newSet makes a set from normal ranges.
func newSet(ranges []runeRange) *set {
	s := &set{ranges: ranges}
	for _, r := range ranges {
		for c := r.lo; c <= min(r.hi, 255); c++ {
			s.low[c>>6] |= 1 << (c & 63)
		}
	}
	return s
}

// has reports whether a character is in the set.
func (s *set) has(c rune) bool {
	if c < 256 {
		return s.low[c>>6]&(1<<(c&63)) != 0
	}
	lo, hi := 0, len(s.ranges)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.ranges[mid].hi < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(s.ranges) && s.ranges[lo].lo <= c
}

// foldTable maps the characters that are equal if case is ignored.
type foldTable struct {
	canonical map[rune]rune
	same      map[rune][]rune // by canonical character, for classes of two or more
}

// unicodeFolds is the simple case folding of Unicode, for the flags u and v.
var unicodeFolds = sync.OnceValue(func() *foldTable {
	return newFolds(func(c rune) rune {
		least := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	})
})

// unitFolds maps a code unit to upper case, if that is one code unit and does
// not become ASCII.
var unitFolds = sync.OnceValue(func() *foldTable {
	upper := cases.Upper(language.Und)
	return newFolds(func(c rune) rune {
		text := upper.String(string(c))
		to, size := utf8.DecodeRuneInString(text)
		if c > 0xffff || size != len(text) || to > 0xffff || c >= utf8.RuneSelf && to < utf8.RuneSelf {
			return c
		}
		return to
	})
})

// newFolds makes the table of all characters that differ from another in case.
func newFolds(canonical func(c rune) rune) *foldTable {
	t := &foldTable{map[rune]rune{}, map[rune][]rune{}}
	for _, r := range foldable {
		for c := r.lo; c <= r.hi; c++ {
			if unicode.SimpleFold(c) != c || unicode.ToUpper(c) != c {
				t.canonical[c] = canonical(c)
			}
		}
	}
	for c, to := range t.canonical {
		if _, ok := t.canonical[to]; !ok && t.same[to] == nil {
			t.same[to] = []rune{to}
		}
		t.same[to] = append(t.same[to], c)
	}
	maps.DeleteFunc(t.same, func(_ rune, class []rune) bool { return len(class) < 2 })
	return t
}

// of returns the canonical character.
func (t *foldTable) of(c rune) rune {
	if to, ok := t.canonical[c]; ok {
		return to
	}
	return c
}

// close adds all characters that are equal to a character in the ranges, and
// returns normal ranges. A nil table adds none.
func (t *foldTable) close(ranges []runeRange) []runeRange {
	out := slices.Clone(ranges)
	if t == nil {
		return normal(out)
	}
	done := map[rune]bool{}
	for _, r := range intersect(normal(append([]runeRange(nil), ranges...)), foldable) {
		for c := r.lo; c <= r.hi; c++ {
			to := t.of(c)
			if done[to] {
				continue
			}
			done[to] = true
			for _, other := range t.same[to] {
				out = append(out, runeRange{other, other})
			}
		}
	}
	return normal(out)
}

// folds returns the table for the flags, or nil if case matters.
func (f flags) folds() *foldTable {
	switch {
	case !f.ignoreCase:
		return nil
	case f.full():
		return unicodeFolds()
	}
	return unitFolds()
}
