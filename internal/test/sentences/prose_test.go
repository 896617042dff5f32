package sentences

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A text is prose if it has two adjacent words. One of them may be an
// abbreviation, a verb of fmt, or an omitted part of a concatenation.
var (
	word  = regexp.MustCompile(`^[A-Za-z]?[a-z]+('[a-z]+)?(-[a-z]+)*$`)
	other = regexp.MustCompile(`^([A-Z]{2,}[0-9]*|%[-+# 0-9.\[\]]*[a-zA-Z]|…)$`)
)

// code matches text that only SQL, JavaScript, a shell script or a regular
// expression has. AND, OR, NOT and TO alone do not make a text SQL, because
// messages about the search language contain them.
var code = regexp.MustCompile(`^\^|\(\?|\$[\w!]|=>|^\(function|[<=]+ \?|PRAGMA \w|` +
	`\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|VALUES|RETURNING|CREATE|DROP|ORDER BY|AS|JOIN|SAVEPOINT|ROLLBACK|RELEASE|ANALYZE|CASE)\b`)

// names are texts of several words that are not sentences.
var names = map[string]bool{
	"vault ring v1":                           true, // associated data of sealed rings
	"Buffer atob btoa Blob":                   true, // globals of JavaScript, like the next ones
	"fetch Headers Request Response FormData": true,
	"structuredClone queueMicrotask WeakRef FinalizationRegistry SharedArrayBuffer Atomics WebAssembly escape unescape": true,
}

func prose(text string) bool {
	if names[text] || code.MatchString(text) {
		return false
	}
	before := ""
	for _, s := range strings.Fields(text) {
		s = strings.TrimLeft(s, "(")
		next := strings.TrimRight(s, ".,;:?!)")
		if word.MatchString(before) && (word.MatchString(next) || other.MatchString(next)) ||
			other.MatchString(before) && word.MatchString(next) {
			return true
		}
		before = s
	}
	return false
}

func TestProse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"is required":                           true,
		"must have at most %d bytes":            true,
		"vault: encode %s: %w":                  true,
		"The content type must be ….":           true,
		"expected TO, as in [2026-01-01 TO *]":  true,
		"is not valid JSON: ',' is expected":    true,
		"malformed JSON":                        true,
		"token:read":                            false,
		"%s: %w":                                false,
		"Jan 2, 2006 15:04:05":                  false,
		"GET /orders/{id}":                      false,
		"text/plain; charset=utf-8":             false,
		"PRIVATE KEY":                           false,
		"{{ data | last4 }}":                    false,
		"set_id, type, shard":                   false,
		"UPDATE claims c SET answer = u.answer": false,
		"dead AND run_at <= ?":                  false,
		"until grep -q up; do kill -0 $!; done": false,
		"^the code failed \\(([a-z]+)\\)$":      false,
		"module.exports = async (r) => 1":       false,
	} {
		must.Same(t, fmt.Sprintf("prose(%q)", text), want, prose(text))
	}
}
