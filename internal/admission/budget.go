package admission

import (
	"context"
	"errors"
	"math"
)

// The sizes of budgets, and the price of text. A budget always covers a few
// passes over everything that a caller sent, whatever its size, but not
// quadratic work.
const (
	requestSteps = 2_000_000 // about 0.1 s
	tokenSteps   = 500       // in addition for each token of a request
	maskSteps    = 20_000    // about 1 ms
	sentPerStep  = 8         // bytes sent, for one more step
	textPerStep  = 32        // bytes of text read or built in one step
)

// lookEvery is the number of steps between two checks of the context and of
// waiting tenants, about 0.2 ms.
const lookEvery = 4096

// The errors of budgets that are used up.
var (
	errRequest = errors.New("takes too much work: the expressions of one request may take 2,000,000 steps together, plus 500 for each token and one for each 8 bytes sent")
	errMask    = errors.New("takes too much work: a mask may take 20,000 steps, plus one for each 8 bytes of the data")
)

// Budget limits the work that the expressions of one request may cause. It ends
// soon after the caller has left, and takes the tenant's turn for longer work.
//
// Work is counted in steps of about 50 ns: a value visited, a comparison, a few
// bytes of text read or built. More expensive work costs more steps. A nil
// Budget never ends; it is for the built-in expressions of token types. A Budget
// is not safe for concurrent use.
type Budget struct {
	ctx    context.Context
	room   *Room
	spent  error // error when nothing is left
	steps  int   // total
	left   int
	lookAt int   // value of left at which the context is checked next
	err    error // why nothing more may be spent
}

// RequestBudget returns the budget of a request with the given number of tokens and
// bytes. It ends with the context.
func RequestBudget(ctx context.Context, tokens, bytes int) *Budget {
	return newBudget(ctx, requestSteps+tokens*tokenSteps+bytes/sentPerStep, errRequest)
}

// MaskBudget returns the budget for one evaluation of a mask over data with the
// given number of bytes. It ends with the context.
func MaskBudget(ctx context.Context, bytes int) *Budget {
	return newBudget(ctx, maskSteps+bytes/sentPerStep, errMask)
}

func newBudget(ctx context.Context, steps int, spent error) *Budget {
	return &Budget{ctx: ctx, room: Of(ctx), spent: spent, steps: steps, left: steps, lookAt: max(0, steps-lookEvery)}
}

// TextSteps returns the steps for reading or building the given number of bytes of
// text.
func TextSteps(bytes int) int { return bytes / textPerStep }

// AddToken increases the budget for one more token of the given size.
func (b *Budget) AddToken(bytes int) {
	if b == nil || b.err != nil {
		return
	}
	more := tokenSteps + bytes/sentPerStep
	b.steps, b.left, b.lookAt = b.steps+more, b.left+more, b.lookAt+more
}

// Spend takes steps and reports whether the work may continue. Once it has
// returned false, it always returns false.
func (b *Budget) Spend(steps int) bool {
	if b == nil {
		return true
	}
	b.left -= steps
	return b.left >= b.lookAt || b.look()
}

// look checks whether the work may continue.
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

// Lasts reports whether the work may continue. It is for long work that was
// paid for in advance: unlike Spend, it checks the context each time.
func (b *Budget) Lasts() bool { return b == nil || b.look() }

// Pay spends the steps of another budget, and ends if the other has ended. It
// returns the reason why the work may not continue, or nil.
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

// Used returns the number of steps taken so far.
func (b *Budget) Used() int { return b.steps - b.left }

// Err returns why the work may not continue: the context's error, or an error
// about the limits for the caller. It is nil while the work may continue.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}

// Canceled returns the context's error if it ended the work, and nil
// otherwise.
func (b *Budget) Canceled() error {
	err := b.Err()
	if errors.Is(err, errRequest) || errors.Is(err, errMask) {
		return nil
	}
	return err
}
