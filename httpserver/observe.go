package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// Observer counts and times requests. It is called after the response was sent,
// by many goroutines at once.
type Observer interface {
	Observe(RequestInfo)
}

// RequestInfo describes a request that is done. Method and Route have few distinct
// values, so that they can label a metric.
type RequestInfo struct {
	Method   string // "other" for methods that the API does not know
	Route    string // the pattern of the path, like /tokens/{id}; "unmatched" for none
	Status   int    // 499 when the caller left before the response
	Duration time.Duration
	Replayed bool // answered from an idempotency key
	Bytes    int  // of the answer's body
}

// statusGone stands in logs and metrics for a request whose caller has left.
const statusGone = 499

// report logs a request and calls the observer.
func (x *exchange) report(a answer, cause error, took time.Duration) {
	opts := &x.handler.opts
	if opts.Observer != nil {
		opts.Observer.Observe(RequestInfo{
			Method: methodLabel(x.r.Method), Route: x.name, Status: a.status,
			Duration: took, Replayed: a.replayed, Bytes: len(a.body) + a.streamed,
		})
	}
	level := slog.LevelInfo
	if cause != nil {
		level = slog.LevelError
	}
	ctx := x.r.Context() // the attributes have the trace id already
	if !opts.Logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs, slog.String("trace_id", x.trace), slog.String("method", methodLabel(x.r.Method)),
		slog.String("route", x.name), slog.Int("status", a.status), slog.Duration("duration", took))
	if x.client != nil {
		attrs = append(attrs, slog.String("tenant_id", x.client.TenantID().String()),
			slog.String("application_id", x.client.ApplicationID().String()))
	}
	if cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	opts.Logger.LogAttrs(ctx, level, "request", attrs...)
}

// methodLabel keeps invented methods out of logs and metrics.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// maxTrace bounds a trace id that a caller chose.
const maxTrace = 128

// traceOf returns the trace id that a request came with, or a new one.
func traceOf(sent []string) string {
	if len(sent) == 1 && isTrace(sent[0]) {
		return sent[0]
	}
	return uuid.NewString()
}

// isTrace reports whether a text is short and has only visible ASCII
// characters, so that it can go into headers and logs.
func isTrace(s string) bool {
	if len(s) < 1 || len(s) > maxTrace {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

type traceKey struct{}

func withTrace(ctx context.Context, trace string) context.Context {
	return context.WithValue(ctx, traceKey{}, trace)
}

// TraceID returns the trace id of the request that a context belongs to, or "".
// With it, a slog.Handler puts the trace id on the lines of the vault's own
// logger too.
func TraceID(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}
