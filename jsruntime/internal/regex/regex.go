// Package regex matches the regular expressions of ECMAScript 2024, with the old
// forms of Annex B that code on the web still uses. It matches UTF-16 code units,
// as the language does, and backtracks in the order that the language gives, so
// that captures are the same as in other engines.
//
// The time of a match can be exponential in the length of the text. A match asks
// now and then whether to stop.
package regex

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// maxPattern bounds a pattern, in code units.
const maxPattern = 1 << 20

// Errors of a match.
var (
	// ErrStopped means that the caller asked to stop.
	ErrStopped = errors.New("regex: stopped")
	// ErrTooComplex means that there are too many places to return to.
	ErrTooComplex = errors.New("regex: too many places to return to")
)

// Program is a compiled regular expression. It is immutable.
type Program struct {
	code      []inst
	sets      []*set
	groups    int // captures, with the whole match
	registers int
	names     []string // of the groups, empty for those without one
	first     *set     // code units with which a match can begin; nil for all
	flags     flags
}

// flags are the flags that matter for a match.
type flags struct {
	ignoreCase, multiline, dotAll, unicode, sets bool
}

// full reports whether a character is a code point and not a code unit.
func (f flags) full() bool { return f.unicode || f.sets }

// Compile compiles a pattern, given as UTF-16, with its flags. The text of an
// error is that of V8.
func Compile(pattern []uint16, flagText string) (p *Program, err error) {
	f := flags{
		ignoreCase: strings.Contains(flagText, "i"),
		multiline:  strings.Contains(flagText, "m"),
		dotAll:     strings.Contains(flagText, "s"),
		unicode:    strings.Contains(flagText, "u"),
		sets:       strings.Contains(flagText, "v"),
	}
	defer func() {
		switch bad := recover().(type) {
		case nil:
		case patternError:
			p, err = nil, fmt.Errorf("Invalid regular expression: /%s/%s: %s", clip(pattern), flagText, string(bad)) //nolint:staticcheck // the text of V8
		default:
			panic(bad)
		}
	}()
	if len(pattern) > maxPattern {
		panic(patternError("Regular expression too large"))
	}
	parsed := newParser(pattern, f)
	tree := parsed.pattern()
	return assemble(tree, parsed, f), nil
}

// clip returns a pattern for a message.
func clip(pattern []uint16) string {
	const most = 1000
	if len(pattern) > most {
		return string(utf16.Decode(pattern[:most])) + "..."
	}
	return string(utf16.Decode(pattern))
}

// ValidFlags reports whether a text has flags of the language, none of them twice.
func ValidFlags(text string) bool {
	for i, c := range text {
		if !strings.ContainsRune("dgimsuvy", c) || strings.ContainsRune(text[i+1:], c) {
			return false
		}
	}
	return !strings.Contains(text, "u") || !strings.Contains(text, "v")
}

// Groups returns the names of the captures, beginning with the whole match, which
// has none. Groups without a name have an empty one.
func (p *Program) Groups() []string { return p.names }

// Unicode reports whether the program matches code points, and not code units.
func (p *Program) Unicode() bool { return p.flags.full() }
