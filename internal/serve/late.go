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
	once    sync.Once
	workers *jsruntime.Workers
}

func (r *LateRuntime) start() *jsruntime.Workers {
	r.once.Do(func() { r.workers = jsruntime.New(nil) })
	return r.workers
}

// Check implements script.Runtime.
func (r *LateRuntime) Check(ctx context.Context, p script.Program) error {
	return r.start().Check(ctx, p)
}

// Run implements script.Runtime.
func (r *LateRuntime) Run(ctx context.Context, p script.Program, input json.RawMessage, host script.Host) (json.RawMessage, error) {
	return r.start().Run(ctx, p, input, host)
}

// Close implements script.Runtime. The vault starts no code after it.
func (r *LateRuntime) Close() error {
	r.once.Do(func() {})
	if r.workers == nil {
		return nil
	}
	return r.workers.Close()
}
