// Package given has what the tests of a vault begin with: clients with certain rights,
// their tokens, databases that can fail, and functions in the place of tenants' code.
//
// Its checks know the types of a vault; package must has the other checks.
package given

import (
	"iter"
	"slices"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// NewApplication creates an application and returns it with its client.
func NewApplication(t *testing.T, v *vaulttest.Vault, p vault.ApplicationParams) (*vault.Application, *vault.Client) {
	t.Helper()
	app := must.Get(v.Owner.CreateApplication(t.Context(), p))(t)
	return app, Authenticated(t, v.Vault, app.Key)
}

// Values that are valid for their types.
const (
	Visa       = "4242424242424242"
	Mastercard = "5555555555554444"
	Routing    = "110000000"
)

// Everything holds all permissions on tokens.
var Everything = []vault.Permission{"token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"}

// Rule returns an access rule on a container.
func Rule(priority int, container string, transform vault.Transform, permissions ...vault.Permission) vault.AccessRule {
	return vault.AccessRule{Priority: priority, Container: container, Transform: transform, Permissions: permissions}
}

// Private returns a client of a new private application that has only these rules.
func Private(t testing.TB, v *vaulttest.Vault, rules ...vault.AccessRule) *vault.Client {
	t.Helper()
	c, _ := v.NewApplication(t, v.Owner, vault.ApplicationPrivate, rules)
	return c
}

// Revealing returns a client that sees all data in plaintext.
func Revealing(t testing.TB, v *vaulttest.Vault) *vault.Client {
	t.Helper()
	return Private(t, v, Rule(1, "/", vault.TransformReveal, Everything...))
}

// Holding returns a client of a new private application with plain permissions.
func Holding(t testing.TB, v *vaulttest.Vault, permissions ...vault.Permission) *vault.Client {
	t.Helper()
	return Application(t, v, vault.ApplicationParams{Name: "Plain", Type: vault.ApplicationPrivate, Permissions: permissions})
}

// Application returns a client of a new application.
func Application(t testing.TB, v *vaulttest.Vault, p vault.ApplicationParams) *vault.Client {
	t.Helper()
	app := must.Get(v.Owner.CreateApplication(t.Context(), p))(t)
	return Authenticated(t, v.Vault, app.Key)
}

// Authenticated returns the client of an API key.
func Authenticated(t testing.TB, v *vault.Vault, key string) *vault.Client {
	t.Helper()
	return must.Get(v.Authenticate(t.Context(), key))(t)
}

// Create creates a token.
func Create(t testing.TB, c *vault.Client, p vault.TokenParams) *vault.Token {
	t.Helper()
	return must.Get(c.CreateToken(t.Context(), p))(t)
}

// CreateJSON creates a token from the JSON form of its parameters.
func CreateJSON(t testing.TB, c *vault.Client, body string) (*vault.Token, error) {
	t.Helper()
	var p vault.TokenParams
	if err := p.UnmarshalJSON([]byte(body)); err != nil {
		return nil, err
	}
	return c.CreateToken(t.Context(), p)
}

// Update patches a token.
func Update(t testing.TB, c *vault.Client, id, patch string) *vault.Token {
	t.Helper()
	tok, err := c.PatchToken(t.Context(), id, vault.JSON(patch))
	if err != nil {
		t.Fatalf("update token with %s: %v", patch, err)
	}
	return tok
}

// Get reads a token.
func Get(t testing.TB, c *vault.Client, id string) *vault.Token {
	t.Helper()
	return must.Get(c.GetToken(t.Context(), id))(t)
}

// IDs returns the ids of a page in order.
func IDs(page *vault.Page[vault.Token]) []string {
	out := make([]string, len(page.Data))
	for i := range page.Data {
		out[i] = page.Data[i].ID
	}
	return out
}

// List returns the ids that a client finds in a list, and the total.
func List(t testing.TB, c *vault.Client, p vault.ListTokensParams) ([]string, int) {
	t.Helper()
	page := must.Get(c.ListTokens(t.Context(), p))(t)
	return IDs(page), page.Pagination.TotalItems
}

// Operations returns the operations in the log entries of an entity, oldest first.
func Operations(t testing.TB, v *vaulttest.Vault, entityID string) []string {
	t.Helper()
	var out []string
	for _, e := range Entries(t, v, vault.ListLogsParams{EntityID: entityID}) {
		out = append(out, string(e.Operation))
	}
	return out
}

// Entries returns log entries, oldest first.
func Entries(t testing.TB, v *vaulttest.Vault, p vault.ListLogsParams) []vault.LogEntry {
	t.Helper()
	p.Size = 100
	page := must.Get(v.Owner.ListLogs(t.Context(), p))(t)
	slices.Reverse(page.Data)
	return page.Data
}

// Session opens a session and authorizes it.
func Session(t testing.TB, v *vaulttest.Vault, g vault.SessionGrant) *vault.Client {
	t.Helper()
	s := must.Get(v.Public.CreateSession(t.Context()))(t)
	g.Nonce = s.Nonce
	must.Do(t, v.Owner.AuthorizeSession(t.Context(), g))
	return Authenticated(t, v.Vault, s.SessionKey)
}

// Rows returns an iterator over rows.
func Rows(rows ...vault.TokenParams) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Text is a row with an id and a text.
func Text(id, text string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: text}
}

// Messages returns the messages of entries, oldest first.
func Messages(t *testing.T, c *vault.Client, f vault.ListLogsParams) []string {
	t.Helper()
	all := []string{}
	for e, err := range c.AllLogs(t.Context(), f) {
		must.Do(t, err)
		all = append(all, e.Message)
	}
	slices.Reverse(all)
	return all
}

// Deduplicated returns a token that is not stored twice.
func Deduplicated(data any) vault.TokenParams {
	return vault.TokenParams{Type: vault.TypeGeneric, Data: data, DeduplicateToken: new(true)}
}

// Tokenize replaces the values of a document by tokens.
func Tokenize(t testing.TB, c *vault.Client, doc string) vault.JSON {
	t.Helper()
	out, err := c.Tokenize(t.Context(), vault.JSON(doc))
	if err != nil {
		t.Fatalf("tokenize %s: %v", doc, err)
	}
	return out
}

// Detokenize replaces the expressions of a document by data.
func Detokenize(t testing.TB, c *vault.Client, doc string) string {
	t.Helper()
	out, err := c.Detokenize(t.Context(), vault.JSON(doc))
	if err != nil {
		t.Fatalf("detokenize %s: %v", doc, err)
	}
	return string(out)
}
