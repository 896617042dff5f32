package form

import (
	"math"
	"strings"
	"time"
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

// dateTimeLayouts are the layouts of an ISO 8601 date-time, in the extended
// and the basic format. Without an offset it is in UTC.
var dateTimeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z07", "2006-01-02T15:04",
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405",
	"20060102T1504Z0700", "20060102T1504Z07", "20060102T1504",
}

// expiryLayouts are the layouts of a token's expires_at. Without an offset a
// time is in UTC. A date means its midnight.
var expiryLayouts = append([]string{
	"1/2/2006 3:04:05 PM -07:00",
	"1/2/2006 3:04:05 PM Z07:00",
	"1/2/2006 3:04:05 PM",
	"1/2/2006",
	"2006-01-02", "20060102",
}, dateTimeLayouts...)

// parseTime parses a time in one of several layouts, in the precision of a
// database.
func parseTime(text string, layouts []string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(time.Microsecond), true
		}
	}
	return time.Time{}, false
}

// CheckExpiry checks that expires_at is in the future, and that its year has
// four digits, because ISO 8601 and JSON cannot represent later years.
func CheckExpiry(at, now time.Time, p *Problems) {
	switch {
	case !at.After(now):
		p.Add("expires_at", "must be in the future")
	case at.UTC().Year() > 9999:
		p.Add("expires_at", "must be before the year 10000")
	}
}

// Limits on lists.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
	// MaxListValues is the maximum number of values of each repeated filter.
	MaxListValues = 1000
)

// Paging selects a page of a list. Zero values mean the first page and the
// default size.
type Paging struct {
	Page int
	Size int
}

// Check sets the defaults and returns the problems.
func (p *Paging) Check() *Problems {
	bad := &Problems{}
	if p.Page == 0 {
		p.Page = 1
	}
	if p.Size == 0 {
		p.Size = DefaultPageSize
	}
	if p.Page < 1 || p.Page > math.MaxInt32 {
		bad.Add("page", "must be a number from 1 to %d", math.MaxInt32)
	}
	if p.Size < 1 || p.Size > MaxPageSize {
		bad.Add("size", "must be a number from 1 to %d", MaxPageSize)
	}
	return bad
}

// Offset returns the number of items before the page.
func (p *Paging) Offset() int { return (p.Page - 1) * p.Size }
