package vault

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/transfer"
)

// OnDuplicate decides what happens to a row of an import whose id is taken.
type OnDuplicate string

// DuplicateFails refuses the row, and DuplicateSkips ignores it. DuplicateUpdates
// changes the existing token as [Client.PatchToken] would: data, mask and metadata
// are merged, and other fields of the row are replaced. A row with another type
// than the token fails.
const (
	DuplicateFails   OnDuplicate = transfer.Fail // also the meaning of ""
	DuplicateSkips   OnDuplicate = transfer.Skip
	DuplicateUpdates OnDuplicate = transfer.Update
)

// ImportOptions adjusts an import.
type ImportOptions struct {
	OnDuplicate OnDuplicate
	// Name makes an import repeatable. A row without an id gets an id derived from
	// Name and the number of the row, so the same rows under the same name are the
	// same tokens. An interrupted import can then be repeated without duplicates.
	// If Name is empty, each row without an id creates a new token every time.
	Name string
	// FirstRow is the number of the first row. Zero means 1.
	FirstRow int
	// Resumed means that the rows may have been imported already. A row whose id is
	// taken then counts as skipped. If the client may read the token, the type and
	// content must also be equal. Rows that update do so again.
	Resumed bool
}

// ImportOutcome is the outcome of a row of an import.
type ImportOutcome string

// The outcomes of a row.
const (
	ImportCreated ImportOutcome = transfer.Created
	ImportUpdated ImportOutcome = transfer.Updated // the existing token was changed
	ImportSkipped ImportOutcome = transfer.Skipped // the token exists already; ID is its id
	ImportFailed  ImportOutcome = transfer.Failed  // Err and Errors say why
)

// ImportResult describes the outcome of a row of an import.
type ImportResult struct {
	Row     int           `json:"row"` // counted from ImportOptions.FirstRow
	Outcome ImportOutcome `json:"outcome"`
	// ID is the id of the token. It is empty if the row failed.
	ID string `json:"id,omitempty"`
	// Errors are the rules that the row broke, by the path of the field, as in an
	// [InvalidError]. They never hold a value. Detail is the reason for a failure
	// that is not about a field.
	Errors map[string][]string `json:"errors,omitempty"`
	Detail string              `json:"detail,omitempty"`
	// Err is the error that CreateToken would have returned. Over HTTP it is built
	// from Errors and Detail.
	Err error `json:"-"`
}

// ErrImportPause means that the next row may take a while. The rows of
// [Client.Import] yield it. Import then writes the rows it has without waiting for
// more, and continues.
var ErrImportPause = fault.ErrPause

// Import creates tokens from rows as fast as the database accepts them. Its memory
// does not grow with the number of rows. It needs the permission token:create on
// each container, and token:update on tokens that it updates. Import does nothing
// until its result is used in a loop. Results come in the order of the rows, each
// when its row is durable:
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
// A row that cannot be imported gives a failed result and does not stop the import.
// If rows yields an error that matches [ErrInvalid], only that row fails;
// [ErrImportPause] makes Import write the rows so far. Any other error ends the
// import after the rows before it. Import reads at most 4,000 rows ahead of their
// results. When the loop ends early, rows without a result may or may not have been
// imported.
func (c *Client) Import(ctx context.Context, rows iter.Seq2[TokenParams, error], opts *ImportOptions) iter.Seq2[ImportResult, error] {
	return func(yield func(ImportResult, error) bool) {
		var inside transfer.Options
		if opts != nil {
			inside = transfer.Options{OnDuplicate: string(opts.OnDuplicate), Name: opts.Name, FirstRow: opts.FirstRow, Resumed: opts.Resumed}
		}
		err := runErr(ctx, c, &core.VerbImport, func(ctx context.Context, op *core.Op) error {
			return transfer.Import(ctx, op, rowsInside(rows), &inside, func(r transfer.Result) bool { return yield(resultOf(r), nil) })
		})
		if err != nil {
			yield(ImportResult{}, err)
		}
	}
}

// rowsInside converts rows to the type of the internal package.
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
		_, out.Detail = fault.Status(r.Err)
	}
	return out
}

// Export iterates over the selected tokens with their plaintext data, oldest first,
// in the form that [Client.Import] takes. It needs the permission token:use with the
// transform reveal, and no other permission for the selection. Tokens on which the client lacks that right are left out, and a client
// that has it nowhere gets ErrForbidden. Before a token is returned, its use is
// entered in the log.
//
// A cvc is not exported. Memory does not grow with the number of tokens. Like every
// iterator of [Client], Export misses no token that existed throughout, and ends
// after an error. Tokens created during the export may come last.
func (c *Client) Export(ctx context.Context, sel TokenSelection) iter.Seq2[TokenParams, error] {
	asked, _, verb := selected(sel, &core.VerbExport, &core.VerbExport)
	return func(yield func(TokenParams, error) bool) {
		err := runErr(ctx, c, verb, func(ctx context.Context, op *core.Op) error {
			return transfer.Export(ctx, op, asked, func(p tokens.Params) bool { return yield(paramsOf(p), nil) })
		})
		if err != nil {
			yield(TokenParams{}, err)
		}
	}
}
