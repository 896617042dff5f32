package search

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/test/long"
)

// piece is a byte of decoded text, and the part of the text that it stands for.
type piece struct {
	b        byte
	from, to int
}

// unescaped decodes JSON escapes at one place of a text. It returns the decoded text
// and the number of bytes that the escapes take.
func unescaped(text string) (plain string, n int) {
	unit := func(at int) (uint16, bool) {
		if len(text) < at+6 || text[at:at+2] != `\u` {
			return 0, false
		}
		code, err := strconv.ParseUint(text[at+2:at+6], 16, 16)
		return uint16(code), err == nil && !strings.ContainsAny(text[at+2:at+6], "+_")
	}
	if len(text) >= 2 && text[0] == '\\' {
		if i := strings.IndexByte(`"\/bfnrt`, text[1]); i >= 0 {
			return "\"\\/\b\f\n\r\t"[i : i+1], 2
		}
	}
	first, ok := unit(0)
	if !ok {
		return text[:1], 1
	}
	if second, ok := unit(6); ok {
		if r := utf16.DecodeRune(rune(first), rune(second)); r != utf8.RuneError {
			return string(r), 12
		}
	}
	if r := rune(first); utf16.IsSurrogate(r) {
		return string([]byte{0xE0 | byte(r>>12), 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F}), 6
	}
	return string(rune(first)), 6
}

// unpercented is unescaped for percent-encoding.
func unpercented(text string) (plain string, n int) {
	if len(text) >= 3 && text[0] == '%' && !strings.ContainsAny(text[1:3], "+-_") {
		if code, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
			return string([]byte{byte(code)}), 3
		}
	}
	return text[:1], 1
}

// decoded decodes a whole text.
func decoded(in []piece, decode func(string) (string, int)) (out []piece) {
	raw := make([]byte, len(in))
	for i, p := range in {
		raw[i] = p.b
	}
	text := string(raw)
	for i := 0; i < len(text); {
		plain, n := decode(text[i:])
		for j := range len(plain) {
			out = append(out, piece{plain[j], in[i].from, in[i+n-1].to})
		}
		i += n
	}
	return out
}

// obvious replaces secrets in a text: it decodes the text in every way, looks for each
// secret at each place, and replaces the parts that were found. Of the secrets that a
// part consists of, the first one stands for it.
func obvious(text string, secrets []Secret) string {
	plain := make([]piece, len(text))
	for i := range plain {
		plain[i] = piece{text[i], i, i + 1}
	}
	ways := [][]piece{plain, decoded(plain, unescaped), decoded(plain, unpercented)}
	for _, once := range ways[1:] {
		ways = append(ways, decoded(once, unescaped), decoded(once, unpercented))
	}
	var parts [][3]int // from, to, and the secret
	for _, way := range ways {
		for at := range way {
			for i, s := range secrets {
				if n := len(s.Text); n > 0 && at+n <= len(way) && sameText(way[at:at+n], s.Text) {
					parts = append(parts, [3]int{way[at].from, way[at+n-1].to, i})
				}
			}
		}
	}
	slices.SortFunc(parts, func(a, b [3]int) int { return cmp.Or(a[0]-b[0], b[1]-a[1], a[2]-b[2]) })
	out, at := "", 0
	for i := 0; i < len(parts); {
		from, to, first := parts[i][0], parts[i][1], parts[i][2]
		for ; i < len(parts) && parts[i][0] < max(to, from+1); i++ {
			to = max(to, parts[i][1])
		}
		out, at = out+text[at:from]+secrets[first].Instead, to
	}
	return out + text[at:]
}

// named returns secrets for texts, each with its own replacement.
func named(texts []string) (secrets []Secret) {
	for i, text := range texts {
		secrets = append(secrets, Secret{Text: text, Instead: fmt.Sprintf("{{ t%d }}", i)})
	}
	return secrets
}

// sameText compares with a secret, and takes a plus for a space.
func sameText(way []piece, secret string) bool {
	for i, p := range way {
		if a, b := p.b, secret[i]; a != b && !(strings.Contains("+ ", string(a)) && strings.Contains("+ ", string(b))) {
			return false
		}
	}
	return true
}

// word returns a random text of few letters, so that texts have prefixes in common
// and overlap themselves.
func word(r *rand.Rand, letters string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteRune([]rune(letters)[r.IntN(utf8.RuneCountInString(letters))])
	}
	return b.String()
}

// disguise writes a text in one or two of the ways.
func disguise(r *rand.Rand, text string) string {
	for range r.IntN(3) {
		if r.IntN(2) == 0 {
			text = escaped(r, text, 1+r.IntN(4))
		} else {
			text = percentEncoded(r, text, 1+r.IntN(4))
		}
	}
	return text
}

// The search finds what the obvious one finds, wherever the text is split.
func TestSearchIsTheObviousOne(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(62, 1))
	cases, splits := long.Rounds(2_000, 100_000), 0
	for n := range cases {
		letters := []string{"ab", "aab%", `a\u06`, `ab "\%+&;é🔑`, "012%5cC\\u"}[n%5]
		texts := []string{word(r, letters, 1+r.IntN(8))}
		for range r.IntN(4) { // with a common prefix, an end in common, or escaped
			old := texts[r.IntN(len(texts))]
			texts = append(texts, []string{old[:r.IntN(len(old)+1)] + word(r, letters, 1+r.IntN(5)), word(r, letters, 3) + old, old + old, escapeXML(old), word(r, letters, 2)}[r.IntN(5)])
		}
		text := ""
		for range 1 + r.IntN(5) {
			one := texts[r.IntN(len(texts))]
			text += []string{word(r, letters, r.IntN(6)), disguise(r, one), disguise(r, one[:r.IntN(len(one))]), disguise(r, one+one), one[r.IntN(len(one)):]}[r.IntN(5)]
		}
		secrets := named(texts)
		f, want := obviousFilter(secrets, n%2 == 0), obvious(text, secrets)
		check := func(how, got string) {
			if got != want {
				t.Fatalf("case %d, %s: %q in %q\n got %q\nwant %q", n, how, texts, text, got, want)
			}
		}
		check("whole", f.String(text))
		for at := range len(text) {
			splits++
			check(fmt.Sprint("split at ", at), split(f, text[:at], text[at:]))
		}
		padded := strings.Repeat("-", r.IntN(3*maxChar)) // so that text is passed on before the end
		text = padded + text + padded + text
		want = obvious(text, secrets)
		check("byte by byte", split(f, strings.Split(text, "")...))
	}
	t.Logf("%d cases, %d splits", cases, splits)
}

// The search of secrets of more than 4,096 bytes finds what the obvious one finds. They
// have long starts in common, repeat themselves, and are found in parts of each other.
func TestSearchOfLongSecretsIsTheObviousOne(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(62, 2))
	for n := range long.Rounds(9, 300) {
		start := []string{strings.Repeat("a", 4_100+r.IntN(200)), strings.Repeat("abc", 1_400+r.IntN(100)), word(r, "abcdef", 4_100+r.IntN(200))}[n%3]
		texts := []string{start + word(r, "ab&é", 30), start + word(r, "abx", 40), start[:1+r.IntN(len(start))], word(r, "abc", 6)}
		texts = append(texts, escapeXML(texts[0]))
		text := ""
		for range 1 + r.IntN(3) {
			one := texts[r.IntN(len(texts))]
			text += []string{start[:r.IntN(20)] + one, disguise(r, one), one[:len(one)-1], disguise(r, one[1:]) + one, one[r.IntN(len(one)):]}[r.IntN(5)]
		}
		secrets := named(texts)
		f, want := obviousFilter(secrets, n%2 == 0), obvious(text, secrets)
		for range 5 {
			at := r.IntN(len(text) + 1)
			if got := split(f, text[:at], text[at:]); got != want {
				t.Fatalf("case %d, split at %d: %d bytes, want %d\n%s", n, at, len(got), len(want), got[:min(200, len(got))])
			}
		}
	}
}

// obviousFilter returns a filter without the reserve of rounding. A small one has a
// table for its first states only.
func obviousFilter(secrets []Secret, small bool) *Filter {
	f := New(secrets, spacesAlike)
	f.longest = longestOf(secrets)
	if small {
		f.words = smallTable(textsOf(secrets))
	}
	return f
}

// split returns what a stream passes on if a text arrives in these parts.
func split(f *Filter, parts ...string) (got string) {
	s := &Stream{f: f}
	for _, part := range parts {
		_ = s.scan([]byte(part)) // there is no turn to wait for
		s.pass(s.settled())
		got += string(s.out)
	}
	s.end()
	return got + string(s.out)
}

// smallTable returns an automaton of which only the first states have a row.
func smallTable(words []string) *automaton { return automatonOf(words, spacesAlike, 20) }

// escapeXML writes a text as it stands in XML, which secrets are too.
func escapeXML(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // cannot fail for a builder
	return out.String()
}
