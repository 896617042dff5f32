package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/script"
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
	reactor, err := readToRun(ctx, op, id)
	return reactor, args, err
}

// readToRun reads a reactor whose code may run.
func readToRun(ctx context.Context, op *core.Op, id uuid.UUID) (*Reactor, error) {
	reactor, err := Reactors.Read(ctx, op, id)
	if err == nil {
		err = reactor.Hold.Err(audit.Reactor)
	}
	return reactor, err
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
	if err := core.AwaitJSON(ctx, out); err != nil {
		return nil, err
	}
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

// Trial is the result of a test run.
type Trial struct {
	Result json.RawMessage // result of the code; nil if it failed
	Lines  []script.Line   // its console output
	Took   time.Duration
	Err    *script.Error // nil if the code succeeded
}

// Limits of a test run.
const (
	maxTrialLines = 1_000
	maxTrialText  = 1 << 20
)

// Try runs code on plain arguments, to test it. The code has no access to the
// vault: each configuration value is its own name in angle brackets, the
// client instance is null, and requests are refused.
func (r *Runs) Try(ctx context.Context, op *core.Op, s Code, args any) (*Trial, error) {
	var err error
	if s.Args, err = op.Document(ctx, args); err != nil {
		return nil, fault.Under("args", err)
	}
	tree, err := expr.CompileTokenTree(s.Args)
	if err != nil || tree.HasExpressions() {
		return nil, fault.Field("args", "must not hold detokenization expressions: a test run gets plain arguments")
	}
	names := map[string]string{}
	for name := range s.Configuration {
		names[name] = "<" + name + ">"
	}
	s.Configuration = names
	return r.try(ctx, op, s)
}

func (r *Runs) try(ctx context.Context, op *core.Op, s Code) (*Trial, error) {
	if r.Runtime == nil {
		return nil, fault.ErrNoRuntime
	}
	input, err := s.input(false)
	if err != nil {
		return nil, err
	}
	entry := op.Entry(audit.React, s.Entity.Type, s.Entity.ID)
	entry.Message = fmt.Sprintf("Test run of the code of a %s", s.Entity.Type)
	ch := op.Change()
	ch.Logs = append(ch.Logs, entry)
	if err := op.Write(ctx, ch); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, SyncTimeout)
	defer cancel()
	host, began := &trialHost{}, time.Now()
	out, err := r.Runtime.Run(limited, s.program(op), input, host)
	trial := &Trial{Result: out, Lines: host.taken(), Took: time.Since(began)}
	if err == nil || errors.As(err, &trial.Err) {
		return trial, nil
	}
	return nil, cmp.Or(fault.CallerLeft(ctx), runtimeErr(err))
}

// trialHost is the host of a test run. It has only a console.
type trialHost struct {
	mu    sync.Mutex
	lines []script.Line
	text  int
}

// Call refuses every operation.
func (h *trialHost) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &script.HostError{Status: http.StatusForbidden, Message: "a test run sends no requests and has no client"}
}

// Log keeps a line if there is room.
func (h *trialHost) Log(line script.Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text += len(line.Text); len(h.lines) < maxTrialLines && h.text <= maxTrialText {
		h.lines = append(h.lines, line)
	}
}

func (h *trialHost) taken() []script.Line {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines
}
