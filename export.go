package vault

import (
	"context"
	"errors"
	"iter"
)

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
func (c *Client) Export(ctx context.Context, opts ExportOptions) iter.Seq2[TokenParams, error] {
	return func(yield func(TokenParams, error) bool) {
		yield(TokenParams{}, errors.New("vault: Export is not there yet"))
	}
}
