package jsonx

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error describes what is wrong with a JSON text and where. It never contains a
// value of the text. Path contains member names, shortened to a limited length.
type Error struct {
	Path   string // dotted, like data.number or [2].data; "" for the whole text
	Offset int    // bytes from the start of the text
	Msg    string // the violated rule, to be read after the path
}

// Problem returns the path and the rule.
func (e *Error) Problem() (path, message string) { return e.Path, e.Msg }

// Error returns path, rule and offset in one line.
func (e *Error) Error() string {
	text := e.Msg
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.Offset > 0 {
		text += " (at byte " + strconv.Itoa(e.Offset) + ")"
	}
	return text
}

const (
	maxNameInPath = 64   // bytes of one member name in a path
	maxPath       = 1000 // bytes of a whole path
)

// JoinName returns path extended by a member name: JoinName("data", "number")
// is data.number.
func JoinName(path, name string) string { return JoinPath(path, nameSegment(name)) }

// JoinIndex returns path extended by an array index: JoinIndex("data", 2) is
// data[2].
func JoinIndex(path string, i int) string { return JoinPath(path, indexSegment(i)) }

func indexSegment(i int) string { return "[" + strconv.Itoa(i) + "]" }

// nameSegment makes a member name suitable for a message: limited in length,
// valid UTF-8 and without control characters.
func nameSegment(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return utf8.RuneError
		}
		return r
	}, shorten(name, maxNameInPath))
}

// JoinPath appends a path to another one: JoinPath("mask", "[0].a") is
// mask[0].a. A path that is too long is cut at its end.
func JoinPath(head, tail string) string {
	switch {
	case tail == "":
		return head
	case head == "":
		return tail
	case strings.HasPrefix(tail, "["):
		return shorten(head+tail, maxPath)
	default:
		return shorten(head+"."+tail, maxPath)
	}
}

// shorten cuts s between characters to at most limit bytes and marks the cut.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	cut := limit - len("...")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
