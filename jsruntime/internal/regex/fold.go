package regex

import (
	"maps"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

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
