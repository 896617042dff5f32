// Package trace connects the requests that belong to one call. A context
// carries the trace id of the call, its W3C trace context, and the prefix of
// the API's headers, so that outgoing requests of the call have the same
// trace in the same form.
package trace

import (
	"cmp"
	"context"
	"net/http"
	"strings"
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
