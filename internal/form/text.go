package form

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// maxName is the maximum number of characters in the names of tenants,
// applications, reactors and proxies.
const maxName = 200

// CheckName checks the name of a tenant, application, reactor or proxy.
func CheckName(p *Problems, path, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		p.Add(path, "is required")
	case Longer(name, maxName):
		p.Add(path, "must have at most %d characters", maxName)
	case strings.ContainsFunc(name, misleads):
		p.Add(path, "must not contain line separators or characters that change the direction of text")
	default:
		CheckText(p, path, name)
	}
}

// misleads reports whether a character can make a name look like another one, or
// like several lines.
func misleads(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// CheckText rejects characters that a text column cannot store or a person
// cannot see. It reports whether the text is valid.
func CheckText(p *Problems, path, s string) bool {
	msg := TextProblem(s)
	if msg != "" {
		p.Add(path, "%s", msg)
	}
	return msg == ""
}

// TextProblem returns the problem that CheckText finds in a text, or "".
func TextProblem(s string) string {
	switch {
	case IsPlain(s):
		return ""
	case !utf8.ValidString(s):
		return "must be valid Unicode text"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not contain control characters"
	default:
		return ""
	}
}

// Longer reports whether a text has more than the given number of characters.
func Longer(s string, most int) bool { return len(s) > most && utf8.RuneCountInString(s) > most }

// IsPlain reports whether a text is printable ASCII, as most texts are.
func IsPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// CheckPairs checks the limits of an object of strings: the number of pairs,
// and the lengths of names and values in characters.
func CheckPairs(p *Problems, path string, pairs map[string]string, size, name, value int) {
	if len(pairs) > size {
		p.Add(path, "must have at most %d entries", size)
		return
	}
	for k, v := range pairs {
		if k == "" || Longer(k, name) {
			p.Add(path, "must have names of 1 to %d characters", name)
		}
		if Longer(v, value) {
			p.Add(jsonx.JoinName(path, k), "must have at most %d characters", value)
		}
	}
}
