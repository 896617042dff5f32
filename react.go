package vault

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/script"
)

// ReactParams invokes a reactor. What it holds is not shown when it is printed or
// logged, except as JSON and in unexported fields: see the package comment.
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
			if most := int(runs.MaxTimeout / time.Millisecond); ms > 0 && ms <= most {
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
	return run(ctx, c, &verbReact, func(ctx context.Context, op *operation) (*ReactResult, error) {
		out, err := c.v.runs.Now(ctx, op.Op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &ReactResult{JSON(out.Tokens), JSON(out.Raw)}, nil
	})
}

// internal returns the parameters as package runs takes them.
func (p *ReactParams) internal() runs.Params {
	return runs.Params{Args: plainJSON(p.Args), CallbackURL: p.CallbackURL, Timeout: p.Timeout}
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
	return run(ctx, c, &verbReactAsync, func(ctx context.Context, op *operation) (*Job, error) {
		id, err := c.v.runs.Later(ctx, op.Op, id, p.internal())
		if err != nil {
			return nil, err
		}
		return &Job{id}, nil
	})
}

// TestRunParams asks for a test run of the code of a reactor or a proxy.
type TestRunParams struct {
	ReactorID uuid.UUID // or a proxy
	ProxyID   uuid.UUID
	// Response chooses the response transform of a proxy, not that of requests.
	Response bool
	// Args is what the code gets as args, as it is: detokenization expressions in
	// it are refused.
	Args any
}

// TestRun is what came of a test run. It holds nothing of the vault's: see
// [Owner.TestRun].
type TestRun struct {
	Result JSON          // what the code returned; nil when it failed
	Lines  []script.Line // what it wrote to its console, up to 1,000 lines
	Took   time.Duration
	Err    *script.Error // how the code failed; nil when it did not
}

// TestRun runs the code of a reactor or proxy on plain arguments, to see whether it
// works. The code gets nothing of the vault's: no token is read, its client
// instance is null, and each configuration value is its own name in angle
// brackets, as <api_key>. It can send no requests, and what it returns is neither
// tokenized nor sent. So the result may be shown to people who may not see data.
// The log has an entry for the run. Only the tenant itself may try code.
func (o *Owner) TestRun(ctx context.Context, p TestRunParams) (*TestRun, error) {
	return run(ctx, o.Client, &verbTestRun, func(ctx context.Context, op *operation) (*TestRun, error) {
		s, err := op.trialCode(ctx, &p)
		if err != nil {
			return nil, err
		}
		out, err := o.v.runs.Try(ctx, op.Op, s, plainJSON(p.Args))
		if err != nil {
			return nil, err
		}
		return &TestRun{JSON(out.Result), out.Lines, out.Took, out.Err}, nil
	})
}

// trialCode reads the code of a test run.
func (op *operation) trialCode(ctx context.Context, p *TestRunParams) (runs.Code, error) {
	if p.ReactorID != (uuid.UUID{}) {
		r, err := reactors.Read(ctx, op.Op, p.ReactorID)
		if err != nil {
			return runs.Code{}, err
		}
		return runs.Code{Entity: core.Entity{Type: kindReactor, ID: r.ID.String()}, Name: r.Name, Source: r.Code, Configuration: r.Configuration}, nil
	}
	x, err := proxies.Read(ctx, op.Op, p.ProxyID)
	if err != nil {
		return runs.Code{}, err
	}
	transform := x.RequestTransform
	if p.Response {
		transform = x.ResponseTransform
	}
	if transform == nil {
		return runs.Code{}, fault.New(ErrNotFound, "the proxy has no such transform")
	}
	return runs.Code{Entity: core.Entity{Type: kindProxy, ID: x.ID.String()}, Name: x.Name, Source: transform.Code, Configuration: x.Configuration}, nil
}
