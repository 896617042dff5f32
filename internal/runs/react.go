package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// Time limits of a run: synchronous, and asynchronous if the caller sets one.
const (
	SyncTimeout = 10 * time.Second
	minTimeout  = 10 * time.Second
	MaxTimeout  = 210 * time.Second
)

// Params are the parameters for invoking a reactor.
type Params struct {
	Args        any // an object, or an expression that evaluates to one
	CallbackURL string
	Timeout     time.Duration
}

// Result is the result of a reactor.
type Result struct {
	Tokens json.RawMessage `json:"tokens,omitempty"` // the tokenize part, tokenized
	Raw    json.RawMessage `json:"raw,omitempty"`
}

// Now runs a reactor for a caller that waits.
func (r *Runs) Now(ctx context.Context, op *core.Op, id uuid.UUID, p Params) (*Result, error) {
	reactor, args, err := r.reactorFor(ctx, op, id, &p, checkSync)
	if err != nil {
		return nil, err
	}
	if op.Pending() != nil {
		ctx = core.LineageOf(ctx).Tracking(&op.Pending().Uses).In(ctx)
	}
	return r.react(ctx, op, reactor, args, SyncTimeout)
}

// Later stores a run for later, and returns the id of its job. The run is
// durable when Later returns.
func (r *Runs) Later(ctx context.Context, op *core.Op, id uuid.UUID, p Params) (uuid.UUID, error) {
	reactor, args, err := r.reactorFor(ctx, op, id, &p, r.checkAsync)
	if err != nil {
		return uuid.UUID{}, err
	}
	return r.leave(ctx, op, reactor, args, &p)
}

// reactorFor checks the parameters, and reads the reactor and the arguments.
// The arguments are not detokenized yet.
func (r *Runs) reactorFor(ctx context.Context, op *core.Op, id uuid.UUID, p *Params, check func(*Params, *form.Problems)) (*Reactor, jsonx.Value, error) {
	args, err := op.Document(ctx, p.Args)
	bad := &form.Problems{}
	if err == nil {
		err = checkArgs(args)
	}
	if err != nil {
		if !errors.Is(err, fault.ErrInvalid) {
			return nil, args, err
		}
		bad.AddAll("args", fault.Fields(err))
	}
	if check(p, bad); bad.Any() {
		return nil, args, fault.Of(bad)
	}
	reactor, err := Reactors.Read(ctx, op, id)
	return reactor, args, err
}

// checkSync checks the other parameters of a synchronous run.
func checkSync(p *Params, bad *form.Problems) {
	if p.CallbackURL != "" {
		bad.Add("callback_url", "is for asynchronous runs: use ReactAsync")
	}
	if p.Timeout != 0 {
		bad.Add("timeout_ms", "is allowed only together with callback_url")
	}
}

// checkAsync checks the other parameters of an asynchronous run.
func (r *Runs) checkAsync(p *Params, bad *form.Problems) {
	if p.CallbackURL == "" {
		bad.Add("callback_url", "is required")
	} else if _, err := r.Egress.CheckURL(p.CallbackURL); err != nil {
		bad.Add("callback_url", "must be an absolute URL that the egress policy allows: %s", err.Error())
	}
	if p.Timeout != 0 && (p.Timeout < minTimeout || p.Timeout > MaxTimeout) {
		bad.Add("timeout_ms", "must be between %d and %d", minTimeout.Milliseconds(), MaxTimeout.Milliseconds())
	}
}

// checkArgs checks arguments before they are detokenized: the syntax of
// expressions, and that they are an object or may become one.
func checkArgs(args jsonx.Value) error {
	tree, err := expr.CompileTokenTree(args)
	if err != nil {
		return fault.Input(err)
	}
	if args.Kind() == jsonx.String && tree.HasExpressions() {
		return nil
	}
	return checkDetokenized(args)
}

// checkDetokenized rejects arguments that are not an object.
func checkDetokenized(args jsonx.Value) error {
	if args.IsZero() || args.IsNull() || args.Kind() == jsonx.Object {
		return nil
	}
	return fault.Field("", "must be an object after detokenization")
}

// react detokenizes the arguments, runs the code, and tokenizes the tokenize
// part of its result.
func (r *Runs) react(ctx context.Context, op *core.Op, reactor *Reactor, args jsonx.Value, timeout time.Duration) (*Result, error) {
	args, err := reveal.Detokenize(ctx, op, args, "")
	if err == nil {
		err = checkDetokenized(args)
	}
	if err != nil {
		return nil, fault.Under("args", err)
	}
	if args.IsZero() {
		args = jsonx.NullValue()
	}
	entity := core.Entity{Type: audit.Reactor, ID: reactor.ID.String()}
	if err := op.LogReads(ctx, audit.React, entity); err != nil {
		return nil, err
	}
	out, err := r.Run(ctx, op, Code{
		Entity: entity, Name: reactor.Name, Source: reactor.Code, Args: args,
		Configuration: reactor.Configuration, Application: uuid.UUID(reactor.ApplicationID), Timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	return r.result(ctx, op, out)
}

// result parses the result of the code.
func (r *Runs) result(ctx context.Context, op *core.Op, out json.RawMessage) (*Result, error) {
	v, err := jsonx.Parse(out, Returned)
	if err != nil || !v.IsNull() && v.Kind() != jsonx.Object {
		return nil, BadResult("the function must return an object with raw, tokenize or both")
	}
	result := &Result{}
	if raw := v.Get("raw"); !raw.IsZero() {
		result.Raw = raw.JSON()
	}
	if doc := v.Get("tokenize"); !doc.IsZero() && !doc.IsNull() {
		result.Tokens, err = core.Do(ctx, op.Caller, &core.VerbTokenize, func(ctx context.Context, op *core.Op) (json.RawMessage, error) {
			return tokens.Tokenize(ctx, op, json.RawMessage(doc.JSON()))
		})
		if err != nil {
			return nil, fault.Under("tokenize", err)
		}
	}
	return result, nil
}
