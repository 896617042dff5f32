package vault

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// bodyFormat says how expressions stand in a body.
type bodyFormat uint8

const (
	formatOpaque    bodyFormat = iota // binary or encoded: never looked at
	formatText                        // values are inserted as they are
	formatUnknown                     // like text, unless it turns out to be binary
	formatJSON                        // in the strings of a document, but not in keys
	formatForm                        // in the values of pairs, form-encoded
	formatXML                         // like text, with values escaped
	formatMultipart                   // each part by its own type
)

// binaryTypes are types outside of image, audio, video and font whose bodies
// are not text.
var binaryTypes = []string{
	"application/octet-stream", "application/pdf", "application/zip", "application/gzip", "application/x-gzip",
	"application/x-tar", "application/x-7z-compressed", "application/zstd", "application/wasm", "application/cbor",
	"application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/protobuf",
	"application/x-protobuf", "application/vnd.google.protobuf", "application/grpc", "application/avro",
}

// formatOf tells the format of a body by its headers. The boundary is that of a
// multipart body.
func formatOf(header http.Header) (format bodyFormat, boundary string) {
	if e := header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return formatOpaque, ""
	}
	typ, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil && typ == "" {
		return formatUnknown, ""
	}
	major, minor, _ := strings.Cut(typ, "/")
	switch {
	case minor == "json" || strings.HasSuffix(minor, "+json"):
		return formatJSON, ""
	case typ == "application/xml" || typ == "text/xml" || strings.HasSuffix(minor, "+xml"):
		return formatXML, ""
	case typ == "application/x-www-form-urlencoded":
		return formatForm, ""
	case major == "multipart":
		return formatMultipart, params["boundary"]
	case major == "text":
		return formatText, ""
	case slices.Contains([]string{"image", "audio", "video", "font", "model"}, major), slices.Contains(binaryTypes, typ), strings.HasPrefix(typ, "application/grpc"):
		return formatOpaque, ""
	default:
		return formatUnknown, ""
	}
}

// scannedBody is a body with the places at which values of tokens go.
type scannedBody struct {
	raw       []byte
	spots     []spot    // in order
	templates expr.List // of the spots
	boundary  string    // of a multipart body
}

// spot is a part of a body that is replaced.
type spot struct {
	start, end int
	path       string              // for messages
	encode     func(string) string // nil: nothing is left to be done
}

// scanBody finds the expressions of a body. Everything outside of them will
// stay as it is, byte for byte.
func scanBody(header http.Header, raw []byte) (*scannedBody, error) {
	format, boundary := formatOf(header)
	b := &scannedBody{raw: raw}
	if format != formatMultipart {
		return b, b.scan(format, 0, len(raw), "")
	}
	if !bytes.Contains(raw, []byte("{{")) && !opening.Match(raw) {
		return b, nil
	}
	b.boundary = boundary
	return b, b.scanParts()
}

// scan looks for expressions in a part of the body that has one format.
func (b *scannedBody) scan(format bodyFormat, start, end int, path string) error {
	raw := b.raw[start:end]
	if format == formatForm {
		return b.scanForm(start, end, path)
	}
	if format == formatOpaque || format == formatMultipart || !bytes.Contains(raw, []byte("{{")) {
		return nil
	}
	switch format {
	case formatJSON:
		return b.scanJSON(start, end, path)
	case formatXML:
		return b.addText(spot{start: start, end: end, path: path}, string(raw), escapeXML)
	case formatUnknown:
		if !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0 {
			return nil // binary
		}
	}
	return b.addText(spot{start: start, end: end, path: path}, string(raw), nil)
}

func (b *scannedBody) addText(s spot, template string, escape func(string) string) error {
	if err := b.templates.AddText(template, escape); err != nil {
		return underPath(s.path, invalidErr(err))
	}
	b.spots = append(b.spots, s)
	return nil
}

func escapeXML(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a buffer takes everything
	return out.String()
}

// scanJSON finds the strings of a document that hold expressions.
func (b *scannedBody) scanJSON(start, end int, path string) error {
	raw := b.raw[start:end]
	doc, err := jsonx.Parse(raw, jsonx.Limits{})
	if err != nil {
		return underPath(path, invalidErr(err))
	}
	var places []string // of all strings that are values; "" for those without expressions
	var found []bool
	_, err = jsonx.Rewrite(doc, func(at *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		if v.Kind() != jsonx.String {
			return v, true, nil
		}
		has, place := expr.HasExpression(v.Text()), ""
		if has {
			place = jsonx.JoinPath(path, at.String())
			if err := b.templates.Add(v.Text()); err != nil {
				return v, false, underPath(place, invalidErr(err))
			}
		}
		places, found = append(places, place), append(found, has)
		return v, false, nil
	})
	if err != nil {
		return err
	}
	n := 0
	for from, to := range valueStrings(raw) {
		if found[n] {
			b.spots = append(b.spots, spot{start: start + from, end: start + to, path: places[n]})
		}
		n++
	}
	return nil
}

// valueStrings yields where the strings of a valid JSON text start and end that
// are values, in order. A string before a colon is a key.
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

// Braces stand in a form as they are or, as most encoders write them,
// percent-encoded.
var (
	opening = regexp.MustCompile(`(?i)(?:\{|%7b){2}`)
	closing = regexp.MustCompile(`(?i)(?:\}|%7d){2}`)
)

// scanForm finds expressions in the values of name=value pairs. From the first
// expression of a value to its last one is replaced, newly encoded.
func (b *scannedBody) scanForm(start, end int, path string) error {
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
			place := path
			if text, err := url.QueryUnescape(string(name)); err == nil {
				place = jsonx.JoinName(path, text)
			}
			template, err := url.QueryUnescape(string(value[first[0]:until]))
			if err != nil {
				return invalid(place, "is not form-encoded")
			}
			s := spot{start: at + first[0], end: at + until, path: place, encode: url.QueryEscape}
			if err := b.addText(s, template, nil); err != nil {
				return err
			}
		}
		start += len(pair) + len("&")
	}
	return nil
}

// fill returns the body with values in the places of expressions.
func (b *scannedBody) fill(env expr.Env) ([]byte, error) {
	values, err := b.templates.Eval(env)
	if err != nil {
		return nil, underPath(b.spots[len(values)].path, invalidErr(err))
	}
	var out bytes.Buffer
	last := 0
	for i, s := range b.spots {
		if s.encode != nil {
			values[i] = s.encode(values[i])
		}
		out.Write(b.raw[last:s.start])
		out.WriteString(values[i])
		last = s.end
	}
	out.Write(b.raw[last:])
	delimiter := []byte("--" + b.boundary)
	if b.boundary != "" && bytes.Count(out.Bytes(), delimiter) != bytes.Count(b.raw, delimiter) {
		return nil, invalid("", "must have a boundary that does not occur in what is inserted")
	}
	return out.Bytes(), nil
}

// detokenizeBody replaces the expressions of a body, and enters in the log that
// the tokens were used, and whatever else is.
func (op *operation) detokenizeBody(ctx context.Context, header http.Header, raw []byte, also ...entity) ([]byte, error) {
	b, err := scanBody(header, raw)
	if err != nil {
		return nil, err
	}
	if len(b.spots) == 0 {
		return raw, op.logReads(ctx, opUse, also...)
	}
	if !op.grant.Has(access.TokenUse) {
		return nil, errForbiddenToken(access.TokenUse)
	}
	used, ids, err := op.findTokens(ctx, b.templates.Refs())
	if err != nil {
		return nil, err
	}
	out, err := b.fill(used.env())
	if err != nil {
		return nil, err
	}
	entities := slices.Clone(also)
	for _, id := range ids {
		entities = append(entities, used[id].entity())
	}
	return out, op.logReads(ctx, opUse, entities...)
}

// readBody reads a body that has to be held in memory.
func readBody(r io.Reader, limit int64) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, errorf(ErrTooLarge, "The body must have at most %d bytes.", limit)
	}
	return buf.Bytes(), nil
}
