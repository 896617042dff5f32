// Package budget bounds the work that the expressions of one request may
// cause, ends it soon after the caller has gone, and takes the tenant's turn for
// work that is not short.
//
// Work is counted in steps of about 50 ns: a value visited, a comparison, a few
// bytes of text read or built. What costs more is priced higher.
package budget

import (
	"context"
	"errors"
	"math"

	"github.com/seed-72ea4aab/vault/internal/admission"
)

// The sizes of budgets, and the price of text. A few passes over all that a
// caller sent are paid for whatever its size; what is quadratic is not.
const (
	requestSteps = 2_000_000 // about 0.1 s
	tokenSteps   = 500       // more for each token of a request
	maskSteps    = 20_000    // about 1 ms
	sentPerStep  = 8         // bytes of what was sent, for one step more
	textPerStep  = 32        // bytes of text that are read or built in one step
)

// lookEvery is how many steps pass between looks at the context and at who
// waits for a turn, about 0.2 ms.
const lookEvery = 4096

// The reasons for which a budget is spent.
var (
	errRequest = errors.New("takes too much work: the expressions of one request may take 2,000,000 steps together, plus 500 for each token and one for each 8 bytes sent")
	errMask    = errors.New("takes too much work: a mask may take 20,000 steps, plus one for each 8 bytes of the data")
)

// Budget is the number of steps that are left. A nil Budget never ends: it is
// for the expressions that a type of token brings with it. A Budget serves one
// goroutine.
type Budget struct {
	ctx    context.Context
	room   *admission.Room
	spent  error // the reason to give when nothing is left
	steps  int   // in all
	left   int
	lookAt int   // when this is left, the context is looked at
	err    error // why nothing may be spent any more
}

// Request returns the budget of a request with so many tokens and bytes. It
// ends with the context.
func Request(ctx context.Context, tokens, bytes int) *Budget {
	return newBudget(ctx, requestSteps+tokens*tokenSteps+bytes/sentPerStep, errRequest)
}

// Mask returns the budget for one evaluation of a mask over data of so many
// bytes. It ends with the context.
func Mask(ctx context.Context, bytes int) *Budget {
	return newBudget(ctx, maskSteps+bytes/sentPerStep, errMask)
}

func newBudget(ctx context.Context, steps int, spent error) *Budget {
	return &Budget{ctx: ctx, room: admission.Of(ctx), spent: spent, steps: steps, left: steps, lookAt: max(0, steps-lookEvery)}
}

// Text returns how many steps it takes to read or build so many bytes of text.
func Text(bytes int) int { return bytes / textPerStep }

// AddToken makes room for one more token of the request, of so many bytes.
func (b *Budget) AddToken(bytes int) {
	if b == nil || b.err != nil {
		return
	}
	more := tokenSteps + bytes/sentPerStep
	b.steps, b.left, b.lookAt = b.steps+more, b.left+more, b.lookAt+more
}

// Spend takes steps and reports whether the work may go on. Once it may not,
// it never may again.
func (b *Budget) Spend(steps int) bool {
	if b == nil {
		return true
	}
	b.left -= steps
	return b.left >= b.lookAt || b.look()
}

// look finds out whether the work may go on.
func (b *Budget) look() bool {
	switch {
	case b.err != nil:
		return false
	case b.ctx.Err() != nil:
		b.end(b.ctx.Err())
	case b.left < 0:
		b.end(b.spent)
	default:
		b.lookAt = max(0, b.left-lookEvery)
		if err := b.room.Turn(b.ctx); err != nil {
			b.end(err)
		}
	}
	return b.err == nil
}

func (b *Budget) end(err error) { b.err, b.lookAt = err, math.MaxInt }

// Lasts reports whether the work may go on. It is for work that was paid for at
// once and takes long: unlike Spend it looks at the context each time.
func (b *Budget) Lasts() bool { return b == nil || b.look() }

// Pay takes what another budget has spent, and ends with it. It returns why the
// work may not go on; nil if it may.
func (b *Budget) Pay(other *Budget) error {
	if b == nil || other == nil {
		return nil
	}
	if other.err != nil && b.err == nil {
		b.end(other.err)
	}
	b.Spend(other.Used())
	return b.err
}

// Used returns how many steps were taken so far.
func (b *Budget) Used() int { return b.steps - b.left }

// Err returns why the work may not go on: the context's error, or what to tell
// the caller about the bounds. It is nil as long as the work may go on.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}

// Canceled returns the context's error if the work ended for it, else nil.
func (b *Budget) Canceled() error {
	err := b.Err()
	if errors.Is(err, errRequest) || errors.Is(err, errMask) {
		return nil
	}
	return err
}
