package httpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

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

// report logs a request and calls the observer.
func (x *exchange) report(a answer, cause error, took time.Duration) {
	opts := &x.handler.opts
	line := trace.Line{TraceID: x.trace, Method: x.r.Method, Route: x.name, Status: a.status, Duration: took, Reason: x.reason, Cause: cause}
	if x.client != nil {
		line.Tenant, line.Application = x.client.TenantID(), x.client.ApplicationID()
	}
	if opts.Observer != nil {
		opts.Observer.Observe(x.ctx, RequestInfo{
			Method: trace.MethodLabel(x.r.Method), Route: x.name, Status: a.status,
			Duration: took, Replayed: a.replayed, Bytes: len(a.body) + a.streamed,
			TenantID: line.Tenant, ApplicationID: line.Application, TraceID: x.trace,
		})
	}
	line.Log(x.r.Context(), opts.Logger) // without the trace id, which the line already has
}

// traced returns the context of a request, with its trace, and the trace id.
func (h *handler) traced(r *http.Request) (context.Context, string) {
	t := trace.OfRequest(r, h.opts.Prefix, h.header.traceID)
	return trace.With(core.OneWait(r.Context()), t), t.ID
}
