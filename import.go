package vault

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
)

// OnDuplicate says what becomes of a row of an import whose id is taken.
type OnDuplicate string

// Such a row fails, is passed over, or changes the token that is there, as
// [Client.PatchToken] would: data, mask and metadata are merged, what else the row
// has is replaced, and a row of another type fails.
const (
	DuplicateFails   OnDuplicate = "fail" // also the meaning of ""
	DuplicateSkips   OnDuplicate = "skip"
	DuplicateUpdates OnDuplicate = "update"
)

// ImportOptions adjusts an import.
type ImportOptions struct {
	OnDuplicate OnDuplicate
	// Name is what rows without an id get one from, together with their number,
	// so that the same rows under the same name are the same tokens: an import
	// that was cut off can be repeated without doubles. When it is empty each of
	// those rows makes a token with an id of its own, every time.
	Name string
	// FirstRow is the number of the first row. Zero means 1.
	FirstRow int
	// Resumed says that the rows may have been imported already. A row whose id is
	// taken then counts as skipped; for a client that may read the token, only if
	// that has the same type and content. Rows that update do so again.
	Resumed bool
}

// ImportOutcome is what became of a row of an import.
type ImportOutcome string

// The outcomes of a row.
const (
	ImportCreated ImportOutcome = "created"
	ImportUpdated ImportOutcome = "updated" // the token that had the id
	ImportSkipped ImportOutcome = "skipped" // the token was there already; ID is its id
	ImportFailed  ImportOutcome = "failed"  // Err and Errors say why
)

// ImportResult says what became of a row of an import.
type ImportResult struct {
	Row     int           `json:"row"` // counted from ImportOptions.FirstRow
	Outcome ImportOutcome `json:"outcome"`
	// ID is the token's, unless the row failed.
	ID string `json:"id,omitempty"`
	// Errors are the rules that the row broke, by the path of the field, like
	// those of an [InvalidError]. They never hold a value. Detail is why it failed
	// where that is not about a field.
	Errors map[string][]string `json:"errors,omitempty"`
	Detail string              `json:"detail,omitempty"`
	// Err is the error that CreateToken would have returned. Over HTTP it is made
	// of Errors and Detail.
	Err error `json:"-"`
}

// Import creates tokens from rows, as fast as the database takes them and in
// memory that does not grow with their number (permission token:create on each
// container; token:update on tokens that are updated). Results come in the order
// of the rows, each when its row is durable:
//
//	for result, err := range c.Import(ctx, rows, vault.ImportOptions{}) {
//		if err != nil {
//			return err // the import has ended
//		}
//		if result.Outcome == vault.ImportFailed {
//			log.Printf("row %d: %v", result.Row, result.Err)
//		}
//	}
//
// A row that cannot be imported is a result, and does not stop the rest. An error
// of rows that matches [ErrInvalid] is that of a row too; any other ends the
// import after the rows before it. Rows are read ahead of their results, by at
// most 4,000. When the loop ends early, rows that have no result yet may
// have been imported or not.
func (c *Client) Import(ctx context.Context, rows iter.Seq2[TokenParams, error], opts ImportOptions) iter.Seq2[ImportResult, error] {
	return func(yield func(ImportResult, error) bool) {
		err := runErr(ctx, c, &verbImport, func(ctx context.Context, op *operation) error {
			if err := opts.check(); err != nil {
				return err
			}
			im := &importer{op: op, opts: opts, row: cmp.Or(opts.FirstRow, 1)}
			err := im.run(ctx, rows, yield)
			if errors.Is(err, errStopped) {
				return nil
			}
			return err
		})
		if err != nil {
			yield(ImportResult{}, err)
		}
	}
}

// check checks the options.
func (o *ImportOptions) check() error {
	bad := &form.Problems{}
	switch o.OnDuplicate {
	case "", DuplicateFails, DuplicateSkips, DuplicateUpdates:
	default:
		bad.Add("on_duplicate", "must be fail, skip or update")
	}
	if o.FirstRow < 0 {
		bad.Add("first_row", "must be at least 1")
	}
	form.CheckText(bad, "name", o.Name)
	return fault.Of(bad)
}

// errStopped means that the caller's loop has ended.
var errStopped = errors.New("stopped")

// importer reads rows and gives results in the goroutine of its caller. While it
// gathers and prepares a batch, the one before is written.
type importer struct {
	op    *operation
	opts  ImportOptions
	row   int // the number of the next row
	asked int // how many rows the limiter was asked for

	next    *importBatch // is gathered
	written *importBatch // is being written; may be nil
}

func (im *importer) run(ctx context.Context, rows iter.Seq2[TokenParams, error], yield func(ImportResult, error) bool) error {
	defer im.leave()
	var ended error
	for p, err := range rows {
		if ended = im.add(ctx, p, err); ended != nil {
			break
		}
		if im.next.full() {
			if err := im.advance(ctx, yield); err != nil {
				return err
			}
		}
	}
	for im.next != nil || im.written != nil {
		if err := im.advance(ctx, yield); err != nil {
			return err
		}
	}
	return ended
}

// leave waits for what is being written, and gives back all room.
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
func (im *importer) add(ctx context.Context, p TokenParams, rowErr error) error {
	if rowErr != nil && !errors.Is(rowErr, ErrInvalid) {
		return rowErr
	}
	if im.next == nil {
		im.next = im.newBatch(ctx)
	}
	defer im.next.room.Rest() // before the next row is waited for
	err := im.next.add(im.row, p, rowErr)
	im.row++
	return err
}

// advance prepares the batch that was gathered, gives the results of the one that
// is being written, and has the former written.
func (im *importer) advance(ctx context.Context, yield func(ImportResult, error) bool) error {
	next, before := im.next, im.written
	var prepared time.Time
	if next != nil {
		if err := im.ask(ctx, len(next.rows)); err != nil {
			return err // it may have waited long, so rights come after it
		}
		prepared = time.Now()
		op, err := im.op.again(ctx, access.TokenCreate)
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
		if !yield(before.rows[i].result, nil) {
			return errStopped
		}
	}
	return nil
}

// rightsAge is how old the rights may be under which a batch is written. Only what
// waits for a database that is out of reach is older.
const rightsAge = time.Second / 2

// recheck asks for the rights of a batch again, when they are too old.
func (im *importer) recheck(ctx context.Context, b *importBatch, prepared time.Time) error {
	if b == nil || time.Since(prepared) <= rightsAge {
		return nil
	}
	now, err := im.op.again(ctx, access.TokenCreate)
	if err != nil {
		return err
	}
	return b.recheck(now)
}

// ask asks the limiter of the request for so many tokens. The first one was paid
// for when the request came.
func (im *importer) ask(ctx context.Context, rows int) error {
	cost := rows
	if im.asked == 0 {
		cost--
	}
	im.asked += rows
	return admission.Of(ctx).Count(cost)
}
