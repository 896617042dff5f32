package token

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/storage"
)

// queryTerms builds the condition of each field from its value.
var queryTerms = map[string]func(QueryTerms, queryValue) storage.Cond{
	"id":          textTerm(func(_ QueryTerms, id string) storage.Cond { return storage.IDIn{id} }),
	"type":        textTerm(func(_ QueryTerms, typ string) storage.Cond { return storage.TypeIn{typ} }),
	"data":        textTerm(QueryTerms.Data),
	"fingerprint": textTerm(fingerprintTerm),
	"metadata.":   metadataTerm,
	"container":   containerTerm,
	"created_by":  byTerm(storage.CreatedBy),
	"modified_by": byTerm(storage.ModifiedBy),
	"created_at":  timeTerm(storage.CreatedAt),
	"modified_at": timeTerm(storage.ModifiedAt),
}

// QueryFields returns the names of all fields, sorted. The field of metadata ends in a
// point, which its key follows.
func QueryFields() []string { return slices.Sorted(maps.Keys(queryTerms)) }

const wildcardRule = "'*' works only at the end of a container and as an end of a range; put it in quotes to search for the character"

// textTerm builds terms whose value is any non-empty text.
func textTerm(cond func(QueryTerms, string) storage.Cond) func(QueryTerms, queryValue) storage.Cond {
	return func(t QueryTerms, v queryValue) storage.Cond {
		if v.star >= 0 {
			panic(&QueryError{v.star, wildcardRule})
		}
		if v.text == "" {
			panic(&QueryError{v.at, "only metadata values can be empty"})
		}
		return cond(t, v.text)
	}
}

// fingerprintTerm returns a condition that finds nothing if the text is not a
// fingerprint.
func fingerprintTerm(_ QueryTerms, text string) storage.Cond {
	raw, err := base58.Decode(text)
	if err != nil || len(raw) != len(storage.Key{}) {
		return storage.Or{}
	}
	return storage.FingerprintIs(raw)
}

func metadataTerm(t QueryTerms, v queryValue) storage.Cond {
	if v.star >= 0 {
		panic(&QueryError{v.star, wildcardRule})
	}
	return t.Metadata(v.key, v.text)
}

// containerTerm builds the term of a path. Paths contain no '*', so a '*' at
// the end is a wildcard even in quotes.
func containerTerm(t QueryTerms, v queryValue) storage.Cond {
	path, isPrefix := strings.CutSuffix(v.text, "*")
	other := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '/')
	}
	switch {
	case strings.ContainsFunc(path, other), strings.Contains(path, "//"),
		path != "" && path[0] != '/', !isPrefix && !strings.HasSuffix(path, "/"):
		panic(&QueryError{v.at, "expected a container, a path of letters, digits, '_' and '-' that starts and ends with '/', " +
			"or the beginning of one followed by '*'"})
	}
	return t.Container(strings.ToLower(path), isPrefix)
}

// byTerm builds terms whose value is a UUID.
func byTerm(field storage.Field) func(QueryTerms, queryValue) storage.Cond {
	return func(_ QueryTerms, v queryValue) storage.Cond {
		id, err := uuid.Parse(v.text)
		if len(v.text) != 36 || err != nil || id == uuid.Nil {
			panic(&QueryError{v.at, "expected a UUID, 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, not all of them zero"})
		}
		return storage.ByIs{Field: field, ID: storage.ID(id)}
	}
}

// timeTerm builds terms whose value is a time or a range of times.
func timeTerm(field storage.Field) func(QueryTerms, queryValue) storage.Cond {
	return func(_ QueryTerms, v queryValue) storage.Cond {
		t := storage.TimeIn{Field: field, ExcludeTo: true}
		if v.isRange {
			t.From, t.To = v.bounds()
		} else {
			t.From, t.To = queryInterval(v)
		}
		return t
	}
}

// bounds returns the start and the exclusive end of a range. A zero time is an open
// end.
func (v *queryValue) bounds() (from, to time.Time) {
	if v.from != nil {
		start, end := queryInterval(*v.from)
		from = start
		if v.withoutFrom {
			from = end
		}
	}
	if v.to != nil {
		start, end := queryInterval(*v.to)
		to = end
		if v.withoutTo {
			to = start
		}
	}
	if v.from != nil && v.to != nil && !from.Before(to) {
		panic(&QueryError{v.at, "a range must end after it starts"})
	}
	return from, to
}

const minYear = 1900

// latestTime is the end of the latest interval. Later times have years of five
// digits, which some databases cannot read.
var latestTime = time.Date(9999, time.December, 31, 23, 59, 59, 999_999_000, time.UTC)

// queryInterval returns the start and the exclusive end of the time that a date or
// date-time covers.
func queryInterval(v queryValue) (start, end time.Time) {
	start, width, ok := parseTime(v.text)
	if !ok {
		panic(&QueryError{v.at, "expected an ISO 8601 date or date-time from 1900 on, " +
			"as in 2026-01-31 or 2026-01-31T10:30:00Z"})
	}
	end = start.Add(width)
	if end.After(latestTime) {
		end = latestTime
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
		return t, timePrecision(s, form.width), minYear <= t.Year() && t.Year() <= 9999
	}
	return time.Time{}, 0, false
}

// timePrecision returns the length of the last digit of a fraction of a second,
// down to a microsecond. Without a fraction it returns width.
func timePrecision(s string, width time.Duration) time.Duration {
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
