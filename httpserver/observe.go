package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// Observer counts and times requests. It is called after the response was
// sent, by many goroutines concurrently.
type Observer interface {
	// Observe gets the context of the request, which has its trace: see
	// [vault.TraceID].
	Observe(context.Context, RequestInfo)
}

// RequestInfo describes a completed request. Method and Route have few
// distinct values, so that they can label a metric.
type RequestInfo struct {
	Method   string // "other" for methods that the API does not know
	Route    string // the pattern of the path, such as /tokens/{id}, or "unmatched"
	Status   int    // 499 if the caller left before the response
	Duration time.Duration
	Replayed bool // the response of an earlier request with the same idempotency key
	Bytes    int  // size of the response body

	// TenantID and ApplicationID identify the caller. They are zero if the
	// caller was not authenticated. TraceID is the trace id in the response.
	TenantID, ApplicationID uuid.UUID
	TraceID                 string
}

// statusGone is the status in logs and metrics if the caller left early.
const statusGone = 499

// report logs a request and calls the observer.
func (x *exchange) report(a answer, cause error, took time.Duration) {
	opts := &x.handler.opts
	if opts.Observer != nil {
		info := RequestInfo{
			Method: methodLabel(x.r.Method), Route: x.name, Status: a.status,
			Duration: took, Replayed: a.replayed, Bytes: len(a.body) + a.streamed, TraceID: x.trace,
		}
		if x.client != nil {
			info.TenantID, info.ApplicationID = x.client.TenantID(), x.client.ApplicationID()
		}
		opts.Observer.Observe(x.ctx, info)
	}
	level := slog.LevelInfo
	if cause != nil {
		level = slog.LevelError
	}
	ctx := x.r.Context() // without the trace id, which the attributes already have
	if !opts.Logger.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, "request", 0) // LogAttrs would look up its caller
	line.AddAttrs(slog.String("trace_id", x.trace), slog.String("method", methodLabel(x.r.Method)),
		slog.String("route", x.name), slog.Int("status", a.status), slog.Duration("duration", took))
	if x.client != nil {
		line.AddAttrs(slog.String("tenant_id", x.client.TenantID().String()),
			slog.String("application_id", x.client.ApplicationID().String()))
	}
	if cause != nil {
		line.AddAttrs(slog.String("error", cause.Error()))
	}
	_ = opts.Logger.Handler().Handle(ctx, line)
}

// methodLabel returns "other" for unknown methods, to keep invented names out
// of logs and metrics.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// traced returns the context of a request, with its trace, and the trace id.
// The id comes from the first of these that exists: the trace id header, the
// W3C trace context, the request's context. Otherwise it is new.
func (h *handler) traced(r *http.Request) (context.Context, string) {
	t := trace.Trace{Prefix: h.opts.Prefix}
	if sent := r.Header[h.header.traceID]; len(sent) == 1 {
		t.SetID(sent[0])
	}
	if sent := r.Header[trace.HeaderParent]; len(sent) == 1 {
		t.SetParent(sent[0], strings.Join(r.Header[trace.HeaderState], ","))
	}
	if t.ID == "" {
		t.ID = vault.TraceID(r.Context())
	}
	if t.ID == "" {
		t.ID = uuid.NewString()
	}
	return trace.With(core.OneWait(r.Context()), t), t.ID
}
