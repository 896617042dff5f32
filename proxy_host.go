package vault

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// proxyOperation lets running code send a request through a proxy, with the
// options proxyKey or proxyUrl, path, query, headers and body. The result has
// status, headers and body; the body is a value when it is JSON, else a string.
func proxyOperation(method string) func(context.Context, *Client, JSON) (any, error) {
	return func(ctx context.Context, c *Client, args JSON) (any, error) {
		p := ProxyCall{Method: method, Header: http.Header{}}
		m := &message{header: p.Header}
		if err := readObject(args, func(r *fieldReader) { readProxyOptions(r, &p, m) }); err != nil {
			return nil, err
		}
		p.Header, p.Body, p.ContentLength = m.header, bytes.NewReader(m.body), int64(len(m.body))
		answer, err := c.InvokeProxy(ctx, p)
		if err != nil {
			return nil, err
		}
		return readAnswer(answer, int64(c.v.cfg.MaxBytes))
	}
}

func readProxyOptions(r *fieldReader, p *ProxyCall, m *message) {
	p.Key, p.URL, p.Path = r.text("proxyKey"), r.text("proxyUrl"), r.text("path")
	if v := r.value("query"); v.Kind() == jsonx.Object {
		pairs := url.Values{}
		for name, value := range r.textMap("query") {
			pairs.Set(name, value)
		}
		p.Query = pairs.Encode()
	} else {
		p.Query = strings.TrimPrefix(r.text("query"), "?")
	}
	if err := m.setHeader(r.value("headers"), ""); err != nil {
		r.bad.add("headers", "must be an object of header names and strings")
	}
	m.setBody(r.value("body"), jsonx.Value{})
}

// readAnswer reads an answer for running code.
func readAnswer(answer *ProxyAnswer, limit int64) (any, error) {
	defer answer.Body.Close()
	raw, err := readBody(answer.Body, limit)
	if err != nil {
		return nil, err
	}
	m := &message{header: answer.Header, body: raw}
	if err := m.decode(limit); err != nil {
		return nil, errorf(ErrUnreachable, "The answer of the destination cannot be read: it %s.", err)
	}
	body, err := m.value()
	if err != nil {
		body = jsonx.StringValue(string(m.body)) // not the JSON that it says it is
	}
	return jsonx.ObjectValue(
		jsonx.Member{Name: "status", Value: jsonx.IntValue(int64(answer.Status))},
		jsonx.Member{Name: "headers", Value: m.headerValue()}, jsonx.Member{Name: "body", Value: body},
	), nil
}
