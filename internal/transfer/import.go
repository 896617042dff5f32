// Package transfer imports and exports many tokens, in batches and in
// constant memory.
//
// It promises that a row which was reported as created is durable, that an import can be
// repeated from any row without a second token if rows have ids, and that an export
// shows only what the caller may use and reveal. Rights are renewed for each batch,
// because a transfer can take hours.
//
// It rests on package tokens for the tokens of a batch and for the walk through them.
// While one batch is written, the next is read and prepared. Each has its memory charged
// to a separate room.
//
// Begin with [Import], then batch.go; or with [Export].
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

// What happens to a row whose id is taken. "" means Fail.
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

// Options configures an import. Package vault documents the fields.
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
	ID      string // id of the token, unless the row failed
	Err     error  // why it failed
}

// Import creates tokens from rows. It yields results in the order of the
// rows, each when its row is durable, until yield returns false. For an error
// of a row that matches ErrInvalid, it yields a result. ErrPause makes it
// write the rows so far. Any other error ends the import.
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

// importer reads rows and yields results in the goroutine of its caller.
// While it collects and prepares a batch, the previous batch is written.
type importer struct {
	op    *core.Op
	opts  *Options
	yield func(Result) bool
	row   int // number of the next row
	asked int // rows that the rate limiter has counted

	next    *batch // batch being collected; may be nil
	written *batch // batch being written; may be nil
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

// drain writes all collected rows and yields their results.
func (im *importer) drain(ctx context.Context) error {
	for im.next != nil || im.written != nil {
		if err := im.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leave waits for the batch that is being written, and releases all memory.
func (im *importer) leave() {
	if im.written != nil {
		<-im.written.done
		im.written.room.Leave()
	}
	if im.next != nil {
		im.next.room.Leave()
	}
}

// add adds a row to the next batch. An error ends the import.
func (im *importer) add(ctx context.Context, p tokens.Params, rowErr error) error {
	if rowErr != nil && !errors.Is(rowErr, fault.ErrInvalid) {
		return rowErr
	}
	if im.next == nil {
		im.next = newBatch(ctx, im.op, im.opts)
	}
	defer im.next.room.Rest() // before it waits for the next row
	err := im.next.add(im.row, p, rowErr)
	im.row++
	return err
}

// advance prepares the next batch, yields the results of the batch that is
// being written, and starts writing the next batch.
func (im *importer) advance(ctx context.Context) error {
	next, before := im.next, im.written
	var prepared time.Time
	if next != nil {
		if err := im.ask(ctx, len(next.rows)); err != nil {
			return err // this may have waited long, so rights are checked after it
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
		if next != nil {
			next.tokens.LookFirst = before.someTaken()
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

// rightsAge is the maximum age of the rights with which a batch is written.
// Only a batch that waits for an unreachable database has older rights.
const rightsAge = time.Second / 2

// recheck checks the rights of a batch again if they are too old.
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

// ask lets the rate limiter of the request count rows. The first row was
// counted with the request.
func (im *importer) ask(ctx context.Context, rows int) error {
	cost := rows
	if im.asked == 0 {
		cost--
	}
	im.asked += rows
	return admission.Of(ctx).Count(cost)
}
