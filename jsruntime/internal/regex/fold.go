package regex

import (
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
	t := &foldTable{map[rune]rune{}, map[rune][]rune{}}
	eachFoldable(func(c rune) {
		least := c
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		t.canonical[c] = least
	})
	t.group()
	return t
})

// unitFolds maps a code unit to upper case, if that is one code unit and does
// not become ASCII.
var unitFolds = sync.OnceValue(func() *foldTable {
	t := &foldTable{map[rune]rune{}, map[rune][]rune{}}
	upper := cases.Upper(language.Und)
	eachFoldable(func(c rune) {
		if c > 0xffff {
			return
		}
		text := upper.String(string(c))
		to, size := utf8.DecodeRuneInString(text)
		if size != len(text) || to > 0xffff || c >= utf8.RuneSelf && to < utf8.RuneSelf {
			to = c
		}
		t.canonical[c] = to
	})
	t.group()
	return t
})

// eachFoldable calls visit for every character that differs from another in
// case.
func eachFoldable(visit func(c rune)) {
	for _, r := range foldable {
		for c := r.lo; c <= r.hi; c++ {
			if unicode.SimpleFold(c) != c || unicode.ToUpper(c) != c {
				visit(c)
			}
		}
	}
}

// group finds the classes of equal characters.
func (t *foldTable) group() {
	members := map[rune]map[rune]bool{}
	for c, to := range t.canonical {
		if members[to] == nil {
			members[to] = map[rune]bool{to: t.of(to) == to}
		}
		members[to][c] = true
	}
	for to, class := range members {
		if len(class) < 2 {
			continue
		}
		for c, is := range class {
			if is {
				t.same[to] = append(t.same[to], c)
			}
		}
	}
}

// of returns the canonical character.
func (t *foldTable) of(c rune) rune {
	if to, ok := t.canonical[c]; ok {
		return to
	}
	return c
}

// close adds all characters that are equal to a character in the ranges.
func (t *foldTable) close(ranges []runeRange) []runeRange {
	out := append([]runeRange(nil), ranges...)
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
