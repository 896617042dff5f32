package serve

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// LateRuntime is a runtime that starts its workers only when there is code to
// run, because most commands run none.
type LateRuntime struct {
	mu      sync.Mutex
	workers *jsruntime.Workers
	closed  bool
}

// Check implements script.Runtime.
func (r *LateRuntime) Check(ctx context.Context, p script.Program) error {
	workers, err := r.start()
	if err != nil {
		return err
	}
	return workers.Check(ctx, p)
}

// Run implements script.Runtime.
func (r *LateRuntime) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	workers, err := r.start()
	if err != nil {
		return nil, err
	}
	return workers.Run(ctx, p, input, host)
}

// start starts the workers at the first call.
func (r *LateRuntime) start() (*jsruntime.Workers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, script.ErrClosed
	}
	if r.workers == nil {
		r.workers = jsruntime.New(nil)
	}
	return r.workers, nil
}

// Close implements script.Runtime.
func (r *LateRuntime) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.workers == nil {
		return nil
	}
	return r.workers.Close()
}
