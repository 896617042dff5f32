package jsruntime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// regexpCase is a regular expression and a text to use it on.
type regexpCase struct {
	Pattern string `json:"p"`
	Flags   string `json:"f"`
	Text    string `json:"t"`
}

// regexpText returns a random text of the characters that occur in patterns.
func regexpText(r *rand.Rand) string {
	parts := []string{"a", "b", "c", "A", "B", "1", "2", "_", "-", " ", "\n", "\r\n", "\u2028", "é", "É", "ß", "ſ", "K", "k", "😀", "𝒜", "ab", "abc", "aa", ".", "[", "]", "{", "}", "\\", "/", "σ", "ς", "\u00a0", "\ufeff"}
	var b strings.Builder
	for range r.IntN(10) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// regexpPattern returns a random pattern, usually a valid one.
func regexpPattern(r *rand.Rand, depth int) string {
	pick := func(parts ...string) string { return parts[r.IntN(len(parts))] }
	atoms := []func() string{
		func() string {
			return pick("a", "b", "c", "A", "é", "k", "s", "😀", "1", "_", "-", "/", ",", "x", "ſ", "σ")
		},
		func() string { return pick(".", "^", "$", `\b`, `\B`, `\d`, `\D`, `\w`, `\W`, `\s`, `\S`) },
		func() string {
			return pick(`\n`, `\r`, `\t`, `\x61`, `\u0061`, `\u{61}`, `\u{1F600}`, `\uD83D\uDE00`, `\uD83D`, `\0`, `\1`, `\2`, `\3`, `\7`, `\8`, `\12`, `\cA`, `\c`, `\k<a>`, `\k`, `\p{L}`, `\P{Lu}`, `\p{Script=Greek}`, `\p{Nope}`, `\-`, `\/`, `\.`, `\e`, `\u`, `\x`, `\q{ab|c}`)
		},
		func() string { return regexpClass(r, 0) },
		func() string { return pick("{", "}", "]", "{1", "{,2}", ")", "(", "[", "\\") },
	}
	weights := []int{10, 6, 4, 5, 0}
	if r.IntN(20) == 0 {
		weights[4] = 2
	}
	atom := func() string {
		total := 0
		for _, w := range weights {
			total += w
		}
		n := r.IntN(total)
		for i, w := range weights {
			if n -= w; n < 0 {
				return atoms[i]()
			}
		}
		return ""
	}
	var b strings.Builder
	for range 1 + r.IntN(4) {
		switch n := r.IntN(12); {
		case n < 7 || depth > 2:
			b.WriteString(atom())
		case n < 11:
			b.WriteString(pick("(", "(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?<a>") + regexpPattern(r, depth+1) + ")")
		default:
			b.WriteString(regexpPattern(r, depth+1) + "|" + regexpPattern(r, depth+1))
		}
		if r.IntN(3) == 0 {
			b.WriteString(pick("*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{1,3}?", "{0}", "**", "{2,1}"))
		}
	}
	return b.String()
}

// regexpClass returns a random class.
func regexpClass(r *rand.Rand, depth int) string {
	parts := []string{"a", "b-d", "A-Z", "é", "😀", "\\d", "\\W", "\\s", "\\S", "-", "^", "\\b", "\\x41", "\\u00e9", "\\uD83D", "\\uDC00-\\uDFFF", "\\uD800-\\uDBFF", "[", "\\]", "\\-", "a-", "k", "ſ", "\\p{Lu}", "\\P{L}", "z-a", "\\c1", "\\cA", "\\7", ".", "$", "\\w-a", "ß", "\\u{1F600}-\\u{1F64F}", "&&", "--", "\\q{ab|b}", "σ"}
	var b strings.Builder
	b.WriteString("[")
	if r.IntN(4) == 0 {
		b.WriteString("^")
	}
	for range r.IntN(4) {
		if depth < 2 && r.IntN(12) == 0 {
			b.WriteString(regexpClass(r, depth+1))
			continue
		}
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String() + "]"
}

// regexpFlags returns random flags.
func regexpFlags(r *rand.Rand) string {
	var b strings.Builder
	for _, f := range "dgimsy" {
		if r.IntN(4) == 0 {
			b.WriteRune(f)
		}
	}
	switch r.IntN(6) {
	case 0, 1:
		b.WriteString("u")
	case 2:
		b.WriteString("v")
	}
	return b.String()
}

// TestRegexpsAgainstNode uses random regular expressions here and in Node. The
// results are the same, or both reject the pattern.
func TestRegexpsAgainstNode(t *testing.T) {
	t.Parallel()
	node := nodePath(t)
	in := newWorkers(t, nil)
	r := rand.New(rand.NewPCG(1, 2))
	const batch = 500
	for n := 0; n < long.Rounds(2_000, 50_000); n += batch {
		cases := make([]regexpCase, batch)
		for i := range cases {
			cases[i] = regexpCase{regexpPattern(r, 0), regexpFlags(r), regexpText(r)}
		}
		compareRegexps(t, node, in, cases)
	}
}

func compareRegexps(t *testing.T, node string, in script.Runtime, cases []regexpCase) {
	t.Helper()
	input := must.Get(json.Marshal(map[string]any{"args": cases}))(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	source := must.Get(os.ReadFile("testdata/node/regexps.js"))(t)
	raw, err := in.Run(ctx, script.Program{Tenant: "t", Source: string(source)}, input, &fakeHost{})
	if err != nil {
		t.Fatal(explain(err))
	}
	cmd := exec.Command(node, "-e", "const input = JSON.parse(require('fs').readFileSync(0, 'utf8')); process.stdout.write(JSON.stringify(require('./testdata/node/regexps.js')(input)))")
	cmd.Stdin = bytes.NewReader(input)
	theirs := must.Get(cmd.Output())(t)
	var got, want []string
	must.Do(t, json.Unmarshal(raw, &got))
	must.Do(t, json.Unmarshal(theirs, &want))
	for i, c := range cases {
		full := strings.ContainsAny(c.Flags, "uv")
		switch {
		case full && strings.Contains(want[i], `\ud`):
			// The texts contain no half surrogate pairs. But V8 sometimes
			// matches within a pair, which the specification rules out.
			if strings.Contains(got[i], `\ud`) {
				t.Errorf("/%s/%s on %q: got %s, with half of a pair", c.Pattern, c.Flags, c.Text, got[i])
			}
		case strings.Contains(c.Flags, "v") && strings.Contains(c.Pattern, "[^]"):
			// V8 takes it for half of a surrogate pair.
		case got[i] != want[i]:
			t.Errorf("/%s/%s on %q: got\n%s, Node has\n%s", c.Pattern, c.Flags, c.Text, got[i], want[i])
		}
	}
}
