package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// ScriptCall lets running code send a request through a proxy. Its options
// are proxyKey or proxyUrl, path, query, headers, body and detokenize. The
// body is sent unchanged unless detokenize is true, because code may put the
// data of tokens in it, and data that looks like an expression must not
// become one. The result has status, headers and body. A JSON body becomes a
// value, any other body a string.
func (r *Relay) ScriptCall(ctx context.Context, as core.Caller, method string, args json.RawMessage) (json.RawMessage, error) {
	p := &Call{Method: method}
	m := &Message{Header: http.Header{}}
	if err := fault.Of(form.ReadText(args, func(r *form.Reader) { p.read(r, m) })); err != nil {
		return nil, err
	}
	p.Header, p.Body, p.ContentLength = m.Header, bytes.NewReader(m.Body), int64(len(m.Body))
	answer, err := core.Do(ctx, as, &core.VerbInvokeProxy, func(ctx context.Context, op *core.Op) (*Answer, error) { return r.Call(ctx, op, p) })
	if err != nil {
		return nil, err
	}
	return answer.json(int64(r.Vault.MaxBytes), core.LineageOf(ctx).Bytes)
}

// read reads the options of a call of running code.
func (p *Call) read(r *form.Reader, m *Message) {
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
	p.asIs = !r.Bool("detokenize", false)
}

// json returns a response for running code. Its memory is counted. A JSON
// body stays text, because a tree would take many times the memory.
func (a *Answer) json(limit int64, counted *core.RunBytes) (json.RawMessage, error) {
	defer a.Body.Close()
	raw, err := counted.Read(a.Body, limit+1)
	defer func() { counted.Release(len(raw)) }()
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, TooLarge(limit)
	}
	m := &Message{Header: a.Header, Body: raw}
	if err := m.Decode(limit, uncharged); err != nil {
		return nil, fault.New(fault.ErrUnreachable, "the destination's response cannot be read: it %s", err)
	}
	if err := counted.Add(len(m.Body)); err != nil {
		return nil, err
	}
	defer counted.Release(len(m.Body))
	out := fmt.Appendf(nil, `{"status":%d,"headers":%s,"body":`, a.Status, m.HeaderValue().JSON())
	return append(m.AppendValue(out), '}'), nil
}
