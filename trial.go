package vault

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

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/script"
)

// TrialParams asks for a test run of the code of a reactor or a proxy.
type TrialParams struct {
	ReactorID uuid.UUID // or a proxy
	ProxyID   uuid.UUID
	// Response chooses the response transform of a proxy, not that of requests.
	Response bool
	// Args is what the code gets as args, as it is: detokenization expressions in
	// it are refused.
	Args any
}

// Trial is what came of a test run. It holds nothing of the vault's: see
// [Client.Try].
type Trial struct {
	Result JSON          // what the code returned; nil when it failed
	Lines  []script.Line // what it wrote to its console, up to 1,000 lines
	Took   time.Duration
	Err    *script.Error // how the code failed; nil when it did not
}

// Bounds of a test run.
const (
	maxTrialLines = 1_000
	maxTrialText  = 1 << 20
)

// Try runs the code of a reactor or proxy on plain arguments, to see whether it
// works. The code gets nothing of the vault's: no token is read, its client
// instance is null, and each configuration value is its own name in angle
// brackets, as <api_key>. It can send no requests, and what it returns is neither
// tokenized nor sent. So the result may be shown to people who may not see data.
// The log has an entry for the run. Only the tenant itself may try code.
func (c *Client) Try(ctx context.Context, p TrialParams) (*Trial, error) {
	return run(ctx, c, &verbTry, func(ctx context.Context, op *operation) (*Trial, error) {
		s, err := op.trialRun(ctx, &p)
		if err != nil {
			return nil, err
		}
		args, err := op.Document(ctx, plainJSON(p.Args))
		if err != nil {
			return nil, fault.Under("args", err)
		}
		tree, err := expr.CompileTokenTree(args)
		if err != nil || tree.HasExpressions() {
			return nil, fault.Field("args", "must not hold detokenization expressions: a test run gets plain arguments")
		}
		s.args = args
		return op.try(ctx, s)
	})
}

// trialRun reads the code. Of the configuration only the names are left.
func (op *operation) trialRun(ctx context.Context, p *TrialParams) (codeRun, error) {
	s := codeRun{timeout: syncTimeout}
	var configuration map[string]string
	if p.ReactorID != (uuid.UUID{}) {
		r, err := reactors.Read(ctx, op.Op, p.ReactorID)
		if err != nil {
			return s, err
		}
		s.entity, s.name, s.code, configuration = core.Entity{Type: kindReactor, ID: r.ID.String()}, r.Name, r.Code, r.Configuration
	} else {
		x, err := proxies.Read(ctx, op.Op, p.ProxyID)
		if err != nil {
			return s, err
		}
		transform := x.RequestTransform
		if p.Response {
			transform = x.ResponseTransform
		}
		if transform == nil {
			return s, fault.New(ErrNotFound, "The proxy has no such transform.")
		}
		s.entity, s.name, s.code, configuration = core.Entity{Type: kindProxy, ID: x.ID.String()}, x.Name, transform.Code, x.Configuration
	}
	s.configuration = map[string]string{}
	for name := range configuration {
		s.configuration[name] = "<" + name + ">"
	}
	return s, nil
}

func (op *operation) try(ctx context.Context, s codeRun) (*Trial, error) {
	if op.v.cfg.Runtime == nil {
		return nil, ErrNoRuntime
	}
	input, err := json.Marshal(map[string]any{"args": s.args, "configuration": s.configuration, "application": false})
	if err != nil {
		return nil, err
	}
	entry := op.Entry(audit.React, s.entity.Type, s.entity.ID)
	entry.Message = fmt.Sprintf("Test run of the code of a %s", s.entity.Type)
	ch := op.Change()
	ch.Logs = append(ch.Logs, entry)
	if err := op.Write(ctx, ch); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	host, began := &trialHost{}, time.Now()
	out, err := op.v.cfg.Runtime.Run(limited, script.Program{Tenant: op.Tenant().String(), Name: s.name, Source: s.code}, input, host)
	trial := &Trial{Result: JSON(out), Lines: host.taken(), Took: time.Since(began)}
	if err == nil || errors.As(err, &trial.Err) {
		return trial, nil
	}
	return nil, cmp.Or(fault.CallerLeft(ctx), runtimeErr(err))
}

// trialHost is what a test run can reach: a console, and nothing else.
type trialHost struct {
	mu    sync.Mutex
	lines []script.Line
	text  int
}

// Call refuses everything.
func (h *trialHost) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) {
	return nil, &script.HostError{Status: http.StatusForbidden, Message: "a test run sends no requests and has no client"}
}

// Log keeps a line while there is room.
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
