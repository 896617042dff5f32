package vault

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/trace"
)

// WithTraceID returns a context whose calls belong to a trace of the program's
// own: the id goes to the destinations of proxies and with callbacks, in the
// header SVC-TRACE-ID, and to the [Observer]. It has 1 to 128 visible ASCII
// characters; another one changes nothing.
//
// Package httpserver does this for each request, and package vaultclient sends
// the id to the server.
func WithTraceID(ctx context.Context, id string) context.Context {
	t := trace.Of(ctx)
	t.SetID(id)
	return trace.With(ctx, t)
}

// TraceID returns the trace id of the call that a context belongs to, or "".
// With it, a slog.Handler puts the trace id on the lines of [Config.Logger].
func TraceID(ctx context.Context) string { return trace.Of(ctx).ID }

// WithTraceparent returns a context whose calls carry on a W3C trace: its
// headers traceparent and tracestate go to the destinations of proxies and with
// callbacks. Its trace id is also the one of [WithTraceID], unless the context
// has one already. A traceparent that is malformed changes nothing; the
// tracestate may be empty.
func WithTraceparent(ctx context.Context, traceparent, tracestate string) context.Context {
	t := trace.Of(ctx)
	t.SetParent(traceparent, tracestate)
	return trace.With(ctx, t)
}
