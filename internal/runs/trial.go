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

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/script"
)

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
