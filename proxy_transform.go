package vault

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/script"
)

// message is a request or an answer on its way through a transform.
type message struct {
	header http.Header
	body   []byte
}

// transformRequest runs the request transform: what it returns is sent.
func (inv *invocation) transformRequest(ctx context.Context) error {
	m := &inv.out
	if err := m.decode(inv.MaxBody); err != nil {
		return invalid("", "%s", err.Error())
	}
	body, err := m.value()
	if err != nil {
		return err
	}
	query := inv.Query
	if query != "" {
		query = "?" + query
	}
	args := jsonx.ObjectValue(
		jsonx.Member{Name: "body", Value: body}, jsonx.Member{Name: "headers", Value: m.headerValue()},
		jsonx.Member{Name: "method", Value: jsonx.StringValue(inv.Method)},
		jsonx.Member{Name: "path", Value: jsonx.StringValue(inv.Path)},
		jsonx.Member{Name: "query", Value: jsonx.StringValue(query)},
	)
	return inv.transform(ctx, inv.proxy.RequestTransform, m, body, args)
}

// transformResponse runs the response transform: what it returns is the answer.
func (inv *invocation) transformResponse(ctx context.Context, res *http.Response) (*ProxyAnswer, error) {
	if body, ok := res.Body.(*answerBody); ok {
		body.hurry()
	}
	raw, err := readBody(res.Body, inv.MaxBody)
	res.Body.Close() // the code may need the place of this request for its own
	if errors.Is(err, ErrTooLarge) {
		return nil, errorf(ErrUnreachable, "The answer of the destination has more than %d bytes, which is too much for a response transform.", inv.MaxBody)
	}
	if err != nil {
		return nil, err
	}
	m := &message{header: res.Header, body: raw}
	m.header.Del("Content-Length")
	if err := m.decode(inv.MaxBody); err != nil {
		return nil, errorf(ErrUnreachable, "The answer of the destination cannot be transformed: it %s.", err)
	}
	body, err := m.value()
	if err != nil {
		return nil, errorf(ErrUnreachable, "The answer of the destination is not the JSON that its Content-Type says.")
	}
	args := jsonx.ObjectValue(jsonx.Member{Name: "body", Value: body}, jsonx.Member{Name: "headers", Value: m.headerValue()})
	if err := inv.transform(ctx, inv.proxy.ResponseTransform, m, body, args); err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode == http.StatusNoContent || inv.Method == http.MethodHead:
		m.body = nil
	default:
		m.header.Set("Content-Length", strconv.Itoa(len(m.body)))
	}
	return &ProxyAnswer{Status: res.StatusCode, Header: m.header, Body: io.NopCloser(bytes.NewReader(m.body))}, nil
}

// transform runs code on a message and puts what it returns in its place.
func (inv *invocation) transform(ctx context.Context, t *ProxyTransform, m *message, body, args jsonx.Value) error {
	s := codeRun{
		entity: entity{kindProxy, inv.proxy.ID.String()}, name: inv.proxy.Name, code: t.Code, args: args,
		configuration: inv.proxy.Configuration, timeout: syncTimeout,
	}
	if inv.proxy.ApplicationID != nil {
		s.application = &ApplicationRef{*inv.proxy.ApplicationID}
	}
	out, err := inv.runCode(ctx, s)
	if err != nil {
		return err
	}
	result, err := jsonx.Parse(out, storedLimits)
	if err != nil || result.Kind() != jsonx.Object {
		return badResult("the function must return an object with body and headers")
	}
	if err := m.setHeader(result.Get("headers"), inv.OwnPrefix); err != nil {
		return err
	}
	m.setBody(result.Get("body"), body)
	return nil
}

// badResult is an error about what code returned.
func badResult(text string) error {
	return &script.Error{Kind: script.Output, Status: http.StatusInternalServerError, Title: script.DefaultTitle,
		Messages: map[string][]string{"error": {text}}}
}

// value returns the body as code sees it: the document when the type is
// application/json, and null for an empty one; else a string.
func (m *message) value() (jsonx.Value, error) {
	if !isJSON(m.header) {
		return jsonx.StringValue(string(m.body)), nil
	}
	if len(bytes.TrimSpace(m.body)) == 0 {
		return jsonx.NullValue(), nil
	}
	v, err := jsonx.Parse(m.body, jsonx.Limits{})
	if err != nil {
		return v, invalidErr(err)
	}
	return v, nil
}

func isJSON(header http.Header) bool {
	typ, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return typ == "application/json"
}

// headerValue returns the headers as code sees them: an object of strings.
func (m *message) headerValue() jsonx.Value {
	var members []jsonx.Member
	for name, values := range m.header {
		members = append(members, jsonx.Member{Name: name, Value: jsonx.StringValue(strings.Join(values, ", "))})
	}
	slices.SortFunc(members, func(a, b jsonx.Member) int { return strings.Compare(a.Name, b.Name) })
	return jsonx.ObjectValue(members...)
}

// setBody takes the body that code returned. One that it did not change stays
// as it was, byte for byte; so does one that it did not return. Text is taken
// as it is, everything else as JSON, and null is no body.
func (m *message) setBody(result, given jsonx.Value) {
	switch {
	case result.IsZero() || result.Equal(given):
	case result.IsNull():
		m.body = nil
	case result.Kind() == jsonx.String:
		m.body = []byte(result.Text())
	default:
		m.body = result.JSON()
		if m.header.Get("Content-Type") == "" {
			m.header.Set("Content-Type", "application/json")
		}
	}
}

// computed are headers that are made anew for what is sent.
var computed = []string{"Content-Length", "Host", "Transfer-Encoding"}

// setHeader takes the headers that code returned: strings, numbers, booleans,
// or arrays of them. Without any the headers stay.
func (m *message) setHeader(result jsonx.Value, prefix string) error {
	if result.IsZero() || result.IsNull() {
		return nil
	}
	if result.Kind() != jsonx.Object {
		return badResult("headers must be an object of strings")
	}
	header := http.Header{}
	for _, member := range result.Members() {
		name := http.CanonicalHeaderKey(member.Name)
		values, ok := headerTexts(member.Value)
		if !ok {
			return badResult("headers must be an object of strings")
		}
		if old := m.header[name]; len(values) == 1 && values[0] == strings.Join(old, ", ") {
			values = old // lines that code has seen as one, like those of Set-Cookie
		}
		if len(values) > 0 {
			header[name] = append(header[name], values...)
		}
	}
	egress.RemoveHopByHop(header)
	dropOwn(header, prefix)
	for _, name := range computed {
		header.Del(name)
	}
	if err := egress.CheckHeader(header); err != nil {
		return badResult("a header is not allowed: " + err.Error())
	}
	m.header = header
	return nil
}

// headerTexts returns the lines of a header that code wrote.
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

// maxEncodings bounds how often a body may be compressed.
const maxEncodings = 2

// decode decompresses the body, so that code can read it.
func (m *message) decode(limit int64) error {
	var encodings []string
	for _, line := range m.header["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				encodings = append(encodings, name)
			}
		}
	}
	if len(encodings) > maxEncodings {
		return errors.New("is encoded too often")
	}
	m.header.Del("Content-Encoding")
	if len(m.body) == 0 {
		return nil
	}
	for _, name := range slices.Backward(encodings) {
		plain, err := decompress(name, m.body, limit)
		if err != nil {
			return err
		}
		m.body = plain
	}
	return nil
}

func decompress(encoding string, body []byte, limit int64) ([]byte, error) {
	var r io.Reader
	var err error
	switch encoding {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate": // zlib by the book, but some senders leave its frame out
		if r, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
			r, err = flate.NewReader(bytes.NewReader(body)), nil
		}
	default:
		return nil, errors.New("has a Content-Encoding other than gzip and deflate")
	}
	if err == nil {
		body, err = readBody(r, limit)
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, errors.New("is too large when it is decompressed")
	case err != nil:
		return nil, errors.New("is not compressed as its Content-Encoding says")
	}
	return body, nil
}
