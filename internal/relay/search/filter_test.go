package search

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const instead = "{{ t }}"

func filterOf(texts ...string) *Filter {
	var secrets []Secret
	for _, text := range texts {
		secrets = append(secrets, Secret{Text: text, Instead: instead})
	}
	f := New(secrets, spacesAlike)
	f.longest = longestOf(secrets) // without the reserve of rounding
	return f
}

// String returns a text with its secrets replaced.
func (f *Filter) String(text string) string { return split(f, text) }

func TestSecretsAreReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ secret, text, want string }{
		{"4242424242424242", `{"number":"4242424242424242"}`, `{"number":"{{ t }}"}`},
		{"4242424242424242", `4242424242424242`, `{{ t }}`},
		{"4242424242424242", `x42424242424242424242y`, `x{{ t }}y`},
		{"4242424242424242", `424242424242424`, `424242424242424`},
		{"4242424242424242", `"\u0034\u00324242424242424\u0032"`, `"{{ t }}"`},
		{"4242424242424242", `%34%3242424242%3424242%342`, `{{ t }}`},
		{"4242424242424242", `\u00342%34242424242%342\u00342`, `{{ t }}`},
		{"4242424242424242", `%5Cu00342424242424242%34%32`, `{{ t }}`},
		{"4242424242424242", `%253424242424242424%32`, `{{ t }}`},
		{"4242424242424242", `\\u00342424242424242\u0034\u0032`, `{{ t }}`},
		{"Jane Doe", `Jane Doe Jane+Doe Jane%20Doe Jane\u0020Doe JaneDoe`, `{{ t }} {{ t }} {{ t }} {{ t }} JaneDoe`},
		{"+14155551234", `+14155551234 %2B14155551234 %2b1415555%3123%34`, `{{ t }} {{ t }} {{ t }}`},
		{`say "hi" \o/`, `"say \"hi\" \\o\/"`, `"{{ t }}"`},
		{`say "hi" \o/`, `say "hi" \o/`, `{{ t }}`},
		{`say "hi" \o/`, `{"data":"{\"a\":\"say \\\"hi\\\" \\\\o/\"}"}`, `{"data":"{\"a\":\"{{ t }}\"}"}`},
		{"100%41sure", "100%41sure 100%2541sure", "{{ t }} {{ t }}"},
		{"Zoë 🔑 key", `Zo\u00eb \uD83d\udD11 key, Zo%C3%AB%20%f0%9f%94%91+key`, `{{ t }}, {{ t }}`},
		{"\xed\xa0\xbd lone", `\ud83d lone`, `{{ t }}`},
		{"line\nfeed\ttab", `line\nfeed\ttab line%0Afeed%09tab`, `{{ t }} {{ t }}`},
		{"abcabcabd", "abcabcabcabd", "abc{{ t }}"},
		{"Jane Doe", "Jane%2BDoe", `{{ t }}`},
		{"secret%3", `%73ecret%3`, `{{ t }}`},
		{"secret\xed\xa0\xbd", `secret\ud83d`, `{{ t }}`},
		{"secret", `\usecret \u0 secret% %secret %5secret \\secret`, `\u{{ t }} \u0 {{ t }}% %{{ t }} %5{{ t }} \\{{ t }}`},
		{"secret", "", ""},
		{"", "text", "text"},
	} {
		if got := filterOf(test.secret).String(test.text); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, got, test.want)
		}
		for name, cut := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "data with EOF": iotest.DataErrReader} {
			got, err := io.ReadAll(filterOf(test.secret).Reader(cut(strings.NewReader(test.text))))
			if err != nil || string(got) != test.want {
				t.Errorf("%s of %s\n got %s, %v\nwant %s", name, test.text, got, err, test.want)
			}
		}
	}
}

// Overlapping secrets leave nothing of each other.
func TestOverlappingSecrets(t *testing.T) {
	t.Parallel()
	f := filterOf("4242424242424242", "42424242", "4242424242424242|4242", "222222")
	for text, want := range map[string]string{
		"4242424242424242|4242": instead, "a4242424242424242b": "a" + instead + "b", "4242424222222": instead,
		"42424242 222222": instead + " " + instead,
	} {
		must.Same(t, text, want, f.String(text))
	}
}

// Secrets of any length are found whole, and a part of one is not. Some are longer
// than the table of the automaton, and have long prefixes in common.
func TestLongSecrets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 300_000)
	for i := range random {
		random[i] = "abcdefghij"[r.IntN(10)]
	}
	text := string(random)
	for name, secrets := range map[string][]string{
		"random": {text}, "one letter": {strings.Repeat("a", 50_000)}, "two": {text[:5000] + "x" + text, text[:5000] + "y" + text}, "escaped": {text[:5000] + "&amp;rest", text[:5000] + "&rest"},
	} {
		f := filterOf(secrets...)
		for _, secret := range secrets {
			for _, text := range []string{secret, escaped(r, secret, 3), percentEncoded(r, secret, 3), escaped(r, percentEncoded(r, secret, 3), 3)} {
				got, err := io.ReadAll(f.Reader(strings.NewReader("<" + text + ">")))
				if err != nil || string(got) != "<"+instead+">" {
					t.Errorf("%s: %d bytes are left, %v", name, len(got), err)
				}
			}
			if part := secret[:len(secret)-1] + "X"; f.String(part) != part {
				t.Errorf("%s: a part is replaced", name)
			}
		}
	}
}

// A stream that breaks off drops the same number of bytes, whatever they are.
func TestFailedReadsDropTheEnd(t *testing.T) {
	t.Parallel()
	const secret = "4242424242424242"
	for n := range len(secret) {
		for _, held := range []string{secret[:n] + strings.Repeat("x", len(secret)-n), strings.Repeat("x", len(secret)-n) + secret[:n]} {
			broken := io.MultiReader(strings.NewReader(strings.Repeat("t", 1000)+held), iotest.ErrReader(errors.New("broken")))
			got, err := io.ReadAll(filterOf(secret).Reader(broken))
			if want := strings.Repeat("t", 1000+len(secret)-len(secret)-2*maxChar); err == nil || string(got) != want {
				t.Errorf("%s: %d bytes, %v", held, len(got), err)
			}
		}
	}
}

// escaped writes each nth character as a JSON escape, on average.
func escaped(r *rand.Rand, text string, n int) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '"' || c == '\\' || r.IntN(n) == 0:
			for _, u := range utf16.Encode([]rune{c}) {
				fmt.Fprintf(&b, []string{`\u%04x`, `\u%04X`}[r.IntN(2)], u)
			}
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// percents writes each nth character as a percent-encoded one, on average.
func percentEncoded(r *rand.Rand, text string, n int) string {
	var b strings.Builder
	for _, c := range text {
		if c != '%' && c != '+' && r.IntN(n) > 0 {
			b.WriteRune(c)
			continue
		}
		for _, x := range []byte(string(c)) {
			fmt.Fprintf(&b, []string{"%%%02x", "%%%02X"}[r.IntN(2)], x)
		}
	}
	return b.String()
}

// Random secrets are found in random text, in each way to write them, however it
// is cut. Text without a secret is not changed.
func TestRandomTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteRune([]rune(`ab4 "\%+é🔑`)[r.IntN(10)])
		}
		return b.String()
	}
	ways := map[string]func(string) string{
		"plain":   func(s string) string { return s },
		"escapes": func(s string) string { return escaped(r, s, 1+r.IntN(4)) },
		"percent": func(s string) string { return percentEncoded(r, s, 1+r.IntN(4)) },
		"both":    func(s string) string { return escaped(r, percentEncoded(r, s, 2), 2) },
		"other":   func(s string) string { return percentEncoded(r, escaped(r, s, 2), 2) },
		"twice":   func(s string) string { return escaped(r, escaped(r, s, 2), 2) },
		"again":   func(s string) string { return percentEncoded(r, percentEncoded(r, s, 2), 2) },
	}
	for range long.Rounds(300, 20_000) {
		secret := word(6 + r.IntN(10))
		f := filterOf(secret, word(8))
		for name, write := range ways {
			text := write(secret)
			got, err := io.ReadAll(f.Reader(iotest.OneByteReader(strings.NewReader("<" + text + ">"))))
			if err != nil || string(got) != "<"+instead+">" {
				t.Fatalf("%s: %q as %q: %q, %v", name, secret, text, got, err)
			}
			if whole := f.String("<" + text + ">"); whole != string(got) {
				t.Fatalf("%s: %q in one piece: %q", name, text, whole)
			}
		}
		if other := strings.Repeat("xyz", r.IntN(5)) + word(5); f.String(other) != other {
			t.Fatalf("%q is changed", other)
		}
	}
}
