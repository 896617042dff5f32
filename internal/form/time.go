package form

import "time"

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
