package relay

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Message is a request or a response of a transform.
type Message struct {
	Header http.Header
	Body   []byte
}

// Reserve reserves memory for the value of the body, and takes the turn that reading it
// needs.
func (m *Message) Reserve(ctx context.Context) error {
	if !isJSON(m.Header) {
		return core.Reserve(ctx, len(m.Body))
	}
	return core.ReserveJSON(ctx, m.Body)
}

// Await is Reserve for an operation that has had effects.
func (m *Message) Await(ctx context.Context) error {
	if !isJSON(m.Header) {
		return core.Await(ctx, len(m.Body))
	}
	return core.AwaitJSON(ctx, m.Body)
}

// Value returns the body as code sees it. If the type is application/json, it
// is the document, or null for an empty body. Otherwise it is a string.
func (m *Message) Value() (jsonx.Value, error) {
	if !isJSON(m.Header) {
		return jsonx.StringValue(string(m.Body)), nil
	}
	if len(bytes.TrimSpace(m.Body)) == 0 {
		return jsonx.NullValue(), nil
	}
	return jsonx.Parse(m.Body, jsonx.Limits{})
}

func isJSON(header http.Header) bool {
	typ, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return typ == "application/json"
}

// HeaderValue returns the headers as code sees them: an object of strings.
func (m *Message) HeaderValue() jsonx.Value {
	var members []jsonx.Member
	for name, values := range m.Header {
		members = append(members, jsonx.Member{Name: name, Value: jsonx.StringValue(strings.Join(values, ", "))})
	}
	slices.SortFunc(members, func(a, b jsonx.Member) int { return strings.Compare(a.Name, b.Name) })
	return jsonx.ObjectValue(members...)
}

// SetBody sets the body that code returned. If code did not change or return
// the body, it stays the same, byte for byte. A string becomes text, null an
// empty body, and everything else JSON.
func (m *Message) SetBody(result, given jsonx.Value) {
	switch {
	case result.IsZero() || result.Equal(given):
	case result.IsNull():
		m.Body = nil
	case result.Kind() == jsonx.String:
		m.Body = []byte(result.Text())
	default:
		m.Body = result.JSON()
		if m.Header.Get("Content-Type") == "" {
			m.Header.Set("Content-Type", "application/json")
		}
	}
}

// computed are headers that are derived from the body and the URL.
var computed = []string{"Content-Length", "Host", "Transfer-Encoding"}

var errHeaders = errors.New("headers must be an object of strings")

// SetHeader sets the headers that code returned: strings, numbers, booleans,
// or arrays of them. Without any, the headers stay. Headers with the prefix
// belong to the vault and are left out.
func (m *Message) SetHeader(result jsonx.Value, prefix string) error {
	if result.IsZero() || result.IsNull() {
		return nil
	}
	if result.Kind() != jsonx.Object {
		return errHeaders
	}
	header := http.Header{}
	for _, member := range result.Members() {
		name := http.CanonicalHeaderKey(member.Name)
		values, ok := headerTexts(member.Value)
		if !ok {
			return errHeaders
		}
		if old := m.Header[name]; len(values) == 1 && values[0] == strings.Join(old, ", ") {
			values = old // several lines that code has seen as one, such as Set-Cookie
		}
		if len(values) > 0 {
			header[name] = append(header[name], values...)
		}
	}
	egress.RemoveHopByHop(header)
	DropPrefixed(header, prefix)
	for _, name := range computed {
		header.Del(name)
	}
	if err := egress.CheckHeader(header); err != nil {
		return errors.New("a header is not allowed: " + err.Error())
	}
	m.Header = header
	return nil
}

// DropPrefixed removes the headers whose names start with a prefix.
func DropPrefixed(header http.Header, prefix string) {
	if prefix == "" {
		return
	}
	for name := range header {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			delete(header, name)
		}
	}
}

// headerTexts returns the lines of a header that code returned.
func headerTexts(v jsonx.Value) ([]string, bool) {
	switch v.Kind() {
	case jsonx.Null:
		return nil, true
	case jsonx.String, jsonx.Number:
		return []string{v.Text()}, true
	case jsonx.Bool:
		return []string{strconv.FormatBool(v.Bool())}, true
	case jsonx.Array:
		var all []string
		for _, e := range v.Elems() {
			texts, ok := headerTexts(e)
			if !ok || len(texts) != 1 {
				return nil, false
			}
			all = append(all, texts[0])
		}
		return all, true
	default:
		return nil, false
	}
}

// maxEncodings is how often a body may be compressed.
const maxEncodings = 2

// encodingsOf returns the encodings of a body, the last one applied first.
func encodingsOf(header http.Header) ([]string, error) {
	var encodings []string
	for _, line := range header["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				encodings = append(encodings, name)
			}
		}
	}
	if len(encodings) > maxEncodings {
		return nil, errors.New("has too many encodings in its Content-Encoding")
	}
	slices.Reverse(encodings)
	return encodings, nil
}

// Decode decompresses the body, so that code can read it. Charge pays for the bytes that
// have been decompressed so far. Its errors are returned, unless they mean that this is
// more than anybody may hold.
func (m *Message) Decode(limit int64, charge func(held int) error) error {
	encodings, err := encodingsOf(m.Header)
	if err != nil {
		return err
	}
	m.Header.Del("Content-Encoding")
	if len(m.Body) == 0 {
		return nil
	}
	for _, name := range encodings { // each form has the limit, because a large one can become small
		plain, err := decompressor(name, bytes.NewReader(m.Body))
		if err == nil {
			m.Body, err = ReadBody(&heldBody{from: plain, work: charge}, limit)
		}
		switch {
		case errors.Is(err, fault.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return err
		case errors.Is(err, errEncoding):
			return errEncoding
		case errors.Is(err, fault.ErrTooLarge):
			return errors.New("is too large once decompressed")
		case err != nil:
			return errCompressed
		}
	}
	return nil
}

// decompressor returns a reader of the plain form of a body.
func decompressor(encoding string, body io.Reader) (io.Reader, error) {
	from := bufio.NewReader(body)
	switch encoding {
	case "gzip", "x-gzip":
		return gzip.NewReader(from)
	case "deflate": // zlib according to the standard, but some senders omit its header
		if head, _ := from.Peek(2); len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(from)
		}
		return flate.NewReader(from), nil
	case "br":
		return brotli.NewReader(from), nil
	}
	return nil, errEncoding
}

var (
	errEncoding   = errors.New("has a Content-Encoding other than gzip, deflate and br")
	errCompressed = errors.New("is not compressed the way its Content-Encoding says")
)

// AppendValue appends the body as code sees it. If the type is JSON, a valid
// document is appended unchanged, and an empty body becomes null. Otherwise
// it is a string.
func (m *Message) AppendValue(out []byte) []byte {
	switch {
	case isJSON(m.Header) && len(bytes.TrimSpace(m.Body)) == 0:
		return append(out, "null"...)
	case isJSON(m.Header) && json.Valid(m.Body):
		return append(out, m.Body...)
	default:
		return jsonx.StringValue(string(m.Body)).Append(out)
	}
}

// ReadBody reads a body into memory. It returns [TooLarge] if the body has more
// than limit bytes.
func ReadBody(r io.Reader, limit int64) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, TooLarge(limit)
	}
	return buf.Bytes(), nil
}

// charging returns a function that reserves memory for a body that is being read, and for
// the buffer that it grows in: [core.Reserve] or [core.Await].
func charging(ctx context.Context, reserve func(context.Context, int) error) func(held int) error {
	paid := 0
	return func(held int) error {
		need := copies * held
		if need <= paid+core.LargeBody {
			return nil
		}
		if err := reserve(ctx, need-paid); err != nil {
			return err
		}
		paid = need
		return nil
	}
}

// uncharged is for bodies whose memory is counted elsewhere.
func uncharged(int) error { return nil }
