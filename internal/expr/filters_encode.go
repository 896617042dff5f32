package expr

import (
	"encoding/base64"
	"net/url"
	"strings"
	"unicode/utf8"
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
		switch {
		case s[i] == '+':
			out = append(out, ' ')
		case s[i] == '%' && i+2 < len(s) && hexValue(s[i+1]) >= 0 && hexValue(s[i+2]) >= 0:
			out = append(out, byte(hexValue(s[i+1])<<4|hexValue(s[i+2])))
			i += 2
		default:
			out = append(out, s[i])
		}
	}
	return string(out)
}

func hexValue(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }

// validText rejects decoded bytes that are not valid UTF-8, instead of changing
// them.
func validText(s string) string {
	if !utf8.ValidString(s) {
		panic(faultf("decodes to bytes that are not valid UTF-8"))
	}
	return s
}
