package relay

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Body is a scanned body, with the positions of expressions.
type Body struct {
	raw       []byte
	spots     []spot    // in order
	templates expr.List // templates of the spots
	boundary  string    // boundary of a multipart body
	renewed   string    // replaces it, if not empty
	foreign   bool      // values may be read in a charset that changes them
}

// spot is a part of a body that is replaced.
type spot struct {
	start, end int
	path       string              // for messages
	encode     func(string) string // nil if the value needs no encoding
	oneLine    bool                // the value must not have control characters
}

// Scan finds the expressions of a body. Everything outside of them stays the
// same, byte for byte.
func Scan(header http.Header, raw []byte) (*Body, *form.Problems) {
	format, boundary := FormatOf(header)
	b := &Body{raw: raw, foreign: !keepsText(header, raw)}
	if format != multipart {
		return b, b.scan(format, 0, len(raw), "")
	}
	if !bytes.Contains(raw, []byte("{{")) && !opening.Match(raw) {
		return b, nil
	}
	b.boundary = boundary
	return b, b.scanParts()
}

// scan finds expressions in a part of the body with one format.
func (b *Body) scan(format Format, start, end int, path string) *form.Problems {
	raw := b.raw[start:end]
	if format == formPairs {
		return b.scanForm(start, end, path)
	}
	if format == Opaque || format == multipart || !bytes.Contains(raw, []byte("{{")) {
		return nil
	}
	if format == unknown || format == untyped {
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			return nil // binary
		}
	}
	if format == untyped {
		format = guessFormat(raw)
	}
	switch format {
	case jsonText:
		return b.scanJSON(start, end, path)
	case jsonLines, jsonSequence:
		return b.scanRecords(format, start, end, path)
	case xmlText:
		return b.addText(spot{start: start, end: end, path: path}, string(raw), escapeXML)
	default:
		return b.addText(spot{start: start, end: end, path: path}, string(raw), nil)
	}
}

// keepsText reports whether the charset of a body or a part leaves ASCII text as it is,
// whatever is around it. In some others, text before a value changes how it is read.
func keepsText(header http.Header, raw []byte) bool {
	if m := declaration.FindSubmatch(raw); m != nil && !slices.Contains(charsets, strings.ToLower(string(m[1]))) {
		return false
	}
	marked := func(mark string) bool { return bytes.HasPrefix(raw, []byte(mark)) }
	return hasCharset(header, charsets...) && bytes.IndexByte(raw, 0) < 0 && !slices.ContainsFunc(otherMarks, marked)
}

// charsets leave ASCII text as it is.
var charsets = []string{"utf-8", "utf8", "us-ascii", "iso-8859-1"}

// Programs recognize some charsets by the start of a body: an XML declaration, which is
// ASCII and names the charset or is EBCDIC, and the marks of UTF-16.
var (
	declaration = regexp.MustCompile(`^(?:\x{feff})?\s*<\?xml[^>]*?encoding\s*=\s*["']([^"']*)`)
	otherMarks  = []string{"\xff\xfe", "\xfe\xff", "\x4c\x6f\xa7\x94"}
)

func (b *Body) addText(s spot, template string, escape func(string) string) *form.Problems {
	if err := b.templates.AddText(template, escape); err != nil {
		return form.Of(s.path, err)
	}
	b.spots = append(b.spots, s)
	return nil
}

func escapeXML(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // cannot fail for a buffer
	return out.String()
}

// scanJSON finds the strings of a document that have expressions.
func (b *Body) scanJSON(start, end int, path string) *form.Problems {
	raw := b.raw[start:end]
	doc, err := jsonx.Parse(raw, jsonx.Limits{})
	if err != nil {
		return form.Of(path, err)
	}
	var paths []string // paths of all string values; "" for strings without expressions
	var found []bool
	var bad *form.Problems
	_, err = jsonx.Rewrite(doc, func(at *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if v.Kind() != jsonx.String {
			return v, true, nil
		}
		has, valuePath := expr.HasExpression(v.Text()), ""
		if has {
			valuePath = jsonx.JoinPath(path, at.String())
			if err := b.templates.Add(v.Text()); err != nil {
				bad = form.Of(valuePath, err)
				return v, false, err
			}
		}
		paths, found = append(paths, valuePath), append(found, has)
		return v, false, nil
	})
	if err != nil {
		return bad
	}
	n := 0
	for from, to := range valueStrings(raw) {
		if found[n] {
			b.spots = append(b.spots, spot{start: start + from, end: start + to, path: paths[n]})
		}
		n++
	}
	return nil
}

// valueStrings yields the start and end of each string value in a valid JSON
// text, in order. A string before a colon is a key.
func valueStrings(raw []byte) func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for i := 0; i < len(raw); i++ {
			if raw[i] != '"' {
				continue
			}
			from := i
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			rest := bytes.TrimLeft(raw[i+1:], " \t\r\n")
			if len(rest) > 0 && rest[0] == ':' {
				continue
			}
			if !yield(from, i+1) {
				return
			}
		}
	}
}

// Braces in a form are literal or, with most encoders, percent-encoded.
var (
	opening = regexp.MustCompile(`(?i)(?:\{|%7b){2}`)
	closing = regexp.MustCompile(`(?i)(?:\}|%7d){2}`)
)

// scanForm finds expressions in the values of name=value pairs. The part of a
// value from its first expression to its last is replaced and encoded again.
func (b *Body) scanForm(start, end int, path string) *form.Problems {
	if !opening.Match(b.raw[start:end]) {
		return nil
	}
	for start < end {
		pair, _, _ := bytes.Cut(b.raw[start:end], []byte("&"))
		name, value, _ := bytes.Cut(pair, []byte("="))
		if first := opening.FindIndex(value); first != nil {
			until := len(value)
			if all := closing.FindAllIndex(value, -1); len(all) > 0 && all[len(all)-1][1] > first[0] {
				until = all[len(all)-1][1]
			}
			at := start + len(name) + len("=")
			valuePath := path
			if text, err := url.QueryUnescape(string(name)); err == nil {
				valuePath = jsonx.JoinName(path, text)
			}
			template, err := url.QueryUnescape(string(value[first[0]:until]))
			if err != nil {
				return form.Problem(valuePath, "is not form-encoded")
			}
			s := spot{start: at + first[0], end: at + until, path: valuePath, encode: url.QueryEscape}
			if bad := b.addText(s, template, nil); bad != nil {
				return bad
			}
		}
		start += len(pair) + len("&")
	}
	return nil
}

// HasExpressions reports whether the body has expressions.
func (b *Body) HasExpressions() bool { return len(b.spots) > 0 }

// Fill returns the body with values in place of expressions.
func (b *Body) Fill(env expr.Env) ([]byte, *form.Problems) {
	values, err := b.templates.Eval(env)
	if err != nil {
		return nil, form.Of(b.spots[len(values)].path, err)
	}
	before := []byte("--" + b.boundary)
	after := []byte("--" + cmp.Or(b.renewed, b.boundary))
	var out bytes.Buffer
	keep := func(text []byte) {
		if b.renewed != "" {
			text = bytes.ReplaceAll(text, before, after)
		}
		out.Write(text)
	}
	last := 0
	for i, s := range b.spots {
		if s.oneLine && strings.ContainsFunc(values[i], unicode.IsControl) {
			return nil, form.Problem(s.path, "must not get a value with control characters")
		}
		if s.encode != nil {
			values[i] = s.encode(values[i])
		}
		keep(b.raw[last:s.start])
		out.WriteString(values[i])
		last = s.end
	}
	keep(b.raw[last:])
	if b.boundary != "" && bytes.Count(out.Bytes(), after) != bytes.Count(b.raw, before) {
		return nil, form.Problem("", "must have a boundary that does not occur in the inserted data")
	}
	return out.Bytes(), nil
}
