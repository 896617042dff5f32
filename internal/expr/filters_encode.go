package expr

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-strftime"
)

func encodingFilters() []*filter {
	return []*filter{
		textFilter("escape", func(ev *evaluator, in string, _ []arg) string {
			out := htmlEscapes.Replace(in)
			ev.fits(len(out), len(in))
			return out
		}),
		textFilter("url_encode", func(ev *evaluator, in string, _ []arg) string {
			ev.spend(len(in) / changedPerStep)
			out := url.QueryEscape(in)
			ev.fits(len(out), len(in))
			return out
		}),
		textFilter("url_decode", func(ev *evaluator, in string, _ []arg) string {
			ev.spend(len(in) / changedPerStep)
			return validText(urlDecode(in))
		}),
		textFilter("base64_encode", func(ev *evaluator, in string, _ []arg) string {
			ev.fits(base64.StdEncoding.EncodedLen(len(in)), len(in))
			return base64.StdEncoding.EncodeToString([]byte(in))
		}),
		textFilter("base64_decode", func(_ *evaluator, in string, _ []arg) string {
			out, err := base64.StdEncoding.DecodeString(in)
			if err != nil {
				panic(faultf("needs text in base64"))
			}
			return validText(string(out))
		}),
		textFilter("date", date, required("format", textParam)),
	}
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// urlDecode decodes %XX and +. As in Liquid, a % without two hexadecimal digits
// stays.
func urlDecode(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		b := [1]byte{s[i]}
		if s[i] == '+' {
			b[0] = ' '
		} else if s[i] == '%' && i+2 < len(s) {
			if _, err := hex.Decode(b[:], []byte(s[i+1:i+3])); err == nil {
				i += 2
			}
		}
		out = append(out, b[0])
	}
	return string(out)
}

// validText rejects decoded bytes that are not valid UTF-8, instead of changing
// them.
func validText(s string) string {
	if !utf8.ValidString(s) {
		panic(faultf("decodes to bytes that are not valid UTF-8"))
	}
	return s
}

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
