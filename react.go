package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/limits"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/script"
)

// How long a run of a reactor may take: synchronously, and, when the caller
// chooses, asynchronously.
const (
	syncTimeout = 10 * time.Second
	minTimeout  = 10 * time.Second
	maxTimeout  = 210 * time.Second
)

// ReactParams invokes a reactor. What it holds is not shown when it is printed or
// logged, except as JSON and in unexported fields: see [Token].
type ReactParams struct {
	// Args is an object that may hold detokenization expressions, or one
	// expression that gives an object.
	Args any `json:"args,omitempty"`
	// CallbackURL is where [Client.ReactAsync] has the result sent. [Client.React]
	// takes none.
	CallbackURL string `json:"callback_url,omitempty"`
	// Timeout bounds a run of ReactAsync: 10 to 210 seconds, by default 10. JSON
	// has it as timeout_ms, in milliseconds. React takes none.
	Timeout time.Duration `json:"timeout_ms,omitempty"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError]. callbackUrl and timeoutMs, which other
// clients of this family of APIs send, are read as callback_url and timeout_ms;
// only one of the two may be given.
func (p *ReactParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		if v := r.Value("args"); !v.IsZero() {
			p.Args = v
		}
		p.CallbackURL = r.OptionalText(r.Spelling("callback_url", "callbackUrl"))
		if ms, ok := r.Int(r.Spelling("timeout_ms", "timeoutMs")); ok {
			p.Timeout = -1 // given, and out of bounds
			if most := int(maxTimeout / time.Millisecond); ms > 0 && ms <= most {
				p.Timeout = time.Duration(ms) * time.Millisecond
			}
		}
	})
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p ReactParams) MarshalJSON() ([]byte, error) {
	args, err := parseJSON("args", p.Args)
	if err != nil {
		return nil, public(err)
	}
	w := &form.Writer{}
	w.Value("args", args)
	w.Text("callback_url", p.CallbackURL)
	ms := int(p.Timeout / time.Millisecond)
	if ms == 0 && p.Timeout != 0 {
		ms = -1 // out of bounds, and not absent
	}
	w.Int("timeout_ms", ms)
	return w.JSON(), nil
}

// ReactResult is what a reactor gave. Like [ReactParams], it does not print.
type ReactResult struct {
	// Tokens is the tokenize part of the result, tokenized as the caller.
	Tokens JSON `json:"tokens,omitempty"`
	// Raw is the raw part of the result, in clear.
	Raw JSON `json:"raw,omitempty"`
}

// React runs a reactor with detokenized arguments (permission token:use, also
// on each container of the tokens that args name). What its code returns as
// tokenize is tokenized as the caller, who needs token:create for it. An error
// that the code throws is a [*script.Error], whose Messages have its text.
//
// A run takes at most 10 seconds. [Client.ReactAsync] is for longer ones, and for
// those whose caller does not wait.
func (c *Client) React(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error) {
	return run(ctx, c, &verbReact, func(ctx context.Context, op *operation) (*ReactResult, error) { return op.reactNow(ctx, id, p) })
}

func (op *operation) reactNow(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error) {
	r, args, err := op.reactorFor(ctx, id, &p, (*ReactParams).checkSync)
	if err != nil {
		return nil, err
	}
	if op.Pending() != nil {
		ctx = limits.LineageOf(ctx).Tracking(&op.Pending().Uses).In(ctx)
	}
	return op.runReactor(ctx, r, args, syncTimeout)
}

// Job is a run that [Client.ReactAsync] has left for later.
type Job struct {
	// ID is also the webhook-id of the callback.
	ID uuid.UUID `json:"id"`
}

// ReactAsync is React for a run that is carried out later, and whose result is
// sent to p.CallbackURL (permissions as for React). When it returns, the run is
// stored, and some node will carry it out, even if this one dies. Its rights are
// those that the caller has when it runs, and no more than it has now; if the
// caller is gone by then, the callback says so.
//
// What the run gives, or the error that React would return, is sent to the URL
// at least once, signed with the tenant's webhook secret: see [VerifyWebhook].
func (c *Client) ReactAsync(ctx context.Context, id uuid.UUID, p ReactParams) (*Job, error) {
	return run(ctx, c, &verbReactAsync, func(ctx context.Context, op *operation) (*Job, error) { return op.reactAsync(ctx, id, p) })
}

func (op *operation) reactAsync(ctx context.Context, id uuid.UUID, p ReactParams) (*Job, error) {
	r, args, err := op.reactorFor(ctx, id, &p, (*ReactParams).checkAsync)
	if err != nil {
		return nil, err
	}
	return op.reactLater(ctx, r, args, &p)
}

// reactorFor checks parameters and reads the arguments, which are still to be
// detokenized, and the reactor.
func (op *operation) reactorFor(ctx context.Context, id uuid.UUID, p *ReactParams, check func(*ReactParams, *Vault, *form.Problems)) (*Reactor, jsonx.Value, error) {
	args, err := op.checkReact(ctx, p, check)
	if err != nil {
		return nil, args, err
	}
	r, err := reactors.Read(ctx, op.Op, id)
	return r, args, err
}

// checkSync checks what a run has besides its arguments when its caller waits.
func (p *ReactParams) checkSync(_ *Vault, bad *form.Problems) {
	if p.CallbackURL != "" {
		bad.Add("callback_url", "is for asynchronous runs: use ReactAsync")
	}
	if p.Timeout != 0 {
		bad.Add("timeout_ms", "is allowed only together with callback_url")
	}
}

// checkAsync is checkSync for a run whose result is sent.
func (p *ReactParams) checkAsync(v *Vault, bad *form.Problems) {
	if p.CallbackURL == "" {
		bad.Add("callback_url", "is required")
	} else {
		v.checkURL(bad, "callback_url", p.CallbackURL)
	}
	if p.Timeout != 0 && (p.Timeout < minTimeout || p.Timeout > maxTimeout) {
		bad.Add("timeout_ms", "must be between %d and %d", minTimeout.Milliseconds(), maxTimeout.Milliseconds())
	}
}

// checkReact checks parameters and reads the arguments.
func (op *operation) checkReact(ctx context.Context, p *ReactParams, check func(*ReactParams, *Vault, *form.Problems)) (jsonx.Value, error) {
	args, err := op.Document(ctx, plainJSON(p.Args))
	bad := &form.Problems{}
	if err != nil {
		if !errors.Is(err, ErrInvalid) {
			return args, err
		}
		bad.AddAll("args", fieldsOf(err))
	} else if err := checkArgs(args); err != nil {
		bad.AddAll("args", fieldsOf(err))
	}
	check(p, op.v, bad)
	return args, fault.Of(bad)
}

// checkArgs checks what can be known of arguments before they are detokenized:
// the syntax of expressions, and that they are an object or may become one.
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

// checkDetokenized refuses arguments that are no object.
func checkDetokenized(args jsonx.Value) error {
	if args.IsZero() || args.IsNull() || args.Kind() == jsonx.Object {
		return nil
	}
	return fault.Field("", "must be an object after detokenization")
}

// runReactor detokenizes the arguments, runs the code, and tokenizes what it
// asks for.
func (op *operation) runReactor(ctx context.Context, r *Reactor, args jsonx.Value, timeout time.Duration) (*ReactResult, error) {
	args, err := reveal.Detokenize(ctx, op.Op, args, "")
	if err == nil {
		err = checkDetokenized(args)
	}
	if err != nil {
		return nil, fault.Under("args", err)
	}
	if args.IsZero() {
		args = jsonx.NullValue()
	}
	if err := op.LogReads(ctx, audit.React, core.Entity{Type: kindReactor, ID: r.ID.String()}); err != nil {
		return nil, err
	}
	out, err := op.runCode(ctx, codeRun{
		entity: core.Entity{Type: kindReactor, ID: r.ID.String()}, name: r.Name, code: r.Code, args: args,
		configuration: r.Configuration, application: r.Application, timeout: timeout,
	})
	if err != nil {
		return nil, err
	}
	return op.reactResult(ctx, out)
}

// reactResult reads what the code returned.
func (op *operation) reactResult(ctx context.Context, out JSON) (*ReactResult, error) {
	v, err := jsonx.Parse(out, stored)
	if err != nil || !v.IsNull() && v.Kind() != jsonx.Object {
		return nil, badResult("the function must return an object with raw, tokenize or both")
	}
	result := &ReactResult{}
	if raw := v.Get("raw"); !raw.IsZero() {
		result.Raw = raw.JSON()
	}
	if doc := v.Get("tokenize"); !doc.IsZero() && !doc.IsNull() {
		if result.Tokens, err = op.client().Tokenize(ctx, JSON(doc.JSON())); err != nil {
			return nil, fault.Under("tokenize", err)
		}
	}
	return result, nil
}

// codeRun is code to be run for a caller.
type codeRun struct {
	entity        core.Entity
	name, code    string
	args          jsonx.Value
	configuration map[string]string
	application   *ApplicationRef
	timeout       time.Duration
}

// runCode runs code with a client of its own application, if it has one.
func (op *operation) runCode(ctx context.Context, s codeRun) (JSON, error) {
	if op.v.cfg.Runtime == nil {
		return nil, ErrNoRuntime
	}
	admission.Of(ctx).Rest()
	host := &scriptHost{v: op.v, tenant: op.Tenant(), entity: s.entity, lineage: limits.LineageOf(ctx).Below()}
	if s.application != nil {
		id, err := op.As(ctx, s.application.ID)
		switch {
		case err == nil:
			host.client = op.v.Tenant(op.Tenant()).as(id.Scripted())
		case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnauthenticated): // it may have gone
			return nil, err
		}
	}
	configuration := s.configuration
	if configuration == nil {
		configuration = map[string]string{}
	}
	input, err := json.Marshal(map[string]any{
		"args": s.args, "configuration": configuration, "application": host.client != nil,
	})
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	id, _ := uuid.Parse(s.entity.ID)
	limited, end := op.v.observe(limited, WorkRun, s.entity.Type, op.Tenant(), id)
	out, err := op.v.cfg.Runtime.Run(limited, script.Program{Tenant: op.Tenant().String(), Name: s.name, Source: s.code}, input, host)
	end(err)
	if err != nil {
		return nil, cmp.Or(fault.CallerLeft(ctx), runtimeErr(err)) // the caller's deadline is not the code's fault
	}
	return JSON(out), nil
}

// runtimeErr returns an error of the runtime as one of the vault's. A vault
// owns its runtime, so a closed runtime means a closed vault.
func runtimeErr(err error) error {
	if errors.Is(err, script.ErrClosed) {
		return ErrClosed
	}
	return err
}

// badResult is an error about what code returned.
func badResult(text string) error {
	return &script.Error{Kind: script.Output, Status: http.StatusInternalServerError, Title: script.DefaultTitle,
		Messages: map[string][]string{"error": {text}}}
}
