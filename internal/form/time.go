package form

import "time"

// dateTimeLayouts are the ways to write an ISO 8601 date-time: in the extended
// format or in the basic one. Without an offset it is in UTC.
var dateTimeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z07", "2006-01-02T15:04",
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405",
	"20060102T1504Z0700", "20060102T1504Z07", "20060102T1504",
}

// expiryLayouts are the ways to write a token's expires_at. Without an offset a
// time is in UTC; a date alone is its midnight.
var expiryLayouts = append([]string{
	"1/2/2006 3:04:05 PM -07:00",
	"1/2/2006 3:04:05 PM Z07:00",
	"1/2/2006 3:04:05 PM",
	"1/2/2006",
	"2006-01-02", "20060102",
}, dateTimeLayouts...)

// parseTime reads a time in one of several layouts, in the precision that a
// database keeps.
func parseTime(text string, layouts []string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC().Truncate(time.Microsecond), true
		}
	}
	return time.Time{}, false
}

// CheckExpiry checks expires_at: in the future, and while a year has four
// digits, since ISO 8601 and JSON have no way to write a later one.
func CheckExpiry(at, now time.Time, p *Problems) {
	switch {
	case !at.After(now):
		p.Add("expires_at", "must be in the future")
	case at.UTC().Year() > 9999:
		p.Add("expires_at", "must be before the year 10000")
	}
}
