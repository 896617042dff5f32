package workers

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
	"github.com/seed-72ea4aab/vault/script"
)

const (
	// maxNested is how deep runs may be nested.
	maxNested = 3
	// nestedWidth is how many runs below one outermost run may run
	// concurrently, on each level.
	nestedWidth = 4
)

// gates admit runs, with separate slots for each depth. A run waits only for
// slots of the same depth, and no run needs a slot further out to finish. So
// runs that wait for each other cannot deadlock.
type gates [maxNested]*gate

// gate admits runs of one depth. It divides the slots among tenants. Runs caused
// by strangers ([script.Program].Stranger) may use half of their tenant's slots.
// The other half stays free for the tenant's own runs.
type gate struct {
	slots     *share.Slots[string] // of all runs
	strangers *share.Slots[string] // of runs by strangers, who need one of each
}

// visitor is a run that needs a slot.
type visitor struct {
	tenant   string
	stranger bool
}

// lineage identifies the run that a context comes from. It is in the context of
// Host.Call.
type lineage struct {
	depth  int               // 0 outside of runs
	family *share.Slots[int] // by depth of the caller, of all runs below one outermost run
}

type lineageKey struct{}

// enter waits for a slot. It returns a context for the host calls of the run
// and a function that releases the slot.
func (g *gates) enter(ctx context.Context, p *script.Program) (context.Context, func(), error) {
	caller, nested := ctx.Value(lineageKey{}).(lineage)
	switch {
	case !nested:
		caller.family = share.New[int](share.Limits{Each: nestedWidth})
	case caller.depth == maxNested:
		return nil, nil, node.StopError(script.Depth)
	case caller.family.Take(ctx, caller.depth) != nil: // too many siblings run
		return nil, nil, script.ErrBusy
	}
	own := lineage{caller.depth + 1, caller.family}
	gate, v := g[caller.depth], visitor{p.Tenant, p.Stranger}
	if err := gate.take(ctx, v); err != nil {
		own.leave()
		return nil, nil, err
	}
	return context.WithValue(ctx, lineageKey{}, own), func() {
		gate.leave(v)
		own.leave()
	}, nil
}

// leave lets the next sibling run.
func (l lineage) leave() {
	if l.depth > 1 {
		l.family.Give(l.depth - 1)
	}
}

// take takes a slot, or waits for one in the queue.
func (g *gate) take(ctx context.Context, v visitor) error {
	if v.stranger {
		if err := g.strangers.Take(ctx, v.tenant); err != nil {
			return refusal(err)
		}
	}
	err := g.slots.Take(ctx, v.tenant)
	if err != nil && v.stranger {
		g.strangers.Give(v.tenant)
	}
	return refusal(err)
}

// refusal returns the error of a run that got no slot. If the deadline passed, the
// caller may try again later.
func refusal(err error) error {
	switch {
	case errors.Is(err, share.ErrClosed):
		return script.ErrClosed
	case errors.Is(err, share.ErrFull), errors.Is(err, context.DeadlineExceeded):
		return script.ErrBusy
	default:
		return err
	}
}

// leave releases a slot.
func (g *gate) leave(v visitor) {
	g.slots.Give(v.tenant)
	if v.stranger {
		g.strangers.Give(v.tenant)
	}
}

// close rejects all runs from now on, including waiting ones.
func (g *gate) close() {
	g.strangers.Close()
	g.slots.Close()
}

// waiting counts the waiting runs.
func (g *gate) waiting() int { return g.strangers.Waiting() + g.slots.Waiting() }

func (g *gates) close() {
	for _, gate := range g {
		gate.close()
	}
}

// waiting counts the waiting runs of all depths.
func (g *gates) waiting() int {
	n := 0
	for _, gate := range g {
		n += gate.waiting()
	}
	return n
}
