package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

func tokenCommands() []*command {
	return []*command{
		{
			name: "token create", reach: bothWays, summary: "store a value, and print its token",
			about: `--data is a string, or JSON if it begins with {, [ or ". Prefer --data - to read
				it from standard input, because arguments are visible in lists of processes and
				in the history of the shell.`,
			example: "tokenvault token create --type card_number --data - --tenant Acme < number.txt",
			setup:   setupCreateToken,
		},
		{
			name: "token get", args: "ID", min: 1, max: 1, reach: bothWays, summary: "show a token with masked data",
			about:   "Only tokenvault detokenize and tokenvault export --clear print plaintext.",
			example: "tokenvault token get tok-1 --tenant Acme",
			act:     inTenant(getToken),
		},
		{
			name: "token list", reach: bothWays, summary: "list tokens with masked data, newest first",
			example: "tokenvault token list --type card --metadata customer=42 --limit 10 --tenant Acme",
			setup:   setupListTokens,
		},
		{
			name: "token search", args: "QUERY|-", min: 1, max: 1, reach: bothWays, summary: "find tokens with a query, and show masked data",
			about: `A query has terms field:value, with AND, OR, NOT, parentheses and ranges. The
				fields are id, type, data, fingerprint, container, metadata.<key>, created_by,
				created_at, modified_by and modified_at. Use - for a query with sensitive data,
				to read it from standard input.`,
			example: `tokenvault token search 'type:card AND created_at:[2026-01-01 TO *]' --tenant Acme`,
			setup:   setupSearchTokens,
		},
		{
			name: "token update", args: "ID", min: 1, max: 1, reach: bothWays, summary: "change a token",
			about: `Data, mask and metadata are merged as in RFC 7386; other fields are replaced.
				--patch takes a whole merge patch as JSON, or - to read it from standard input.`,
			example: "tokenvault token update tok-1 --metadata customer=43 --tenant Acme",
			setup: func(f *flag.FlagSet) action {
				p := &tokenFlags{}
				p.flags(f)
				patch := f.String("patch", "", "merge patch as `JSON`, or - for standard input")
				return func(c *call) error { return updateToken(c, p, *patch) }
			},
		},
		{
			name: "token delete", args: "ID...", min: 1, max: 1000, reach: bothWays, asks: true, summary: "delete tokens",
			example: "tokenvault token delete tok-1 tok-2 --tenant Acme --yes",
			act:     inTenant(deleteTokens),
		},
	}
}

func setupCreateToken(f *flag.FlagSet) action {
	p := &tokenFlags{}
	p.flags(f)
	f.StringVar(&p.id, "id", "", "`id` of the token, or an expression for it; by default a UUID")
	f.StringVar(&p.typ, "type", "token", "`type` of the token: token, card, bank, card_number, ...")
	return func(c *call) error { return createToken(c, p) }
}

func setupListTokens(f *flag.FlagSet) action {
	var p vault.ListTokensParams
	var ids, types serve.List
	var metadata pairs
	f.Func("id", "only these `ids`, separated by commas", ids.Set)
	f.Func("type", "only these `types`, separated by commas", types.Set)
	f.Func("metadata", "only tokens with this `name=value`; repeatable", metadata.set)
	limit := f.Int("limit", defaultLimit, "at most this `number` of tokens; 0 for all")
	return func(c *call) error {
		p.IDs, p.Metadata = ids, metadata
		for _, typ := range types {
			p.Types = append(p.Types, vault.TokenType(typ))
		}
		return c.printTokens(*limit, func(api vault.API) iter.Seq2[*vault.Token, error] { return api.AllTokens(c.ctx, p) })
	}
}

func setupSearchTokens(f *flag.FlagSet) action {
	limit := f.Int("limit", defaultLimit, "at most this `number` of tokens; 0 for all")
	return func(c *call) error {
		query, err := c.textOrInput(c.args[0])
		if err != nil {
			return err
		}
		return c.printTokens(*limit, func(api vault.API) iter.Seq2[*vault.Token, error] {
			return api.AllTokens(c.ctx, vault.SearchTokensParams{Query: query})
		})
	}
}

func getToken(c *call, o *opened) error {
	t, err := o.api.GetToken(c.ctx, c.args[0])
	if err != nil {
		return err
	}
	return printItem(c, masked(c.ctx, t), tokenColumns)
}

// defaultLimit is how many items a potentially long list shows.
const defaultLimit = 100

var tokenColumns = []column[*vault.Token]{
	{"ID", func(t *vault.Token) string { return t.ID }},
	{"TYPE", func(t *vault.Token) string { return string(t.Type) }},
	{"DATA", func(t *vault.Token) string { return dataText(t.Data) }},
	{"CONTAINERS", func(t *vault.Token) string { return strings.Join(t.Containers, ",") }},
	{"CREATED", func(t *vault.Token) string { return shell.TimeText(t.CreatedAt) }},
	{"EXPIRES", func(t *vault.Token) string { return shell.TimeText(t.ExpiresAt) }},
	{"METADATA", func(t *vault.Token) string { return pairsText(t.Metadata) }},
	{"FINGERPRINT", func(t *vault.Token) string { return t.Fingerprint }},
	{"MODIFIED", func(t *vault.Token) string { return shell.TimeText(t.ModifiedAt) }},
}

// dataText returns data for a table: a string without its quotes.
func dataText(data vault.JSON) string {
	var text string
	if json.Unmarshal(data, &text) == nil && data.String() != "null" {
		return text
	}
	return data.String()
}

func pairsText(m map[string]string) string {
	all := make([]string, 0, len(m))
	for name, value := range m {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// tokenFlags are the flags that describe a token, or changes to a token.
type tokenFlags struct {
	id, typ, data, mask, fingerprint, expires string
	containers, indexes                       texts
	metadata                                  pairs
	dedup                                     bool
}

func (p *tokenFlags) flags(f *flag.FlagSet) {
	f.StringVar(&p.data, "data", "", "the `text` or JSON to store, or - for standard input")
	f.StringVar(&p.mask, "mask", "", "mask: an `expression`, or JSON with expressions in it")
	f.StringVar(&p.fingerprint, "fingerprint-expression", "", "`expression` for the fingerprint")
	f.StringVar(&p.expires, "expires-at", "", "`time` at which the token expires, such as 2030-01-31T00:00:00Z, or a duration from now, such as 24h")
	f.Func("container", "`path` of a container; repeatable", p.containers.set)
	f.Func("search-index", "`expression` for a search index; repeatable", p.indexes.set)
	f.Func("metadata", "`name=value`; repeatable", p.metadata.set)
	f.BoolVar(&p.dedup, "deduplicate", false, "return an existing token with the same content instead")
}

// textOrInput returns the text itself, or standard input for "-".
func (c *call) textOrInput(text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	all, err := io.ReadAll(io.LimitReader(c.In, maxInput+1))
	if err != nil {
		return "", err
	}
	if len(all) > maxInput {
		return "", fmt.Errorf("standard input has more than %d MiB", maxInput>>20)
	}
	return string(bytes.TrimRight(all, "\r\n")), nil
}

// maxInput is how many bytes of standard input a command reads into memory.
const maxInput = 64 << 20

// value converts data from the command line to JSON. Text that starts like an
// object, an array or a string must be JSON. All other text is a string,
// including expressions, which start with {{.
func value(text string) (vault.JSON, error) {
	if text == "" || !strings.ContainsRune(`{["`, rune(text[0])) || strings.HasPrefix(text, "{{") {
		return vault.EncodeJSON(text)
	}
	data, err := vault.EncodeJSON(vault.JSON(text))
	if err != nil {
		return nil, shell.Usagef("the text begins like JSON, but is not valid JSON: %v", err)
	}
	return data, nil
}

func createToken(c *call, p *tokenFlags) error {
	if p.data == "" {
		return shell.Usagef("--data is required; --data - reads it from standard input")
	}
	if err := shell.CheckType(p.typ); err != nil {
		return err
	}
	fields, err := p.fields(c)
	if err != nil {
		return err
	}
	fields["type"] = p.typ
	text, err := vault.EncodeJSON(fields)
	if err != nil {
		return err
	}
	var params vault.TokenParams
	if err := params.UnmarshalJSON(text); err != nil {
		return err
	}
	params.ID = p.id
	return inTenant(func(c *call, o *opened) error {
		return printOne(c, tokenColumns)(o.api.CreateToken(c.ctx, params)) // masked for every caller
	})(c)
}

func updateToken(c *call, p *tokenFlags, patch string) error {
	var change any
	if patch != "" {
		text, err := c.textOrInput(patch)
		if err != nil {
			return err
		}
		if change, err = vault.EncodeJSON(vault.JSON(text)); err != nil {
			return shell.Usagef("--patch is not JSON: %v", err)
		}
	}
	fields, err := p.fields(c)
	if err != nil {
		return err
	}
	switch {
	case patch != "" && len(fields) > 0:
		return shell.Usagef("--patch is the whole change; leave out the other flags")
	case patch == "" && len(fields) == 0:
		return shell.Usagef("nothing to change; see tokenvault help token update")
	case patch == "":
		change = fields
	}
	return inTenant(func(c *call, o *opened) error {
		return printOne(c, tokenColumns)(o.api.PatchToken(c.ctx, c.args[0], change)) // masked for every caller
	})(c)
}

// fields returns the fields of a token that the flags describe.
func (p *tokenFlags) fields(c *call) (map[string]any, error) {
	fields := map[string]any{}
	for name, text := range map[string]string{"data": p.data, "mask": p.mask} {
		if text == "" {
			continue
		}
		text, err := c.textOrInput(text)
		if err != nil {
			return nil, err
		}
		if fields[name], err = value(text); err != nil {
			return nil, err
		}
	}
	if p.metadata != nil {
		fields["metadata"] = p.metadata
	}
	if p.containers != nil {
		fields["containers"] = []string(p.containers)
	}
	if p.indexes != nil {
		fields["search_indexes"] = []string(p.indexes)
	}
	if p.fingerprint != "" {
		fields["fingerprint_expression"] = p.fingerprint
	}
	if c.given("deduplicate") {
		fields["deduplicate_token"] = p.dedup
	}
	at, err := shell.ParseTime("expires-at", p.expires, time.Now(), 1)
	if err != nil {
		return nil, err
	}
	if !at.IsZero() {
		fields["expires_at"] = at
	}
	return fields, nil
}

func deleteTokens(c *call, o *opened) error {
	if err := c.confirm("Delete " + shell.Counted(len(c.args), "token") + "?"); err != nil {
		return err
	}
	for _, id := range c.args {
		if err := o.api.DeleteToken(c.ctx, id); err != nil {
			return fmt.Errorf("token %s: %w", shell.Printable(id), err)
		}
		if err := c.say(nil, map[string]any{"id": id, "deleted": true}, "Deleted the token %s.", shell.Printable(id)); err != nil {
			return err
		}
	}
	return nil
}
