package expr

import (
	"io"
	"strings"
	"unicode"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

func aliasFilters() []*filter {
	return []*filter{
		secretFilter("alias_card", aliasCard, or("reveal_bin", flagParam, false), or("reveal_last4", flagParam, false)),
		secretFilter("alias_preserve_format", aliasBetween(alphabetLike), or("first", countParam, 0), or("last", countParam, 0)),
		secretFilter("alias_preserve_length", aliasBetween(anyAlphabet), or("first", countParam, 0), or("last", countParam, 0)),
	}
}

const (
	decimalDigits = "0123456789"
	lowerLetters  = "abcdefghijklmnopqrstuvwxyz"
	upperLetters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func aliasCard(ev *evaluator, in string, args []arg) string {
	view := viewCard(in, args[0].yes, args[1].yes)
	return alias(ev, in, func() func(int, string) string {
		digit := -1
		return func(_ int, c string) string {
			if !isDigit(c) {
				return ""
			}
			if digit++; view.shows(digit) {
				return ""
			}
			return decimalDigits
		}
	})
}

func anyAlphabet(string) string { return decimalDigits + lowerLetters + upperLetters }

// alphabetLike returns the characters of the same kind as c, or "" to keep it.
func alphabetLike(c string) string {
	r, _ := jsonx.DecodeRune(c)
	switch {
	case unicode.IsDigit(r):
		return decimalDigits
	case unicode.IsUpper(r):
		return upperLetters
	case unicode.IsLetter(r):
		return lowerLetters
	default:
		return ""
	}
}

// aliasBetween returns a filter that keeps the first and last characters according
// to its arguments, unless that would keep all of them.
func aliasBetween(alphabet func(c string) string) func(ev *evaluator, in string, args []arg) string {
	return func(ev *evaluator, in string, args []arg) string {
		first, last, total := args[0].n, args[1].n, charCount(in)
		if total <= first+last {
			first, last = 0, 0
		}
		return alias(ev, in, func() func(int, string) string {
			return func(i int, c string) string {
				if i < first || i >= total-last {
					return ""
				}
				return alphabet(c)
			}
		})
	}
}

const (
	aliasTries = 32
	aliasCost  = 10 // steps of an attempt, in addition to one per byte
)

// alias replaces characters at random. The function that alphabets returns
// gives the alphabet for each character in turn, or "" to keep it. A result
// that equals the input is discarded, because an alias is used where the value
// must not appear.
func alias(ev *evaluator, in string, alphabets func() func(i int, c string) string) string {
	d := dice{source: ev.env.Rand}
	for range aliasTries {
		ev.spend(aliasCost)
		alphabet := alphabets()
		var b strings.Builder
		b.Grow(len(in))
		for i, rest := 0, in; len(rest) > 0; i++ {
			c := rest[:charWidth(rest)]
			rest = rest[len(c):]
			ev.spend(len(c))
			if from := alphabet(i, c); from != "" {
				b.WriteByte(d.pick(from))
			} else {
				b.WriteString(c)
			}
		}
		if out := b.String(); out != in {
			return out
		}
	}
	panic(faultf("finds nothing to replace in the value"))
}

// dice picks characters from an alphabet, all equally likely.
type dice struct {
	source io.Reader
	buf    [64]byte
	unread []byte
}

func (d *dice) pick(alphabet string) byte {
	// Bytes from the last, incomplete run of the alphabet are discarded, so
	// that no character is more likely than another.
	usable := 256 - 256%len(alphabet)
	for range 1000 {
		if len(d.unread) == 0 {
			if _, err := io.ReadFull(d.source, d.buf[:]); err != nil {
				break
			}
			d.unread = d.buf[:]
		}
		b := int(d.unread[0])
		d.unread = d.unread[1:]
		if b < usable {
			return alphabet[b%len(alphabet)]
		}
	}
	panic(faultf("the source of random bytes failed"))
}
