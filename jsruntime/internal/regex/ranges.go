package jsruntime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runeRange is the characters from lo to hi.
type runeRange struct{ lo, hi rune }

// normal sorts ranges and joins those that touch.
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

// complement returns all other characters. Halves of surrogate pairs that stand
// alone are among them, as in JavaScript.
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

// intersect returns the characters that are in both. The ranges are normal.
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

// folded adds the characters that differ in case alone.
func folded(ranges []runeRange) []runeRange {
	out := slices.Clone(ranges)
	for _, r := range intersect(ranges, foldable) {
		for c := r.lo; c <= r.hi; c++ {
			for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
				out = append(out, runeRange{f, f})
			}
		}
	}
	return normal(out)
}

// foldable is where the characters are that have a case.
var foldable = []runeRange{{'A', 0x24ff}, {0x2c00, 0x2dff}, {0xa640, 0xa7ff}, {0xab30, 0xabbf}, {0xfb00, 0xffff}, {0x10400, 0x1e9ff}}

// writeClass writes ranges as a class, or as a part of one.
func writeClass(b *strings.Builder, ranges []runeRange, within bool) {
	if !within {
		b.WriteByte('[')
	}
	for _, r := range ranges {
		fmt.Fprintf(b, `\u{%x}`, r.lo)
		if r.hi > r.lo {
			fmt.Fprintf(b, `-\u{%x}`, r.hi)
		}
	}
	if !within {
		b.WriteByte(']')
	}
}
