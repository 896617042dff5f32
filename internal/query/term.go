package query

import (
	"encoding/hex"
	"strings"
	"time"
)

// terms builds the node of each field from its value.
var terms = map[string]func(value) Node{
	"id":          textTerm(func(v value) Node { return IDIs(v.text) }),
	"type":        textTerm(func(v value) Node { return TypeIs(v.text) }),
	"data":        textTerm(func(v value) Node { return DataIs(v.text) }),
	"fingerprint": textTerm(func(v value) Node { return FingerprintIs(v.text) }),
	"metadata.":   metadataTerm,
	"container":   containerTerm,
	"created_by":  byTerm(CreatedBy),
	"modified_by": byTerm(ModifiedBy),
	"created_at":  timeTerm(CreatedAt),
	"modified_at": timeTerm(ModifiedAt),
}

const wildcardRule = "'*' works only at the end of a container and as an end of a range; put it in quotes to search for the character"

// textTerm builds terms whose value is any non-empty text.
func textTerm(node func(value) Node) func(value) Node {
	return func(v value) Node {
		if v.star >= 0 {
			panic(&Error{v.star, wildcardRule})
		}
		if v.text == "" {
			panic(&Error{v.at, "only metadata values can be empty"})
		}
		return node(v)
	}
}

func metadataTerm(v value) Node {
	if v.star >= 0 {
		panic(&Error{v.star, wildcardRule})
	}
	return MetadataIs{v.key, v.text}
}

// containerTerm builds the term of a path. Paths contain no '*', so a '*' at
// the end is a wildcard even in quotes.
func containerTerm(v value) Node {
	path, isPrefix := strings.CutSuffix(v.text, "*")
	other := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
	}
	switch {
	case strings.ContainsFunc(path, other), strings.Contains(path, "//"),
		path != "" && path[0] != '/', !isPrefix && !strings.HasSuffix(path, "/"):
		panic(&Error{v.at, "expected a container, a path of letters, digits, '_' and '-' that starts and ends with '/', " +
			"or the beginning of one followed by '*'"})
	}
	return InContainer{strings.ToLower(path), isPrefix}
}

// byTerm builds terms whose value is a UUID.
func byTerm(field Field) func(value) Node {
	return func(v value) Node {
		id, ok := parseUUID(v.text)
		if !ok || id == [16]byte{} {
			panic(&Error{v.at, "expected a UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, not all of them zero"})
		}
		return ByIs{field, id}
	}
}

func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:]))
	return id, err == nil && n == len(id)
}

// timeTerm builds terms whose value is a time or a range of times.
func timeTerm(field Field) func(value) Node {
	return func(v value) Node {
		if !v.isRange {
			start, end := interval(v)
			return TimeIn{field, start, end}
		}
		return rangeTerm(field, v)
	}
}

func rangeTerm(field Field, v value) Node {
	t := TimeIn{Field: field}
	if v.from != nil {
		start, end := interval(*v.from)
		t.From = start
		if v.withoutFrom {
			t.From = end
		}
	}
	if v.to != nil {
		start, end := interval(*v.to)
		t.To = end
		if v.withoutTo {
			t.To = start
		}
	}
	if v.from != nil && v.to != nil && !t.From.Before(t.To) {
		panic(&Error{v.at, "a range must end after it starts"})
	}
	return t
}

const minYear = 1900

// latest is the end of the latest interval. Later times have years of five
// digits, which some databases cannot read.
var latest = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)

// interval returns the start and the exclusive end of the time that a date or
// date-time covers.
func interval(v value) (start, end time.Time) {
	start, width, ok := parseTime(v.text)
	if !ok {
		panic(&Error{v.at, "expected an ISO 8601 date or date-time from 1900 on, " +
			"as in 2026-01-31 or 2026-01-31T10:30:00Z"})
	}
	end = start.Add(width)
	if end.After(latest) {
		end = latest
	}
	return start, end
}

// parseTime returns the start and the length of a date or date-time. Text
// without an offset is in UTC.
func parseTime(s string) (start time.Time, width time.Duration, ok bool) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, 24 * time.Hour, t.Year() >= minYear
	}
	for _, form := range []struct {
		layout string
		width  time.Duration
	}{
		{"2006-01-02T15:04", time.Minute},
		{"2006-01-02T15:04Z07:00", time.Minute},
		{"2006-01-02T15:04:05", time.Second},
		{"2006-01-02T15:04:05Z07:00", time.Second},
	} {
		t, err := time.Parse(form.layout, s)
		if err != nil {
			continue
		}
		t = t.UTC().Truncate(time.Microsecond)
		return t, precision(s, form.width), minYear <= t.Year() && t.Year() <= 9999
	}
	return time.Time{}, 0, false
}

// precision returns the length of the last digit of a fraction of a second,
// down to a microsecond. Without a fraction it returns width.
func precision(s string, width time.Duration) time.Duration {
	point := strings.IndexAny(s, ".,")
	if point < 0 {
		return width
	}
	width = time.Second
	for _, r := range s[point+1:] {
		if r < '0' || r > '9' || width == time.Microsecond {
			break
		}
		width /= 10
	}
	return width
}
