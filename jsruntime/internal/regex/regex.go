// Package regex matches the regular expressions of ECMAScript 2024, including
// the old forms of Annex B that code on the web still uses. It matches UTF-16
// code units, as the language does. It backtracks in the order of the
// specification, so that captures are the same as in other engines.
//
// The time of a match can be exponential in the length of the text. A match
// checks now and then whether to stop.
package regex

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// maxPattern limits a pattern, in code units.
const maxPattern = 1 << 20

// Errors of a match.
var (
	// ErrStopped means that the caller stopped the match.
	ErrStopped = errors.New("regex: stopped")
	// ErrTooComplex means that the match needs too much backtracking.
	ErrTooComplex = errors.New("regex: too many places to return to")
)

// Program is a compiled regular expression. It is immutable.
type Program struct {
	code      []inst
	sets      []*set
	groups    int // captures, including the whole match
	registers int
	names     []string // of the groups; empty for groups without a name
	first     *set     // code units with which a match can begin; nil for all
	flags     flags
}

// flags are the flags that affect a match.
type flags struct {
	ignoreCase, multiline, dotAll, unicode, sets bool
}

// full reports whether a character is a code point instead of a code unit.
func (f flags) full() bool { return f.unicode || f.sets }

// Compile compiles a pattern, given as UTF-16, with its flags. Error messages
// are the same as V8's.
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
			p, err = nil, fmt.Errorf("Invalid regular expression: /%s/%s: %s", clip(pattern), flagText, string(bad)) //nolint:staticcheck // the message of V8
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

// clip shortens a pattern for a message.
func clip(pattern []uint16) string {
	const most = 1000
	if len(pattern) > most {
		return string(utf16.Decode(pattern[:most])) + "..."
	}
	return string(utf16.Decode(pattern))
}

// ValidFlags reports whether a text consists of flags of the language, each at
// most once.
func ValidFlags(text string) bool {
	for i, c := range text {
		if !strings.ContainsRune("dgimsuvy", c) || strings.ContainsRune(text[i+1:], c) {
			return false
		}
	}
	return !strings.Contains(text, "u") || !strings.Contains(text, "v")
}

// Groups returns the names of the captures, starting with the whole match,
// which has none. Groups without a name have an empty string.
func (p *Program) Groups() []string { return p.names }

// Unicode reports whether the program matches code points instead of code
// units.
func (p *Program) Unicode() bool { return p.flags.full() }
