package limits

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/seed-72ea4aab/vault/internal/kept"
)

// MaxDepth is how many runs may have come of each other, this one included,
// whether one waits for the other or has left it to be carried out later. Code
// that starts itself again would otherwise go on forever, and the jobs that it
// leaves would outlive the process.
const MaxDepth = 3

// MaxLeft is how many runs may be left to be carried out later by a run and
// those that it waits for. Each of them may leave as many: without a bound one
// request could fill the database.
const MaxLeft = 100

// ErrDepth and ErrLeft mean that a run has reached MaxDepth or MaxLeft.
var (
	ErrDepth = errors.New("runs call each other too deep")
	ErrLeft  = errors.New("a run has started too many others")
)

// Lineage is what a context knows of the runs that an operation comes from. Its
// zero value is an operation that comes from none.
type Lineage struct {
	Depth int        // how many runs it is below
	Bytes *Bytes     // what the calls of the innermost one hold
	Uses  *kept.Uses // collects the tokens that they use; nil when no answer is kept
	// Stranger says that somebody without an API key, who calls a proxy, causes the
	// runs.
	Stranger bool

	left *atomic.Int32 // what these runs have left for later
}

type lineageKey struct{}

// In returns a context that carries the lineage.
func (l Lineage) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, lineageKey{}, l)
}

// LineageOf returns the lineage that a context carries.
func LineageOf(ctx context.Context) Lineage {
	l, _ := ctx.Value(lineageKey{}).(Lineage)
	return l
}

// Tracking returns a lineage that collects the tokens that its runs use.
func (l Lineage) Tracking(uses *kept.Uses) Lineage {
	l.Uses = uses
	return l
}

// Below returns the lineage of what a new run will ask for.
func (l Lineage) Below() Lineage {
	l.Depth++
	if l.left == nil {
		l.left = new(atomic.Int32)
	}
	l.Bytes = new(Bytes)
	return l
}

// Leave counts a run that is left for later.
func (l Lineage) Leave() error {
	switch {
	case l.Depth >= MaxDepth:
		return ErrDepth
	case l.left != nil && l.left.Add(1) > MaxLeft:
		return ErrLeft
	}
	return nil
}
