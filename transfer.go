package vault

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/transfer"
	"github.com/seed-72ea4aab/vault/internal/verbs"
)

// OnDuplicate says what becomes of a row of an import whose id is taken.
type OnDuplicate string

// Such a row fails, is passed over, or changes the token that is there, as
// [Client.PatchToken] would: data, mask and metadata are merged, what else the row
// has is replaced, and a row of another type fails.
const (
	DuplicateFails   OnDuplicate = transfer.Fail // also the meaning of ""
	DuplicateSkips   OnDuplicate = transfer.Skip
	DuplicateUpdates OnDuplicate = transfer.Update
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
	ImportCreated ImportOutcome = transfer.Created
	ImportUpdated ImportOutcome = transfer.Updated // the token that had the id
	ImportSkipped ImportOutcome = transfer.Skipped // the token was there already; ID is its id
	ImportFailed  ImportOutcome = transfer.Failed  // Err and Errors say why
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

// ErrImportPause is an error of rows for [Client.Import] which says that the next
// row may take a while. Import then writes the rows it has, without waiting for more
// of them, and goes on.
var ErrImportPause = fault.ErrPause

// Import creates tokens from rows, as fast as the database takes them and in
// memory that does not grow with their number (permission token:create on each
// container; token:update on tokens that are updated). Results come in the order
// of the rows, each when its row is durable:
//
//	for result, err := range c.Import(ctx, rows, nil) {
//		if err != nil {
//			return err // the import has ended
//		}
//		if result.Outcome == vault.ImportFailed {
//			log.Printf("row %d: %v", result.Row, result.Err)
//		}
//	}
//
// A row that cannot be imported is a result, and does not stop the rest. An error
// of rows that matches [ErrInvalid] is that of a row too, and [ErrImportPause] has
// the rows so far written; any other ends the import after the rows before it. Rows are read ahead of their results, by at
// most 4,000. When the loop ends early, rows that have no result yet may
// have been imported or not.
func (c *Client) Import(ctx context.Context, rows iter.Seq2[TokenParams, error], opts *ImportOptions) iter.Seq2[ImportResult, error] {
	return func(yield func(ImportResult, error) bool) {
		var inside transfer.Options
		if opts != nil {
			inside = transfer.Options{OnDuplicate: string(opts.OnDuplicate), Name: opts.Name, FirstRow: opts.FirstRow, Resumed: opts.Resumed}
		}
		err := runErr(ctx, c, &verbs.Import, func(ctx context.Context, op *core.Op) error {
			return transfer.Import(ctx, op, rowsInside(rows), &inside, func(r transfer.Result) bool { return yield(resultOf(r), nil) })
		})
		if err != nil {
			yield(ImportResult{}, err)
		}
	}
}

// rowsInside returns rows as rooms read them.
func rowsInside(rows iter.Seq2[TokenParams, error]) iter.Seq2[tokens.Params, error] {
	return func(yield func(tokens.Params, error) bool) {
		if rows == nil {
			return // a nil iterator has no rows
		}
		for p, err := range rows {
			if !yield(p.inside(), internal(err)) {
				return
			}
		}
	}
}

func resultOf(r transfer.Result) ImportResult {
	out := ImportResult{Row: r.Row, Outcome: ImportOutcome(r.Outcome), ID: r.ID, Err: public(r.Err), Errors: fault.Fields(r.Err)}
	if conflict, ok := errors.AsType[*fault.Conflict](r.Err); ok {
		out.Errors = conflict.Fields
	}
	if r.Err != nil && out.Errors == nil {
		out.Detail = fault.Detail(r.Err)
	}
	return out
}

// ExportOptions says what to export.
type ExportOptions struct {
	// Query chooses tokens as that of [SearchTokensParams] does. Empty means all.
	// It may hold data, so it is not shown when it is printed or logged.
	Query string
}

// Export iterates over tokens with their data in clear, oldest first, in the form
// that [Client.Import] takes (permission token:use with the transform reveal;
// tokens on which the client does not have that are left out, and a client that
// has it nowhere gets ErrForbidden). Each token has an entry in the log that says
// that it was used, which is written before it is given.
//
// A cvc is not exported. Memory does not grow with the number of tokens. Like
// every iterator of [Client] it misses nothing that existed throughout and ends
// after an error; tokens that are created meanwhile may come last.
func (c *Client) Export(ctx context.Context, opts *ExportOptions) iter.Seq2[TokenParams, error] {
	return func(yield func(TokenParams, error) bool) {
		query := ""
		if opts != nil {
			query = opts.Query
		}
		err := runErr(ctx, c, &verbs.Export, func(ctx context.Context, op *core.Op) error {
			return transfer.Export(ctx, op, query, func(p tokens.Params) bool { return yield(paramsOf(p), nil) })
		})
		if err != nil {
			yield(TokenParams{}, err)
		}
	}
}
