package relay

import (
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

// unescaped decodes JSON escapes at one place of a text: what they stand for, and how
// many bytes they take.
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
// secret at each place, and replaces the parts that were found.
func obvious(text string, secrets []string) string {
	plain := make([]piece, len(text))
	for i := range plain {
		plain[i] = piece{text[i], i, i + 1}
	}
	ways := [][]piece{plain, decoded(plain, unescaped), decoded(plain, unpercented)}
	for _, once := range ways[1:] {
		ways = append(ways, decoded(once, unescaped), decoded(once, unpercented))
	}
	var parts [][2]int
	for _, way := range ways {
		for at := range way {
			for _, secret := range secrets {
				if len(secret) > 0 && at+len(secret) <= len(way) && sameText(way[at:at+len(secret)], secret) {
					parts = append(parts, [2]int{way[at].from, way[at+len(secret)-1].to})
				}
			}
		}
	}
	slices.SortFunc(parts, func(a, b [2]int) int { return a[0] - b[0] })
	out, at := "", 0
	for i := 0; i < len(parts); {
		from, to := parts[i][0], parts[i][1]
		for ; i < len(parts) && parts[i][0] < max(to, from+1); i++ {
			to = max(to, parts[i][1])
		}
		out, at = out+text[at:from]+instead, to
	}
	return out + text[at:]
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
		secrets := []string{word(r, letters, 1+r.IntN(8))}
		for range r.IntN(4) { // with a common prefix, an end in common, or escaped
			old := secrets[r.IntN(len(secrets))]
			secrets = append(secrets, []string{old[:r.IntN(len(old)+1)] + word(r, letters, 1+r.IntN(5)), word(r, letters, 3) + old, old + old, escapeXML(old), word(r, letters, 2)}[r.IntN(5)])
		}
		text := ""
		for range 1 + r.IntN(5) {
			secret := secrets[r.IntN(len(secrets))]
			text += []string{word(r, letters, r.IntN(6)), disguise(r, secret), disguise(r, secret[:r.IntN(len(secret))]), disguise(r, secret+secret), secret[r.IntN(len(secret)):]}[r.IntN(5)]
		}
		f, want := filterOf(secrets...), obvious(text, secrets)
		if n%2 == 0 {
			f.words = smallTable(secrets)
		}
		check := func(how, got string) {
			if got != want {
				t.Fatalf("case %d, %s: %q in %q\n got %q\nwant %q", n, how, secrets, text, got, want)
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

// split returns what a stream passes on if a text arrives in these parts.
func split(f *filter, parts ...string) (got string) {
	s := &stream{f: f}
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
