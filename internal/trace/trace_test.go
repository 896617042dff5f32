package trace_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

const (
	id     = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent = "00-" + id + "-00f067aa0ba902b7-01"
)

func TestParentID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		parent:                       true,
		"cc" + parent[2:]:            true,
		"cc" + parent[2:] + "-what":  true,
		"":                           false,
		parent[:54]:                  false,
		parent + "-what":             false,
		"cc" + parent[2:] + "what":   false,
		"cc" + parent[2:] + "-a\r\n": false,
		"cc" + parent[2:] + "-" + strings.Repeat("x", 200): false,
		"ff" + parent[2:]:                                        false,
		strings.ToUpper(parent):                                  false,
		strings.ReplaceAll(parent, "-", "_"):                     false,
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01": false,
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":       false,
		"00-" + id + "-00f067aa0ba902b7-zz":                      false,
		"0x-" + id + "-00f067aa0ba902b7-01":                      false,
		"00-" + strings.Repeat("é", 16) + "-00f067aa0ba902b7-01": false,
		" 00-" + id + "-00f067aa0ba902b7-01":                     false,
		"00-" + id[:31] + "g-00f067aa0ba902b7-01":                false,
		"00-" + id + "-00f067aa0ba902bG-01":                      false,
	} {
		got, ok := trace.ParentID(text)
		if ok != want || ok && got != id {
			t.Errorf("%q: %q, %t", text, got, ok)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"a": true, "~!": true, strings.Repeat("x", 128): true, "": false, "a b": false, "a\n": false, "é": false, strings.Repeat("x", 129): false} {
		must.Same(t, fmt.Sprintf("ValidID(%q)", text), want, trace.ValidID(text))
	}
	for text, want := range map[string]bool{"": true, "a=1, b=2": true, "a\n": false, "é": false, strings.Repeat("x", 513): false} {
		must.Same(t, fmt.Sprintf("ValidState(%q)", text), want, trace.ValidState(text))
	}
}

func TestSetHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trace trace.Trace
		want  http.Header
	}{
		"nothing":        {trace.Trace{}, http.Header{"Tracestate": {"old"}}},
		"an id":          {trace.Trace{ID: "a"}, http.Header{"Svc-Trace-Id": {"a"}, "Tracestate": {"old"}}},
		"another prefix": {trace.Trace{ID: "a", Prefix: "BT-"}, http.Header{"Bt-Trace-Id": {"a"}, "Tracestate": {"old"}}},
		"a parent":       {trace.Trace{Parent: parent}, http.Header{"Traceparent": {parent}}},
		"a state":        {trace.Trace{Parent: parent, State: "a=1"}, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}}},
	} {
		got := http.Header{"Tracestate": {"old"}}
		c.trace.SetHeaders(got)
		must.Same(t, name, c.want, got)
	}
	ctx := trace.With(t.Context(), trace.Trace{Prefix: "BT-"})
	if trace.Prefix(ctx) != "BT-" || trace.Prefix(t.Context()) != "SVC-" {
		t.Error("the prefix differs from the context's")
	}
}
