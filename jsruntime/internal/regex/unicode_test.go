package regex

import (
	"slices"
	"testing"
	"unicode"
)

// TestUnicodeTable compares the table with Go's, which is of an older Unicode
// version. Characters are added, and hardly ever change.
func TestUnicodeTable(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]*unicode.RangeTable{
		"L": unicode.L, "gc=Nd": unicode.Nd, "Lu": unicode.Lu, "General_Category=Zs": unicode.Zs,
		"Script=Greek": unicode.Greek, "sc=Cyrl": unicode.Cyrillic, "White_Space": unicode.White_Space, "Hex_Digit": unicode.Hex_Digit,
	} {
		ranges, ok := propertyRanges(name)
		if !ok {
			t.Errorf("there is no property %s", name)
			continue
		}
		theirs := tableRanges(table)
		if lacks := intersect(theirs, complement(ranges)); len(lacks) > 0 {
			t.Errorf("%s lacks %U", name, lacks)
		}
		more := 0
		for _, r := range intersect(ranges, complement(theirs)) {
			for c := r.lo; c <= r.hi; c++ {
				if unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
					more++
				}
			}
		}
		if more > 4 { // of the characters that Go knows
			t.Errorf("%s has %d unexpected characters", name, more)
		}
	}
	for _, name := range []string{"", "-", "gc", "Script", "gc=Greek", "sc=L", "Latin", "#", "sc=", "Other_Math"} {
		if _, ok := propertyRanges(name); ok {
			t.Errorf("there should be no property %q", name)
		}
	}
}

// tableRanges returns the ranges of one of Go's tables.
func tableRanges(table *unicode.RangeTable) []runeRange {
	var out []runeRange
	for _, r := range table.R16 {
		for c := r.Lo; ; c += r.Stride {
			out = append(out, runeRange{rune(c), rune(c)})
			if c == r.Hi {
				break
			}
		}
	}
	for _, r := range table.R32 {
		for c := r.Lo; c <= r.Hi; c += r.Stride {
			out = append(out, runeRange{rune(c), rune(c)})
		}
	}
	return normal(out)
}

// TestRanges checks operations on ranges.
func TestRanges(t *testing.T) {
	t.Parallel()
	a := normal([]runeRange{{'m', 'z'}, {'a', 'c'}, {'d', 'f'}})
	if want := []runeRange{{'a', 'f'}, {'m', 'z'}}; !slices.Equal(a, want) {
		t.Errorf("normal: got %v, want %v", a, want)
	}
	if got, want := intersect(a, []runeRange{{'b', 'n'}}), []runeRange{{'b', 'f'}, {'m', 'n'}}; !slices.Equal(got, want) {
		t.Errorf("intersect: got %v, want %v", got, want)
	}
	if got := complement(complement(a)); !slices.Equal(got, a) {
		t.Errorf("complement: got %v, want %v", got, a)
	}
	if got, want := unicodeFolds().close([]runeRange{{'k', 'k'}}), []runeRange{{'K', 'K'}, {'k', 'k'}, {'\u212a', '\u212a'}}; !slices.Equal(got, want) {
		t.Errorf("close: got %v, want %v", got, want)
	}
}
