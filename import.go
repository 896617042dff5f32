package vault

import (
	"context"
	"errors"
	"iter"
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
	// Resumed says that the rows may have been imported already. A row whose id
	// belongs to a token with the same type and content then counts as skipped,
	// whatever OnDuplicate says.
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
		yield(ImportResult{}, errors.New("vault: Import is not there yet"))
	}
}
