// Package runs runs the code of tenants: reactors for callers that wait, jobs
// whose results are sent to a callback, and test runs.
//
// It promises that code acts with the rights that its application has at the time, that
// another node takes over a job whose node has died, that a result is delivered only
// while its caller may have it, and that callbacks are signed.
//
// It rests on package script, whose runtime confines the code, on the storage for the
// queue and its leases, and on package egress for callbacks. Calls of the code come back
// as operations of a client, through a host in host.go.
//
// Begin with [Runs.Now] in react.go. Then read [Worker], which leases due jobs, and
// [Runs.CarryOut] in job.go, which runs one and delivers its result.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Config is the configuration of Runs. All fields are required except Runtime and
// Log.
type Config struct {
	Vault   *core.Vault
	Runtime script.Runtime // nil if code cannot run
	Egress  *egress.Client
	// Operation returns an operation of the client instance by its name, or nil.
	Operation func(name string) Operation
	// Log receives the console output of code. It may be nil.
	Log func(tenant uuid.UUID, entity core.Entity, line script.Line)
}

// Runs runs the code and the jobs of tenants. Create it with New.
type Runs struct {
	Config
	// Reactors creates and changes reactors.
	Reactors *ReactorCollection
	// Worker runs the due jobs.
	Worker *Worker

	turns *share.Slots[uuid.UUID]
}

// New returns the Runs of a vault.
func New(cfg Config) *Runs {
	r := &Runs{Config: cfg, turns: newTurns()}
	r.Reactors = r.newReactors()
	r.Worker = NewWorker(WorkerConfig{
		Queue: cfg.Vault.Store, Now: cfg.Vault.Now, Logger: cfg.Vault.Logger,
		CarryOut: r.CarryOut, Extend: r.Extend, Paused: func(tenant storage.ID) bool {
			// A tenant's jobs wait while the master key or the tenant's own key is denied.
			return r.Vault.Key.Usable() != nil || r.Vault.Own.Usable(uuid.UUID(tenant)) != nil
		},
	})
	return r
}

// The kinds of events for observers.
const (
	KindRun = "run"
	KindJob = "job"
)

// Returned are the limits on JSON that code returns.
var Returned = jsonx.Limits{Depth: 1000}

// Code is code to run for a caller.
type Code struct {
	Entity        core.Entity // the reactor or the proxy
	Name, Source  string
	Args          jsonx.Value
	Configuration map[string]string
	Application   uuid.UUID // that the client instance acts as; zero for none
	Timeout       time.Duration
}

// Run runs code and returns its result. If the code has an application, it
// gets a client that acts as that application.
func (r *Runs) Run(ctx context.Context, op *core.Op, s Code) (json.RawMessage, error) {
	if r.Runtime == nil {
		return nil, fault.ErrNoRuntime
	}
	admission.Of(ctx).Rest()
	app, err := applicationOf(ctx, op, s.Application)
	if err != nil {
		return nil, err
	}
	from := core.LineageOf(ctx).Tracking(op.Uses(ctx)).Below()
	if from.Stranger == "" && op.IsStranger() {
		from.Stranger = op.Proxy().String()
	}
	from.Workload = from.Workload || op.FromWorkload()
	host := r.newHost(op, s.Entity, app, from)
	input, err := s.input(app != nil)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	id, _ := uuid.Parse(s.Entity.ID)
	limited, end := r.Vault.Tell(limited, core.Event{Kind: KindRun, Name: s.Entity.Type, TenantID: op.Tenant(), EntityID: id})
	program := s.program(op)
	program.Stranger = from.Stranger != ""
	out, err := r.Runtime.Run(limited, program, input, host)
	end(err)
	if err != nil {
		err = cmp.Or(fault.CallerLeft(ctx), runtimeErr(err)) // the caller's deadline is not the code's fault
		return nil, cmp.Or(logFailure(ctx, op, s.Entity, err), err)
	}
	return out, nil
}

// logFailure enters in the log that code has failed, beside the entry about its
// start. It enters no text of the error, which may hold data.
func logFailure(ctx context.Context, op *core.Op, e core.Entity, err error) error {
	failed, ok := errors.AsType[*script.Error](err)
	if !ok {
		return nil
	}
	operation := audit.React
	if e.Type == audit.Proxy {
		operation = audit.Use
	}
	entry := op.Entry(operation, e.Type, e.ID)
	entry.Message = audit.FailedMessage(e.Type, failed.Line())
	return op.LogRead(ctx, &entry)
}

// applicationOf returns the identity of the application that code acts as. It
// returns nil without an application, and if the application was deleted.
func applicationOf(ctx context.Context, op *core.Op, id uuid.UUID) (*core.Identity, error) {
	if id == (uuid.UUID{}) {
		return nil, nil
	}
	app, err := op.As(ctx, id)
	switch {
	case err == nil:
		app = app.Scripted()
		return &app, nil
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrUnauthenticated):
		return nil, nil
	}
	return nil, err
}

// program returns the code for the runtime.
func (s *Code) program(op *core.Op) script.Program {
	return script.Program{Tenant: op.Tenant().String(), Name: s.Name, Source: s.Source}
}

// input returns the input of the code.
func (s *Code) input(application bool) (json.RawMessage, error) {
	configuration := s.Configuration
	if configuration == nil {
		configuration = map[string]string{}
	}
	return json.Marshal(map[string]any{"args": s.Args, "configuration": configuration, "application": application})
}

// Check lets the runtime check code if it differs from the old code. Problems
// are reported under the name of the field. Without a runtime, code is stored
// unchecked. The keys are read again afterwards, because the check may take
// longer than keys may be used.
func (r *Runs) Check(ctx context.Context, op *core.Op, field, name, code, old string) error {
	if r.Runtime == nil || code == "" || code == old {
		return nil
	}
	err := r.Runtime.Check(ctx, script.Program{Tenant: op.Tenant().String(), Name: name, Source: code})
	if err == nil {
		return op.Refresh(ctx)
	}
	failed, ok := errors.AsType[*script.Error](err)
	if !ok || failed.Messages["code"] == nil {
		return runtimeErr(err)
	}
	told := *failed
	told.Messages = maps.Clone(failed.Messages)
	delete(told.Messages, "code")
	told.Messages[field] = failed.Messages["code"]
	return &told
}

// runtimeErr converts an error of the runtime to an error of the vault. A
// vault owns its runtime, so a closed runtime means a closed vault.
func runtimeErr(err error) error {
	if errors.Is(err, script.ErrClosed) {
		return fault.ErrClosed
	}
	return err
}

// BadResult returns an error about the result of code.
func BadResult(text string) error {
	return &script.Error{Kind: script.Output, Status: http.StatusInternalServerError, Title: script.DefaultTitle,
		Messages: map[string][]string{"error": {text}}}
}
