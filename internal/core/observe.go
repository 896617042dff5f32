package core

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/trace"
)

// Event describes a piece of work for an observer. It never holds a value.
type Event struct {
	Kind     string
	Name     string
	Method   string // the verb of a call; else empty
	TenantID uuid.UUID
	EntityID uuid.UUID
	Trace    trace.Trace
	Header   http.Header // of a request to a destination; else nil
}

// KindCall is the kind of the event of a verb.
const KindCall = "call"

// Tell reports work that begins to the observer, if there is one. The returned
// function is called with the outcome when the work has ended.
func (v *Vault) Tell(ctx context.Context, e Event) (context.Context, func(error)) {
	if v.Observe == nil {
		return ctx, func(error) {}
	}
	e.Trace = trace.Of(ctx)
	return v.Observe(ctx, e)
}

// tellCall reports a verb to the observer. The function is nil without one.
func (c *Caller) tellCall(ctx context.Context, verb *Verb) (context.Context, func(error)) {
	if c.Vault.Observe == nil || verb.Kind == "" || verb.Again {
		return ctx, nil
	}
	held, _ := ctx.Value(heldCallKey{}).(*heldCall)
	ctx, end := c.Vault.Tell(ctx, Event{Kind: KindCall, Name: verb.Kind, Method: verb.Name, TenantID: c.Tenant()})
	if held != nil && held.begun.CompareAndSwap(false, true) {
		return ctx, held.keep(end) // it takes as long as its commit
	}
	return ctx, end
}

// heldCall is the first call inside Once. It ends when Once ends.
type heldCall struct {
	begun atomic.Bool
	end   func(error)
}

type heldCallKey struct{}

// keep returns the end of the call itself, which only keeps the end for later.
func (h *heldCall) keep(end func(error)) func(error) {
	return func(error) { h.end = end }
}

// TellOnce returns a context for the work of Once. Its first call ends, for the
// observer, when the returned function is called with the error of Once.
func (v *Vault) TellOnce(ctx context.Context) (context.Context, func(error)) {
	if v.Observe == nil {
		return ctx, func(error) {}
	}
	held := &heldCall{}
	return context.WithValue(ctx, heldCallKey{}, held), func(err error) {
		if held.end != nil {
			held.end(err)
		}
	}
}
