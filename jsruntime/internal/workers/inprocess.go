package workers

import (
	"context"
	"encoding/json"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/modules"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

// InProcess runs tenant code in the embedding process. It implements
// script.Runtime.
type InProcess struct {
	options  Options
	gates    *gates
	engine   node.Engine
	packages *modules.Store
	crashes  crashes
}

var _ script.Runtime = (*InProcess)(nil)

// NewInProcess returns a runtime without worker processes. Package jsruntime
// documents its limitations.
func NewInProcess(opts *Options) *InProcess {
	options := opts.withDefaults()
	return &InProcess{options: options, gates: options.gates(), packages: modules.Open(options.Modules), crashes: crashes{log: options.Logger}}
}

// Check loads the code without calling its function.
func (r *InProcess) Check(ctx context.Context, p script.Program) error {
	_, err := r.do(ctx, p, nil, noHost{}, true)
	return err
}

// Run calls the function that the code exports.
func (r *InProcess) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return r.do(ctx, p, input, host, false)
}

// Close rejects new runs.
func (r *InProcess) Close() error {
	r.gates.close()
	return r.packages.Close()
}

func (r *InProcess) do(ctx context.Context, p script.Program, input json.RawMessage, host script.Host, check bool) (json.RawMessage, error) {
	if r.packages.Err != nil {
		return nil, r.packages.Err
	}
	ctx, leave, err := r.gates.enter(ctx, &p)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	direct := &directPort{ctx: ctx, host: host, packages: r.packages, program: p, crashes: &r.crashes}
	j := r.options.job(ctx, p, input, check)
	out, bad := r.engine.Run(j, direct, func(c *node.Execution) {
		direct.run = c
		context.AfterFunc(ctx, func() { c.Stop(script.Timeout) })
	})
	if ctx.Err() == context.Canceled {
		return nil, ctx.Err()
	}
	if bad != nil {
		return nil, bad
	}
	return out, nil
}

// directPort calls the host from the same process.
type directPort struct {
	ctx      context.Context
	host     script.Host
	packages *modules.Store
	program  script.Program
	crashes  *crashes
	run      *node.Execution
}

func (p *directPort) Call(id int, op string, args json.RawMessage) {
	go func() { p.run.Deliver(callHost(p.ctx, p.host, id, op, args)) }()
}

func (p *directPort) Crashed(text, stack string) {
	p.crashes.report(p.program.Tenant, p.program.Name, text, stack)
}

func (p *directPort) Log(level, line string) { logHost(p.host, level, line) }

func (p *directPort) Ask(_ <-chan struct{}, question string, args ...string) ([]string, error) {
	return p.packages.Answer(question, args, func(string) bool { return false })
}
