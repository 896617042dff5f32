package regex

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func units16(s string) []uint16 { return utf16.Encode([]rune(s)) }

// TestMatch matches patterns and checks the positions of their captures.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, flags, text string
		from                 int
		sticky               bool
		want                 []int32
	}{
		{"b+", "", "abbc", 0, false, []int32{1, 3}},
		{"b+?", "", "abbc", 0, false, []int32{1, 2}},
		{"^b", "m", "a\rb", 0, false, []int32{2, 3}},
		{"^b", "", "a\rb", 0, false, nil},
		{"(?:(a)|b)*", "", "ab", 0, false, []int32{0, 2, -1, -1}},
		{"(a*)*", "", "b", 0, false, []int32{0, 0, -1, -1}},
		{"(z)((a+)?(b+)?(c))*", "", "zaacbbbcac", 0, false, []int32{0, 10, 0, 1, 8, 10, 8, 9, -1, -1, 9, 10}},
		{"(?=(a))\\1b", "", "ab", 0, false, []int32{0, 2, 0, 1}},
		{"(?<=(\\d+)(\\d+))$", "", "1053", 0, false, []int32{4, 4, 0, 1, 1, 4}},
		{"(?<!a)b", "", "abb", 0, false, []int32{2, 3}},
		{"b", "", "abab", 2, true, nil},
		{"b", "", "abab", 3, true, []int32{3, 4}},
		{".", "u", "😀", 1, false, []int32{0, 2}},
		{".", "", "😀", 1, false, []int32{1, 2}},
		{"(.)\\1", "iu", "𐐀𐐨", 0, false, []int32{0, 4, 0, 2}},
		{"[^a]{2,}?c", "", "abbc", 0, false, []int32{1, 4}},
		{"(?:a|ab)(?:c|bcd)(?:d*)", "", "abcd", 0, false, []int32{0, 4}},
		{"[\\p{L}--[a-z]]+", "v", "abÉÀc", 0, false, []int32{2, 4}},
	} {
		p, err := Compile(units16(c.pattern), c.flags)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		got, err := p.Match(units16(c.text), c.from, c.sticky, nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("/%s/%s on %q: got %v, %v, want %v", c.pattern, c.flags, c.text, got, err, c.want)
		}
	}
}

// TestEndlessMatchEnds starts matches that would not end. One is stopped, and one
// needs too much backtracking.
func TestEndlessMatchEnds(t *testing.T) {
	t.Parallel()
	endless := must.Get(Compile(units16("^(a+)+$"), ""))(t)
	asked := 0
	stop := func() bool { asked++; return asked > 3 }
	must.Fail(endless.Match(units16(strings.Repeat("a", 60)+"b"), 0, false, stop))(t, "an endless match", ErrStopped)
	deep := must.Get(Compile(units16("(?:a|b)*c"), ""))(t)
	must.Fail(deep.Match(units16(strings.Repeat("a", 2_000_000)), 0, false, nil))(t, "a deep match", ErrTooComplex)
}

// TestInvalidPatternsAreRejected has invalid patterns and V8's messages for them.
func TestInvalidPatternsAreRejected(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"(":              "/(/u: Unterminated group",
		")":              "/)/u: Unmatched ')'",
		"[b-a]":          "/[b-a]/u: Range out of order in character class",
		"a**":            "/a**/u: Nothing to repeat",
		"\\":             "/\\/u: \\ at end of pattern",
		"(?<a>b)(?<a>c)": "/(?<a>b)(?<a>c)/u: Duplicate capture group name",
		"\\p{Nope}":      "/\\p{Nope}/u: Invalid property name",
		"(?<a>b)\\k<c>":  "/(?<a>b)\\k<c>/u: Invalid named capture referenced",
		"(?:\\k<c>){0}":  "/(?:\\k<c>){0}/u: Invalid named capture referenced",
		"\\k":            "/\\k/u: Invalid named reference",
		"x{2,1}":         "/x{2,1}/u: numbers out of order in {} quantifier",
		"[a":             "/[a/u: Unterminated character class",
		"\\u{110000}":    "/\\u{110000}/u: Invalid Unicode escape",
		"(?<=a)*":        "/(?<=a)*/u: Invalid quantifier",
		"]":              "/]/u: Lone quantifier brackets",
		"\\1":            "/\\1/u: Invalid escape",
		"[\\d-a]":        "/[\\d-a]/u: Invalid character class",
		"{":              "/{/u: Lone quantifier brackets",
		"(?<1a>b)":       "/(?<1a>b)/u: Invalid capture group name",
		"\\-":            "/\\-/u: Invalid escape",
		"(?a)":           "/(?a)/u: Invalid group",
	} {
		_, err := Compile(units16(pattern), "u")
		if err == nil || err.Error() != "Invalid regular expression: "+want {
			t.Errorf("%s: got %v, want %s", pattern, err, want)
		}
	}
	must.Fail(Compile(units16(strings.Repeat("(", 1e6)), ""))(t, "groups a million deep were accepted", must.Text("Invalid regular expression"))
}

// FuzzCompile compiles any pattern and matches it against itself.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"a|b", "(?<a>.)\\k<a>", "[a-z-[]", "\\u{1F600}", "(?:)*", "a{2,3}?", "[^\\W]", "(?<=^.*)$"} {
		f.Add(seed, "")
		f.Add(seed, "iu")
		f.Add(seed, "v")
	}
	f.Fuzz(func(t *testing.T, pattern, flags string) {
		if !ValidFlags(flags) || len(pattern) > 200 {
			return
		}
		p, err := Compile(units16(pattern), flags)
		if err != nil {
			return
		}
		asked := 0
		spans, err := p.Match(units16(pattern), 0, false, func() bool { asked++; return asked > 10 })
		if err == nil && spans != nil && (spans[0] < 0 || spans[1] < spans[0] || int(spans[1]) > len(units16(pattern))) {
			t.Errorf("/%s/%s: the match is at %v", pattern, flags, spans[:2])
		}
	})
}
