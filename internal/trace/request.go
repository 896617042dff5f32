package trace

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// OfRequest returns the trace of a request. Its id comes from the first of these
// that exists: the header idHeader, the W3C trace context, the request's context.
// Otherwise it is new.
func OfRequest(r *http.Request, prefix, idHeader string) Trace {
	t := Trace{Prefix: prefix}
	if sent := r.Header[idHeader]; len(sent) == 1 {
		t.SetID(sent[0])
	}
	if sent := r.Header[HeaderParent]; len(sent) == 1 {
		t.SetParent(sent[0], strings.Join(r.Header[HeaderState], ","))
	}
	if t.ID == "" {
		t.ID = Of(r.Context()).ID
	}
	if t.ID == "" {
		t.ID = uuid.NewString()
	}
	return t
}

// StatusGone is the status in logs and metrics if the caller left early.
const StatusGone = 499

// Line is the log line of a request. It has no body, query, header or key.
type Line struct {
	TraceID, Method, Route string
	Status                 int
	Duration               time.Duration
	Tenant, Application    uuid.UUID // zero if the caller is not known
	Cause                  error     // nil unless the server failed
}

// Log writes the line.
func (l *Line) Log(ctx context.Context, logger *slog.Logger) {
	level := slog.LevelInfo
	if l.Cause != nil {
		level = slog.LevelError
	}
	if !logger.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, "request", 0) // LogAttrs would look up its caller
	line.AddAttrs(slog.String("trace_id", l.TraceID), slog.String("method", MethodLabel(l.Method)),
		slog.String("route", l.Route), slog.Int("status", l.Status), slog.Duration("duration", l.Duration))
	if l.Tenant != (uuid.UUID{}) {
		line.AddAttrs(slog.String("tenant_id", l.Tenant.String()), slog.String("application_id", l.Application.String()))
	}
	if l.Cause != nil {
		line.AddAttrs(slog.String("error", l.Cause.Error()))
	}
	_ = logger.Handler().Handle(ctx, line)
}

// MethodLabel returns "other" for unknown methods, to keep invented names out of
// logs and metrics.
func MethodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect:
		return method
	}
	return "other"
}
