package vault

import "time"

// expiryLayouts are the ways in which expires_at may be written, besides
// ISO 8601. Without an offset a time is in UTC; a date alone is its midnight.
var expiryLayouts = []string{
	"1/2/2006 3:04:05 PM -07:00",
	"1/2/2006 3:04:05 PM Z07:00",
	"1/2/2006 3:04:05 PM",
	"1/2/2006",
	time.RFC3339,
	"2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02",
}

// expiry reads a token's expires_at.
func (r *fieldReader) expiry(name string) *time.Time {
	text := r.text(name)
	if r.value(name).IsZero() || text == "" && r.bad.Fields[r.at(name)] != nil {
		return nil
	}
	for _, layout := range expiryLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC().Truncate(time.Microsecond)
			return &t
		}
	}
	r.bad.add(r.at(name), "must be M/D/YYYY, M/D/YYYY h:mm:ss AM|PM +hh:mm, or an ISO 8601 date-time")
	return nil
}
