package vault

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// Tokenize creates tokens for all values in a document and returns the same
// structure with tokens in their place (permission token:create on each container).
//
// An object with both type and data is a token request with the fields of
// [TokenParams], and becomes a token object with masked data. Every other value
// becomes a generic token and is replaced by its id. Objects and arrays keep their
// keys and order; null stays null.
//
// Either all tokens are created or none. The error names the path of every invalid
// value.
func (c *Client) Tokenize(ctx context.Context, document any) (JSON, error) {
	return run(ctx, c, &core.VerbTokenize, func(ctx context.Context, op *core.Op) (JSON, error) {
		return tokens.Tokenize(ctx, op, plainJSON(document))
	})
}

// Detokenize returns a document with its expressions replaced by the data of tokens
// (permission token:use on each container). The expressions are {{ <id> }}, {{ <id>
// | filter }}, and {{ token: <id> }} for the whole token.
//
// A string that is exactly one expression becomes the value itself; with text
// around the expression it stays a string. Object keys are not searched, and
// inserted values are not evaluated again. A call can use at most 100 distinct
// tokens. An id that does not exist is an [InvalidError] that names it.
func (c *Client) Detokenize(ctx context.Context, document any) (JSON, error) {
	return run(ctx, c, &core.VerbDetokenize, func(ctx context.Context, op *core.Op) (JSON, error) {
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
