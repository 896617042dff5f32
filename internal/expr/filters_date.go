package expr

import (
	"strconv"
	"strings"
	"time"

	"github.com/ncruces/go-strftime"
)

// dateForms are the formats in which the date filter reads a date, besides
// seconds since 1970. Without a zone they are in UTC.
var dateForms = []string{
	time.RFC3339,
	"2006-01-02T15:04:05",
	"2006-01-02T15:04",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05 MST",
	"2006-01-02 15:04:05",
	"2006-01-02 15:04",
	"2006-01-02",
	"2006/01/02",
	"2006-01",
	time.RFC1123Z,
	time.RFC1123,
	time.ANSIC,
	time.UnixDate,
	"January 2, 2006",
	"Jan 2, 2006",
	"January 2, 2006 15:04:05",
	"Jan 2, 2006 15:04:05",
	"2 January 2006",
	"2 Jan 2006",
}

const (
	dateCost      = 80 // all formats may have to be tried
	formatPerStep = 2  // bytes
)

const maxUnix = 253402300799 // the end of the year 9999

// date formats a date with strftime. A value that is not a date is an error,
// whereas Liquid would return it. A mask must not show by accident what it
// cannot read.
func date(ev *evaluator, in string, args []arg) string {
	ev.spend(dateCost + len(args[0].text)/formatPerStep)
	t, ok := readDate(ev, strings.TrimSpace(in))
	if !ok {
		panic(faultf("needs a date like 2006-01-02T15:04:05Z, 'now', or seconds since 1970"))
	}
	out := strftime.Format(args[0].text, t)
	ev.fits(len(out), len(in))
	return out
}

func readDate(ev *evaluator, s string) (time.Time, bool) {
	if s == "now" || s == "today" {
		return ev.env.Now().UTC(), true
	}
	if seconds, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC(), seconds >= -maxUnix && seconds <= maxUnix
	}
	for _, form := range dateForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
