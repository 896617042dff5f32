package cli

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// masked returns a token as the tool shows it. Its data is masked, or left
// out if the token has no mask or the mask fails. Tenants see their tokens in
// plaintext, and so do keys whose rules reveal. Plaintext must not appear on
// a screen or in the log of a script. Data that the vault has masked stays as it
// is, because masks must not be applied twice. Data without a transform counts as
// plaintext.
func masked(ctx context.Context, t *vault.Token) *vault.Token {
	if t.Unreadable || t.Transform == vault.TransformMask || t.Transform == vault.TransformRedact {
		return t
	}
	shown := *t
	shown.Data, shown.Transform = token.Masked(ctx, string(t.Type), t.Data, t.Mask), vault.TransformMask
	if shown.Data == nil {
		shown.Transform = vault.TransformRedact
	}
	return &shown
}

// printTokens prints tokens that are listed.
func (c *call) printTokens(limit int, list func(vault.API) iter.Seq2[*vault.Token, error]) error {
	o, err := c.open()
	if err != nil {
		return err
	}
	tokens := func(yield func(*vault.Token, error) bool) {
		for t, err := range limited(c, list(o.api), limit) {
			if err == nil {
				t = masked(c.ctx, t)
			}
			if !yield(t, err) {
				return
			}
		}
	}
	return printAll(c, tokens, tokenColumns[:5])
}

// documentCommands returns the commands that convert JSON documents.
func documentCommands() []*command {
	return []*command{{
		name: "tokenize", args: "[DOCUMENT|-]", max: 1, reach: bothWays, summary: "turn a JSON document into tokens",
		about: `Reads JSON, by default from standard input, and prints the same structure with
			tokens in place of values. An object with type and data becomes a token object,
			and every other value becomes the id of a token. All tokens are created, or
			none.`,
		example: `tokenvault tokenize --tenant Acme < person.json`,
		act:     func(c *call) error { return c.convert(vault.API.Tokenize) },
	}, {
		name: "detokenize", args: "[DOCUMENT|-]", max: 1, reach: bothWays, asks: true, summary: "replace tokens by their plaintext",
		about: `Reads JSON, by default from standard input, and replaces its expressions by the
			data of tokens: "{{ tok-1 }}", "{{ tok-1 | json: '$.number' }}". Text that is
			not JSON is treated as a string. The audit log gets a use of each token. It asks
			before it prints to a terminal.`,
		example: `tokenvault detokenize '{{ tok-1 }}' --tenant Acme --yes`,
		act: func(c *call) error {
			if err := c.confirmClear(); err != nil {
				return err
			}
			return c.convert(vault.API.Detokenize)
		},
	}}
}

// convert reads a document, passes it to a call, and prints the result on one
// line.
func (c *call) convert(do func(vault.API, context.Context, any) (vault.JSON, error)) error {
	text := "-"
	if len(c.args) > 0 {
		text = c.args[0]
	}
	document, err := c.document(text)
	if err != nil {
		return err
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	result, err := do(o.api, c.ctx, document)
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.Out, result.String()+"\n")
	return err
}

// document reads a document from the command line or standard input. It is
// any JSON; other text becomes a JSON string.
func (c *call) document(text string) (vault.JSON, error) {
	text, err := c.textOrInput(text)
	if err != nil {
		return nil, err
	}
	text = strings.TrimSpace(text)
	if document, err := vault.EncodeJSON(vault.JSON(text)); err == nil && text != "" {
		return document, nil
	}
	return value(text)
}
