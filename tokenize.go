package vault

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/verbs"
)

// Tokenize turns a whole document into tokens and returns the same structure
// with tokens in place of values (permission token:create on each container).
//
// An object that has both type and data is a token request, takes what
// [TokenParams] holds, and becomes a token object with masked data. Every other
// value becomes a generic token, and is replaced by its id. Objects and arrays
// are walked, their keys and order kept; null stays null.
//
// All tokens are created, or none: the error names the path of every value
// that is wrong.
func (c *Client) Tokenize(ctx context.Context, document any) (JSON, error) {
	return run(ctx, c, &verbs.Tokenize, func(ctx context.Context, op *core.Op) (JSON, error) {
		return tokens.Tokenize(ctx, op, plainJSON(document))
	})
}

// Detokenize returns a document with its expressions replaced by the data of
// tokens: {{ <id> }}, {{ <id> | filter }}, and {{ token: <id> }} for the whole
// token (permission token:use on each container).
//
// A string that is exactly one expression becomes the value itself; text
// around it makes a string. Object keys are not looked at, and what is inserted
// is not evaluated again. At most 100 distinct tokens can be used at once. An
// id that does not exist is an [InvalidError] that names it.
func (c *Client) Detokenize(ctx context.Context, document any) (JSON, error) {
	return run(ctx, c, &verbs.Detokenize, func(ctx context.Context, op *core.Op) (JSON, error) {
		doc, err := op.Document(ctx, plainJSON(document))
		if err != nil {
			return nil, err
		}
		out, err := reveal.Detokenize(ctx, op, doc, reveal.Root)
		if err != nil {
			return nil, err
		}
		if raw, ok := document.(JSON); ok && out == doc {
			return raw, nil // nothing to replace: not a byte is changed
		}
		return out.JSON(), nil
	})
}
