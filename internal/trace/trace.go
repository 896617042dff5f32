// Package trace connects the requests that belong to one call. A context
// carries the trace id of the call, its W3C trace context, and the prefix of
// the API's headers, so that outgoing requests of the call have the same
// trace in the same form.
package trace

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

// DefaultPrefix starts the names of the API's headers.
const DefaultPrefix = "SVC-"

// Trace is the trace of a call. Fields may be empty.
type Trace struct {
	ID     string `json:"id,omitempty"`
	Parent string `json:"parent,omitempty"` // a W3C traceparent
	State  string `json:"state,omitempty"`  // the W3C tracestate of Parent
	Prefix string `json:"prefix,omitempty"` // of the API's headers; empty for the default
}

type key struct{}

// With returns a context that carries a trace.
func With(ctx context.Context, t Trace) context.Context { return &traced{ctx, t} }

// traced is a context with its trace, in one allocation.
type traced struct {
	context.Context
	trace Trace
}

// Value implements [context.Context].
func (t *traced) Value(k any) any {
	if k == (key{}) {
		return &t.trace
	}
	return t.Context.Value(k)
}

// Of returns the trace that a context carries.
func Of(ctx context.Context) Trace {
	if t, ok := ctx.Value(key{}).(*Trace); ok {
		return *t
	}
	return Trace{}
}

// SetID sets the trace id if it is valid.
func (t *Trace) SetID(id string) {
	if ValidID(id) {
		t.ID = id
	}
}

// SetParent continues a W3C trace, whose state may be empty. If there is no
// trace id yet, the trace takes its id. A malformed parent is ignored.
func (t *Trace) SetParent(parent, state string) {
	id, ok := ParentID(parent)
	if !ok {
		return
	}
	t.Parent, t.State = parent, ""
	if ValidState(state) {
		t.State = state
	}
	if t.ID == "" {
		t.ID = id
	}
}

// Prefix returns the prefix of the API's headers for a call.
func Prefix(ctx context.Context) string {
	return cmp.Or(Of(ctx).Prefix, DefaultPrefix)
}

// Names of the W3C Trace Context headers, in canonical form.
const (
	HeaderParent = "Traceparent"
	HeaderState  = "Tracestate"
)

// SetHeaders sets the trace in the headers of a request.
func (t Trace) SetHeaders(header http.Header) {
	if t.ID != "" {
		header.Set(cmp.Or(t.Prefix, DefaultPrefix)+"TRACE-ID", t.ID)
	}
	if t.Parent == "" {
		return
	}
	header.Set(HeaderParent, t.Parent)
	header.Del(HeaderState) // it belongs to another parent
	if t.State != "" {
		header.Set(HeaderState, t.State)
	}
}

// maxID is the maximum length of a trace id.
const maxID = 128

// ValidID reports whether a text can be a trace id. It must be short and
// visible ASCII, so that it can be in headers and logs.
func ValidID(s string) bool {
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// The parts of a traceparent: 00-<trace id>-<parent id>-<flags>.
const (
	parentLength = 55
	idStart      = 3
	idEnd        = 35
	spanStart    = 36
	spanEnd      = 52
	flagsStart   = 53
)

// ParentID returns the trace id of a traceparent, and whether it is well
// formed. Later versions may append more parts.
func ParentID(parent string) (string, bool) {
	if len(parent) < parentLength || len(parent) > maxID || parent[2] != '-' || parent[idEnd] != '-' || parent[spanEnd] != '-' {
		return "", false
	}
	version, id, span, flags := parent[:2], parent[idStart:idEnd], parent[spanStart:spanEnd], parent[flagsStart:parentLength]
	if !isHex(version) || !isHex(id) || !isHex(span) || !isHex(flags) || version == "ff" || isZero(id) || isZero(span) {
		return "", false
	}
	if rest := parent[parentLength:]; rest != "" && (version == "00" || rest[0] != '-' || !ValidID(rest)) {
		return "", false
	}
	return id, true
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isZero(s string) bool { return strings.Trim(s, "0") == "" }

// maxState is the maximum length of a tracestate that must be propagated.
const maxState = 512

// ValidState reports whether a text can be propagated as a tracestate.
func ValidState(s string) bool {
	return len(s) <= maxState && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

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
	Reason                 string    // why a JWT was refused
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
	if l.Reason != "" {
		line.AddAttrs(slog.String("reason", l.Reason))
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
