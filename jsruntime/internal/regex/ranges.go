package regex

import (
	"cmp"
	"slices"
	"unicode/utf8"
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
