package jsruntime

import (
	"slices"
	"testing"
	"unicode"
)

// TestUnicodeTable compares the table with Go's, which is of an older Unicode:
// characters are added, and hardly ever change.
func TestUnicodeTable(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]*unicode.RangeTable{
		"L": unicode.L, "gc=Nd": unicode.Nd, "Lu": unicode.Lu, "General_Category=Zs": unicode.Zs,
		"Script=Greek": unicode.Greek, "sc=Cyrl": unicode.Cyrillic, "White_Space": unicode.White_Space, "Hex_Digit": unicode.Hex_Digit,
	} {
		ranges, ok := propertyRanges(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		more := 0
		for c := rune(0); c <= unicode.MaxRune; c++ {
			_, ours := slices.BinarySearchFunc(ranges, c, func(r runeRange, c rune) int {
				if c < r.lo {
					return 1
				}
				return min(0, int(r.hi-c))
			})
			switch theirs := unicode.Is(table, c); {
			case theirs && !ours:
				t.Errorf("%s lacks U+%04X", name, c)
			case ours && !theirs && unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z):
				more++
			}
		}
		if more > 4 { // of those that Go knows
			t.Errorf("%s has %d characters that it should not have", name, more)
		}
	}
	for _, name := range []string{"", "-", "gc", "Script", "gc=Greek", "sc=L", "Latin", "#", "sc=", "Other_Math"} {
		if _, ok := propertyRanges(name); ok {
			t.Errorf("there should be no property %q", name)
		}
	}
}

// TestRanges computes with ranges.
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
	if got, want := folded([]runeRange{{'k', 'k'}}), []runeRange{{'K', 'K'}, {'k', 'k'}, {'\u212a', '\u212a'}}; !slices.Equal(got, want) {
		t.Errorf("folded: got %v, want %v", got, want)
	}
}
