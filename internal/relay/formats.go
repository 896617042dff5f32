package relay

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Format determines where expressions can be in a body.
type Format uint8

// The formats. An Opaque body is binary or encoded, and is never scanned.
const (
	Opaque       Format = iota
	text                // values are inserted unchanged
	unknown             // like text, unless it is binary
	untyped             // like unknown, unless it is JSON
	jsonText            // in the string values of a document, but not in keys
	jsonLines           // a document on each line
	jsonSequence        // a document after each record separator
	formPairs           // in the values of form-encoded pairs
	xmlText             // like text, with values escaped
	multipart           // each part by its type
)

// binaryTypes are types outside of image, audio, video and font whose bodies
// are not text.
var binaryTypes = []string{
	"application/octet-stream", "application/pdf", "application/zip", "application/gzip", "application/x-gzip",
	"application/x-tar", "application/x-7z-compressed", "application/zstd", "application/wasm", "application/cbor",
	"application/msgpack", "application/x-msgpack", "application/vnd.msgpack", "application/protobuf",
	"application/x-protobuf", "application/vnd.google.protobuf", "application/grpc", "application/avro",
}

// FormatOf returns the format of a body from its headers, and the boundary of
// a multipart body.
func FormatOf(header http.Header) (format Format, boundary string) {
	if encodings, err := encodingsOf(header); err != nil || len(encodings) > 0 {
		return Opaque, ""
	}
	typ, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	unreadable := err != nil && typ == ""
	if unreadable {
		typ = strings.ToLower(header.Get("Content-Type"))
	}
	if format, ok := jsonFormat(typ); ok {
		return format, ""
	}
	major, minor, _ := strings.Cut(typ, "/")
	switch {
	case unreadable:
		return untyped, ""
	case typ == "application/xml" || typ == "text/xml" || strings.HasSuffix(minor, "+xml"):
		return xmlText, ""
	case typ == "application/x-www-form-urlencoded":
		return formPairs, ""
	case major == "multipart":
		return multipart, params["boundary"]
	case major == "text":
		return text, ""
	case slices.Contains([]string{"image", "audio", "video", "font", "model"}, major), slices.Contains(binaryTypes, typ), strings.HasPrefix(typ, "application/grpc"), strings.HasPrefix(typ, "application/x-git-"):
		return Opaque, ""
	default:
		return unknown, ""
	}
}

// recordSeparator starts each text of a JSON text sequence (RFC 7464). It
// cannot occur in a JSON text.
const recordSeparator = 0x1E

// lineTypes matches names of types with a JSON text on each line.
var lineTypes = regexp.MustCompile(`[nl]djson|json[-_]?l(ines)?\b|json-?stream|\bstream\+json`)

// jsonFormat returns the format of a type that has json in its name. A body
// that is not strict JSON is rejected if it has an expression, because it has
// no safe place for a value.
func jsonFormat(typ string) (format Format, ok bool) {
	switch {
	case !strings.Contains(typ, "json"):
		return unknown, false
	case strings.Contains(typ, "json-seq"):
		return jsonSequence, true
	case lineTypes.MatchString(typ):
		return jsonLines, true
	default:
		return jsonText, true
	}
}

// guessFormat returns the format of a text of unknown type. Text that a
// reader may take for JSON is treated as JSON.
func guessFormat(raw []byte) Format {
	text := bytes.TrimPrefix(raw, []byte("\ufeff"))
	switch {
	case json.Valid(text):
		return jsonText
	case len(text) > 0 && text[0] == recordSeparator:
		return jsonSequence
	}
	for line := range bytes.Lines(text) {
		if len(trimSpace(line)) > 0 && !json.Valid(line) {
			return unknown
		}
	}
	return jsonLines
}

// trimSpace removes JSON white space.
func trimSpace(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// scanRecords finds the strings with expressions in each JSON text of a body
// with several texts.
func (b *Body) scanRecords(format Format, start, end int, path string) *form.Problems {
	separator := byte('\n')
	if format == jsonSequence {
		separator = recordSeparator
		if lead, _, _ := bytes.Cut(b.raw[start:end], []byte{separator}); len(trimSpace(lead)) > 0 {
			return form.Problem(path, "must have the byte 0x1E before each JSON text, as the Content-Type says")
		}
	}
	for n := 0; start < end; {
		record, _, _ := bytes.Cut(b.raw[start:end], []byte{separator})
		if len(trimSpace(record)) > 0 {
			if bad := b.scanJSON(start, start+len(record), jsonx.JoinIndex(path, n)); bad != nil {
				return bad
			}
			n++
		}
		start += len(record) + 1
	}
	return nil
}
