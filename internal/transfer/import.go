// Package transfer moves many tokens in and out, in batches and in memory that
// does not grow with their number.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// What becomes of a row whose id is taken; "" stands for Fail.
const (
	Fail   = "fail"
	Skip   = "skip"
	Update = "update"
)

// The outcomes of a row.
const (
	Created = "created"
	Updated = "updated"
	Skipped = "skipped"
	Failed  = "failed"
)

// Options adjusts an import. The front documents the fields.
type Options struct {
	OnDuplicate string
	Name        string
	FirstRow    int
	Resumed     bool
}

// check checks the options.
func (o *Options) check() error {
	bad := &form.Problems{}
	switch o.OnDuplicate {
	case "", Fail, Skip, Update:
	default:
		bad.Add("on_duplicate", "must be fail, skip or update")
	}
	if o.FirstRow < 0 {
		bad.Add("first_row", "must be at least 1")
	}
	form.CheckText(bad, "name", o.Name)
	return fault.Of(bad)
}

// Result is the outcome of a row.
type Result struct {
	Row     int
	Outcome string
	ID      string // the token's, unless the row failed
	Err     error  // why it failed
}

// Import creates tokens from rows. It yields results in the order of the rows,
// each when its row is durable, until yield returns false. An error of a row that
// matches ErrInvalid is a result, ErrPause has the rows so far written; any other
// ends the import.
func Import(ctx context.Context, op *core.Op, rows iter.Seq2[tokens.Params, error], opts *Options, yield func(Result) bool) error {
	if err := opts.check(); err != nil {
		return err
	}
	im := &importer{op: op, opts: opts, row: cmp.Or(opts.FirstRow, 1), yield: yield}
	if err := im.run(ctx, rows); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

// errStopped means that the caller's loop has ended.
var errStopped = errors.New("stopped")

// importer reads rows and gives results in the goroutine of its caller. While it
// gathers and prepares a batch, the one before is written.
type importer struct {
	op    *core.Op
	opts  *Options
	yield func(Result) bool
	row   int // the number of the next row
	asked int // rows that were counted by the limiter

	next    *batch // being gathered; may be nil
	written *batch // being written; may be nil
}

func (im *importer) run(ctx context.Context, rows iter.Seq2[tokens.Params, error]) error {
	defer im.leave()
	var ended error
	for p, err := range rows {
		if errors.Is(err, fault.ErrPause) {
			if err := im.drain(ctx); err != nil {
				return err
			}
			continue
		}
		if ended = im.add(ctx, p, err); ended != nil {
			break
		}
		if im.next.full() {
			if err := im.advance(ctx); err != nil {
				return err
			}
		}
	}
	if err := im.drain(ctx); err != nil {
		return err
	}
	return ended
}

// drain writes all rows that were gathered and yields their results.
func (im *importer) drain(ctx context.Context) error {
	for im.next != nil || im.written != nil {
		if err := im.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leave waits for the batch that is being written, and gives back all room.
func (im *importer) leave() {
	if im.written != nil {
		<-im.written.done
		im.written.room.Leave()
	}
	if im.next != nil {
		im.next.room.Leave()
	}
}

// add gathers a row. Its error ends the import.
func (im *importer) add(ctx context.Context, p tokens.Params, rowErr error) error {
	if rowErr != nil && !errors.Is(rowErr, fault.ErrInvalid) {
		return rowErr
	}
	if im.next == nil {
		im.next = newBatch(ctx, im.op, im.opts)
	}
	defer im.next.room.Rest() // before the next row is waited for
	err := im.next.add(im.row, p, rowErr)
	im.row++
	return err
}

// advance prepares the gathered batch, yields the results of the batch that is being
// written, and starts to write the gathered one.
func (im *importer) advance(ctx context.Context) error {
	next, before := im.next, im.written
	var prepared time.Time
	if next != nil {
		if err := im.ask(ctx, len(next.rows)); err != nil {
			return err // it may have waited long, so rights come after it
		}
		prepared = time.Now()
		op, err := im.op.Again(ctx, access.TokenCreate)
		if err != nil {
			return err
		}
		if err := next.prepare(op); err != nil {
			return err
		}
	}
	if before != nil {
		<-before.done
		im.written = nil
		before.room.Leave()
		if before.err != nil {
			return before.err
		}
	}
	if err := im.recheck(ctx, next, prepared); err != nil {
		return err
	}
	if im.next, im.written = nil, next; next != nil {
		go next.save()
	}
	if before == nil {
		return nil
	}
	for i := range before.rows {
		if !im.yield(before.rows[i].result) {
			return errStopped
		}
	}
	return nil
}

// rightsAge is how old the rights may be under which a batch is written. Only a
// batch that waits for a database that is out of reach has older ones.
const rightsAge = time.Second / 2

// recheck checks the rights of a batch again, when they are too old.
func (im *importer) recheck(ctx context.Context, b *batch, prepared time.Time) error {
	if b == nil || time.Since(prepared) <= rightsAge {
		return nil
	}
	now, err := im.op.Again(ctx, access.TokenCreate)
	if err != nil {
		return err
	}
	return b.recheck(now)
}

// ask lets the limiter of the request count rows. The first row was counted when the
// request came.
func (im *importer) ask(ctx context.Context, rows int) error {
	cost := rows
	if im.asked == 0 {
		cost--
	}
	im.asked += rows
	return admission.Of(ctx).Count(cost)
}
