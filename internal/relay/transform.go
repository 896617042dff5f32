package relay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// transformRequest runs the request transform and sets its result as the
// request.
func (inv *invocation) transformRequest(ctx context.Context) error {
	m := &inv.out.Message
	encodings, _ := encodingsOf(m.Header) // Decode returns the error
	err := m.Decode(inv.MaxBody, charging(ctx, core.Reserve))
	switch {
	case errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
		return cmp.Or(ctx.Err(), err)
	case err != nil:
		return fault.Field("", "%s", err.Error())
	}
	if len(encodings) > 0 { // otherwise its value was charged for when it arrived
		if err := m.Reserve(ctx); err != nil {
			return err
		}
	}
	body, err := m.Value()
	if err != nil {
		return fault.Input(err)
	}
	query := inv.Query
	if query != "" {
		query = "?" + query
	}
	args := jsonx.ObjectValue(
		jsonx.Member{Name: "body", Value: body}, jsonx.Member{Name: "headers", Value: m.HeaderValue()},
		jsonx.Member{Name: "method", Value: jsonx.StringValue(inv.Method)},
		jsonx.Member{Name: "path", Value: jsonx.StringValue(inv.Path)},
		jsonx.Member{Name: "query", Value: jsonx.StringValue(query)},
	)
	return inv.transform(ctx, inv.proxy.RequestTransform, m, body, args)
}

// transformResponse runs the response transform and returns its result as the
// response.
func (inv *invocation) transformResponse(ctx context.Context, res *http.Response) (*Answer, error) {
	raw, err := ReadBody(&heldBody{from: res.Body, work: charging(ctx, core.Await)}, inv.MaxBody)
	res.Body.Close() // the code may need the slot of this request
	if errors.Is(err, fault.ErrTooLarge) && !errors.Is(err, admission.ErrNever) {
		return nil, fault.New(fault.ErrUnreachable, "the destination's response has more than %d bytes, which is too much for a response transform", inv.MaxBody)
	}
	if err != nil {
		return nil, err
	}
	m := &Message{Header: res.Header, Body: raw}
	m.Header.Del("Content-Length")
	err = m.Decode(inv.MaxBody, charging(ctx, core.Await))
	switch {
	case errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
		return nil, cmp.Or(ctx.Err(), err)
	case err != nil:
		return nil, fault.New(fault.ErrUnreachable, "the destination's response cannot be transformed: it %s", err)
	}
	if err := m.Await(ctx); err != nil {
		return nil, err
	}
	body, err := m.Value()
	if err != nil {
		return nil, fault.New(fault.ErrUnreachable, "the destination's response is not JSON, although its Content-Type says so")
	}
	args := jsonx.ObjectValue(jsonx.Member{Name: "body", Value: body}, jsonx.Member{Name: "headers", Value: m.HeaderValue()})
	if err := inv.transform(ctx, inv.proxy.ResponseTransform, m, body, args); err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode == http.StatusNoContent || inv.Method == http.MethodHead:
		m.Body = nil
	default:
		m.Header.Set("Content-Length", strconv.Itoa(len(m.Body)))
	}
	return &Answer{Status: res.StatusCode, Header: m.Header, Body: io.NopCloser(bytes.NewReader(m.Body))}, nil
}

// transform runs code on a message and replaces the message by the result.
func (inv *invocation) transform(ctx context.Context, t *Transform, m *Message, body, args jsonx.Value) error {
	out, err := inv.relay.Runs.Run(ctx, inv.Op, runs.Code{
		Entity: core.Entity{Type: audit.Proxy, ID: inv.proxy.ID.String()}, Name: inv.proxy.Name, Source: t.Code, Args: args,
		Configuration: inv.proxy.Configuration, Application: inv.proxy.ApplicationID, Timeout: runs.SyncTimeout,
	})
	if err != nil {
		return err
	}
	if err := core.AwaitJSON(ctx, out); err != nil {
		return err
	}
	result, err := jsonx.Parse(out, runs.Returned)
	if err != nil || result.Kind() != jsonx.Object {
		return runs.BadResult("the function must return an object with body and headers")
	}
	if err := m.SetHeader(result.Get("headers"), trace.Prefix(ctx)); err != nil {
		return runs.BadResult(err.Error())
	}
	m.SetBody(result.Get("body"), body)
	return nil
}
