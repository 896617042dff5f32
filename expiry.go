package vault

import "time"

// dateTimeLayouts are the ways in which an ISO 8601 date-time may be written:
// in the extended format or in the basic one. Without an offset it is in UTC.
var dateTimeLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04Z07", "2006-01-02T15:04",
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405",
	"20060102T1504Z0700", "20060102T1504Z07", "20060102T1504",
}

// expiryLayouts are the ways in which a token's expires_at may be written.
// Without an offset a time is in UTC; a date alone is its midnight.
var expiryLayouts = append([]string{
	"1/2/2006 3:04:05 PM -07:00",
	"1/2/2006 3:04:05 PM Z07:00",
	"1/2/2006 3:04:05 PM",
	"1/2/2006",
	"2006-01-02", "20060102",
}, dateTimeLayouts...)

// expiry reads a token's expires_at.
func (r *fieldReader) expiry(name string) *time.Time {
	text := r.text(name)
	if r.value(name).IsZero() || text == "" && r.bad.Fields[r.at(name)] != nil {
		return nil
	}
	for _, layout := range expiryLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			if t = t.UTC().Truncate(time.Microsecond); t.IsZero() {
				t = t.Add(time.Microsecond) // the zero time would mean never
			}
			return &t
		}
	}
	r.bad.add(r.at(name), "must be M/D/YYYY, M/D/YYYY h:mm:ss AM|PM +hh:mm, or an ISO 8601 date-time")
	return nil
}

// checkExpiry checks when something is to end: in the future, and while a year
// has four digits, since ISO 8601 and JSON have no way to write a later one.
func checkExpiry(at, now time.Time, bad *InvalidError) {
	switch {
	case !at.After(now):
		bad.add("expires_at", "must lie in the future")
	case at.UTC().Year() > 9999:
		bad.add("expires_at", "must lie before the year 10000")
	}
}
