package vault

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/limits"
	"github.com/seed-72ea4aab/vault/internal/relay"
)

// proxyOperation lets running code send a request through a proxy, with the
// options proxyKey or proxyUrl, path, query, headers and body. The result has
// status, headers and body; the body is a value when it is JSON, else a string.
func proxyOperation(method string) func(context.Context, *Client, JSON) (any, error) {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		p := ProxyCall{Method: method, Header: http.Header{}}
		m := &relay.Message{Header: p.Header}
		if err := readObject(args, func(r *form.Reader) { readProxyOptions(r, &p, m) }); err != nil {
			return nil, err
		}
		p.Header, p.Body, p.ContentLength = m.Header, bytes.NewReader(m.Body), int64(len(m.Body))
		answer, err := c.InvokeProxy(ctx, p)
		if err != nil {
			return nil, err
		}
		return readAnswer(answer, int64(c.v.cfg.MaxBytes), lineageOf(ctx).bytes)
	}
}

func readProxyOptions(r *form.Reader, p *ProxyCall, m *relay.Message) {
	p.Key, p.URL, p.Path = r.Text("proxyKey"), r.Text("proxyUrl"), r.Text("path")
	if v := r.Value("query"); v.Kind() == jsonx.Object {
		pairs := url.Values{}
		for name, value := range r.TextMap("query") {
			pairs.Set(name, value)
		}
		p.Query = pairs.Encode()
	} else {
		p.Query = strings.TrimPrefix(r.Text("query"), "?")
	}
	if err := m.SetHeader(r.Value("headers"), ""); err != nil {
		r.Problem("headers", "must be an object of header names and strings")
	}
	m.SetBody(r.Value("body"), jsonx.Value{})
}

// readAnswer reads an answer for running code. What it holds of it counts, and a
// body that is JSON stays a text: as a tree it would take many times the memory.
func readAnswer(answer *ProxyAnswer, limit int64, counted *limits.Bytes) (JSON, error) {
	defer answer.Body.Close()
	raw, err := counted.Read(answer.Body, limit+1)
	defer func() { counted.Release(len(raw)) }()
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, errBodyTooLarge(limit)
	}
	m := &relay.Message{Header: answer.Header, Body: raw}
	if err := m.Decode(limit); err != nil {
		return nil, errorf(ErrUnreachable, "The answer of the destination cannot be read: it %s.", err)
	}
	if err := counted.Hold(len(m.Body)); err != nil {
		return nil, err
	}
	defer counted.Release(len(m.Body))
	out := fmt.Appendf(nil, `{"status":%d,"headers":%s,"body":`, answer.Status, m.HeaderValue().JSON())
	return append(m.AppendValue(out), '}'), nil
}
