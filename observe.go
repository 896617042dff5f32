package vault

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/trace"
)

// Observer is told of the work of a vault: what it does for callers, what it does
// by itself, and what it asks others for. The module otelvault has one for
// OpenTelemetry, and package console one whose figures its pages show; [Observers]
// joins several. It is called by many goroutines at once, and must not block.
type Observer interface {
	// Start is called when a piece of work begins. It returns the context that
	// the work goes on with, and a function that is called with the outcome when
	// it has ended.
	Start(ctx context.Context, w Work) (context.Context, func(error))
}

// WorkKind is a kind of work that an [Observer] is told of.
type WorkKind string

// The kinds of work.
const (
	WorkJob    WorkKind = "job"    // a step of an asynchronous run: run, deliver
	WorkSweep  WorkKind = "sweep"  // a sweep of what has expired
	WorkEgress WorkKind = "egress" // a request to a destination, until its answer begins; named by its method
	WorkKey    WorkKind = "key"    // a call of the master key: encrypt, decrypt
	WorkRun    WorkKind = "run"    // a run of tenants' code: reactor, proxy
	WorkCall   WorkKind = "call"   // a client's operation on tokens: create, read, update, delete, react, proxy
)

// Names of [WorkCall].
const (
	callCreate = "create"
	callRead   = "read"
	callUpdate = "update"
	callDelete = "delete"
	callReact  = "react"
	callProxy  = "proxy"
)

// Work is a piece of work. It never holds a value.
type Work struct {
	Kind WorkKind
	// Name says more within the kind. It has few distinct values, so that it can
	// label a metric.
	Name     string
	TenantID uuid.UUID // zero for work that is not one tenant's
	EntityID uuid.UUID // the reactor or proxy of a run; else zero
	// TraceID is that of the request which the work is for, and Traceparent the
	// W3C trace context that it came with: see [WithTraceparent]. A job has those
	// of the request that it was left by. They may be empty.
	TraceID, Traceparent string
	// Header is that of a request to a destination, and nil for other work. The
	// observer may set the headers traceparent and tracestate in it.
	Header http.Header
}

// observe tells the observer, if there is one, of work that begins.
func (cfg *Config) observe(ctx context.Context, w Work) (context.Context, func(error)) {
	if cfg.Observer == nil {
		return ctx, func(error) {}
	}
	t := trace.Of(ctx)
	w.TraceID, w.Traceparent = t.ID, t.Parent
	return cfg.Observer.Start(ctx, w)
}

// Observers returns an observer that tells several, in their order. Those that
// are nil are left out.
func Observers(all ...Observer) Observer {
	var some observers
	for _, o := range all {
		if o != nil {
			some = append(some, o)
		}
	}
	if len(some) == 1 {
		return some[0]
	}
	return some
}

type observers []Observer

// Start implements Observer.
func (all observers) Start(ctx context.Context, w Work) (context.Context, func(error)) {
	ends := make([]func(error), len(all))
	for i, o := range all {
		ctx, ends[i] = o.Start(ctx, w)
	}
	return ctx, func(err error) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](err)
		}
	}
}

// observed carries out a client's operation on tokens, and tells the observer of
// it, if there is one.
func observed[T any](ctx context.Context, c *Client, name string, do func(context.Context) (T, error)) (T, error) {
	if c.v.cfg.Observer == nil {
		return do(ctx)
	}
	held, _ := ctx.Value(heldCallKey{}).(*heldCall)
	if held != nil && !held.begun.CompareAndSwap(false, true) {
		held = nil
	}
	ctx, end := c.v.cfg.observe(ctx, Work{Kind: WorkCall, Name: name, TenantID: c.tenant})
	out, err := do(ctx)
	if held != nil {
		held.end = end // it takes as long as its commit
		return out, err
	}
	end(err)
	return out, err
}

// heldCall is a call inside of Once. It has ended when Once has.
type heldCall struct {
	begun atomic.Bool
	end   func(error)
}

type heldCallKey struct{}

// observeOnce has the first call inside of Once end when the result is called
// with the error of Once.
func (cfg *Config) observeOnce(ctx context.Context) (context.Context, func(error)) {
	if cfg.Observer == nil {
		return ctx, func(error) {}
	}
	held := &heldCall{}
	return context.WithValue(ctx, heldCallKey{}, held), func(err error) {
		if held.end != nil {
			held.end(err)
		}
	}
}

// observeEgress returns what package egress calls for each request.
func (cfg *Config) observeEgress() egress.Observe {
	if cfg.Observer == nil {
		return nil
	}
	return func(req *http.Request, tenant string) (context.Context, func(error)) {
		id, _ := uuid.Parse(tenant)
		name := req.Method
		if !egress.KnownMethod(name) {
			name = "other"
		}
		return cfg.observe(req.Context(), Work{Kind: WorkEgress, Name: name, TenantID: id, Header: req.Header})
	}
}

// observedKey is a master key whose calls an observer is told of.
type observedKey struct {
	AEAD
	cfg *Config
}

// Keys lets package keyring try each key by itself.
func (k observedKey) Keys() []seal.AEAD {
	if several, ok := k.AEAD.(*keys); ok {
		return several.all
	}
	return []seal.AEAD{k.AEAD}
}

// EncryptWithContext implements AEADWithContext.
func (k observedKey) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	ctx, end := k.cfg.observe(ctx, Work{Kind: WorkKey, Name: "encrypt"})
	out, err := seal.Encrypt(ctx, k.AEAD, plaintext, associatedData)
	end(err)
	return out, err
}

// DecryptWithContext implements AEADWithContext.
func (k observedKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	ctx, end := k.cfg.observe(ctx, Work{Kind: WorkKey, Name: "decrypt"})
	out, err := seal.Decrypt(ctx, k.AEAD, ciphertext, associatedData)
	end(err)
	return out, err
}
