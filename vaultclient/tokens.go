package vaultclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// withTransform is the query that requests [vault.Token.Transform].
const withTransform = "transform=true"

// CreateToken stores a value and returns its token with masked data. See
// [vault.Client.CreateToken].
func (c *Client) CreateToken(ctx context.Context, p vault.TokenParams) (*vault.Token, error) {
	return with[vault.Token](ctx, c, &request{verb: &core.VerbCreateToken, method: http.MethodPost, path: "/tokens", query: withTransform, once: true}, p)
}

// GetToken returns a token as the key may see it. See [vault.Client.GetToken].
func (c *Client) GetToken(ctx context.Context, id string) (*vault.Token, error) {
	return get[vault.Token](ctx, c, &core.VerbGetToken, tokenPath(id), withTransform)
}

// PatchToken changes a token by a JSON merge patch and returns it masked. See
// [vault.Client.PatchToken].
func (c *Client) PatchToken(ctx context.Context, id string, patch any) (*vault.Token, error) {
	body, err := document(patch)
	if err != nil {
		return nil, err
	}
	return call[vault.Token](ctx, c, &request{verb: &core.VerbPatchToken, method: http.MethodPatch, path: tokenPath(id), query: withTransform, typ: contentPatch, body: body, once: true})
}

// DeleteToken deletes a token. See [vault.Client.DeleteToken].
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return c.remove(ctx, &core.VerbDeleteToken, tokenPath(id))
}

// EraseTokens erases tokens that match a query, or that have certain ids. See
// [vault.Client.EraseTokens].
func (c *Client) EraseTokens(ctx context.Context, p vault.EraseParams) (*vault.Erasure, error) {
	return post[vault.Erasure](ctx, c, &core.VerbEraseTokens, "/tokens/erase", "", p)
}

// noToken replaces impossible token ids in paths. No token can have it,
// because it is too short.
const noToken = "-"

// tokenPath returns the path of a token. An impossible id is replaced,
// because a server in between that cleans paths could route the request
// elsewhere. The request is sent all the same, because a key that may not
// read tokens gets a different error.
func tokenPath(id string) string {
	if !token.CanBeID(id) {
		id = noToken
	}
	return "/tokens/" + url.PathEscape(id)
}

// Tokenize creates tokens for all values in a document, or for none. It
// returns the same structure with tokens in place of values. See
// [vault.Client.Tokenize].
func (c *Client) Tokenize(ctx context.Context, document any) (vault.JSON, error) {
	if document == nil { // nil, as opposed to a JSON null
		return nil, invalid("data", "is required")
	}
	return c.transform(ctx, &request{verb: &core.VerbTokenize, path: "/tokenize", once: true}, document)
}

// Detokenize returns a document with its expressions replaced by the data of
// tokens. See [vault.Client.Detokenize].
func (c *Client) Detokenize(ctx context.Context, document any) (vault.JSON, error) {
	r := &request{verb: &core.VerbDetokenize, path: "/detokenize"}
	if token.ShowsTransform(ctx) {
		r.query = withTransform
	}
	return c.transform(ctx, r, document)
}

// transform sends a document and returns the document in the response.
func (c *Client) transform(ctx context.Context, r *request, x any) (vault.JSON, error) {
	var err error
	r.method, r.typ = http.MethodPost, contentJSON
	if r.body, err = document(x); err != nil {
		return nil, err
	}
	a, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if !a.isJSON() || !json.Valid(a.body) {
		return nil, notAVault(r, a, "it is not JSON")
	}
	return a.body, nil
}

// ListTokens returns a page of the tokens that the key may read, newest first.
// See [vault.Client.ListTokens].
func (c *Client) ListTokens(ctx context.Context, p vault.ListTokensParams) (*vault.Page[vault.Token], error) {
	return getTokens[vault.Page[vault.Token]](ctx, c, &core.VerbListTokens, "/tokens", tokenQuery(p))
}

// getTokens gets a list of tokens with their transforms.
func getTokens[T any](ctx context.Context, c *Client, verb *core.Verb, path string, query url.Values) (*T, error) {
	query.Set("transform", "true")
	return get[T](ctx, c, verb, path, query.Encode())
}

// ListTokensAfter returns the selected tokens after a position in a list, newest
// first. See [vault.Client.ListTokensAfter].
func (c *Client) ListTokensAfter(ctx context.Context, sel vault.TokenSelection, after string) (*vault.CursorPage[vault.Token], error) {
	return c.tokensAfter(ctx, &core.VerbListTokensAfter, sel, 0, after)
}

// cursorSearch is the body of a search that continues at a position.
type cursorSearch struct {
	Query string `json:"query,omitempty"`
	Size  int    `json:"size,omitempty"`
	Start string `json:"start,omitempty"`
}

// tokensAfter returns the page after a position. A size that is not zero replaces
// the page of the selection.
func (c *Client) tokensAfter(ctx context.Context, verb *core.Verb, sel vault.TokenSelection, size int, after string) (*vault.CursorPage[vault.Token], error) {
	list, lists := sel.(vault.ListTokensParams)
	search, searches := sel.(vault.SearchTokensParams)
	page := cmp.Or(list.PageParams, search.PageParams)
	if size != 0 {
		page = vault.PageParams{Size: size}
	}
	switch {
	case page.Page != 0:
		return nil, errPage
	case searches:
		return post[vault.CursorPage[vault.Token]](ctx, c, verb, "/v2/tokens/search", withTransform, cursorSearch{search.Query, page.Size, after})
	case !lists && sel != nil:
		return nil, errors.New("vaultclient: a selection of tokens must be a ListTokensParams or a SearchTokensParams, not a pointer")
	}
	list.PageParams = page
	query := tokenQuery(list)
	if after != "" {
		query.Set("start", after)
	}
	return getTokens[vault.CursorPage[vault.Token]](ctx, c, verb, "/v2/tokens", query)
}

// errPage rejects a page number for a list by cursor.
var errPage = invalid("page", "is not for lists by cursor; leave it out")

// tokenQuery returns the query parameters for a list of tokens.
func tokenQuery(p vault.ListTokensParams) url.Values {
	query := pageQuery(p.PageParams)
	query["id"] = p.IDs
	for _, t := range p.Types {
		query.Add("type", string(t))
	}
	for key, value := range p.Metadata {
		query.Set("metadata."+key, value)
	}
	return query
}

// pageQuery returns the query parameters for a page.
func pageQuery(p vault.PageParams) url.Values {
	query := url.Values{}
	for name, n := range map[string]int{"page": p.Page, "size": p.Size} {
		if n != 0 {
			query.Set(name, fmt.Sprint(n))
		}
	}
	return query
}

// SearchTokens returns a page of the tokens that match a query and that the
// key may search, newest first. See [vault.Client.SearchTokens].
func (c *Client) SearchTokens(ctx context.Context, p vault.SearchTokensParams) (*vault.Page[vault.Token], error) {
	return post[vault.Page[vault.Token]](ctx, c, &core.VerbSearchTokens, "/tokens/search", withTransform, p)
}
