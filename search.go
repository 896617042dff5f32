package vault

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// ListTokensParams filters tokens. Zero fields filter nothing; a token must match
// all other fields.
type ListTokensParams struct {
	IDs   []string
	Types []TokenType
	// Metadata matches values case-insensitively and keys exactly.
	Metadata map[string]string
	PageParams
}

// TokenFilter is [ListTokensParams] without a page, for [Client.AllTokens].
type TokenFilter struct {
	IDs      []string
	Types    []TokenType
	Metadata map[string]string
}

func (p *ListTokensParams) query() *tokens.List {
	return (&TokenFilter{p.IDs, p.Types, p.Metadata}).query()
}

func (f *TokenFilter) query() *tokens.List {
	q := &tokens.List{IDs: f.IDs, Metadata: f.Metadata}
	for _, t := range f.Types {
		q.Types = append(q.Types, string(t))
	}
	return q
}

// ListTokens returns a page of the tokens that the client may read, newest first
// (permission token:read). The total is exact, so [Client.ListTokensAfter] is
// faster far into a list of millions.
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	return c.pageOfTokens(ctx, &core.VerbListTokens, p.query(), p.PageParams, 0)
}

// SearchTokensParams selects tokens by a query. The query may hold data, so it is
// hidden when printed or logged: see the package comment.
type SearchTokensParams struct {
	// Query consists of terms, field:value, with AND, OR, NOT, parentheses and
	// ranges: type:card AND metadata.user:"Jane Doe" AND created_at:[2026-01-01 TO
	// *].
	Query string
	PageParams
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *SearchTokensParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.Query = r.Text("query")
		p.PageParams = readPage(r)
	})
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p SearchTokensParams) MarshalJSON() ([]byte, error) {
	w := &form.Writer{}
	w.Text("query", p.Query)
	w.Int("page", p.Page)
	w.Int("size", p.Size)
	return w.JSON(), nil
}

func (p *SearchTokensParams) query() *tokens.Search { return &tokens.Search{Query: p.Query} }

// SearchTokens returns a page of the tokens that match a query and that the client
// may search, newest first (permission token:search).
//
// The fields are id, type, data, fingerprint, container, metadata.<key>,
// created_by, created_at, modified_by and modified_at. The field data finds tokens
// by the values of their search indexes. It compares keyed hashes, so nothing is
// decrypted.
//
// Searching data reveals data. A query with a data term therefore covers only
// tokens that the client may search with the transform mask or reveal. Without such
// a right it is ErrForbidden. A bad query is an [InvalidError] that reports the
// position of the mistake.
//
// The total is exact up to 10,000. Beyond that it is 10,000, and TotalIsCapped is
// set; later pages can still be read.
func (c *Client) SearchTokens(ctx context.Context, p SearchTokensParams) (*Page[Token], error) {
	return c.pageOfTokens(ctx, &core.VerbSearchTokens, p.query(), p.PageParams, tokens.MaxTotal+1)
}

// pageOfTokens returns a page of a list. The total is counted up to countUpTo;
// zero counts all.
func (c *Client) pageOfTokens(ctx context.Context, verb *core.Verb, asked tokens.Query, p PageParams, countUpTo int) (*Page[Token], error) {
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (*Page[Token], error) {
		data := []Token{}
		total, err := tokens.Page(ctx, op, asked, (*form.Paging)(&p), countUpTo, func(t tokens.Token) { data = append(data, tokenOf(t)) })
		if err != nil {
			return nil, err
		}
		page := newPage[Token](p, total)
		if countUpTo > 0 {
			page = cappedPage[Token](p, total)
		}
		page.Data = data
		return page, nil
	})
}

// CursorPage is a page of a list that is read in order. It has no total, so its
// cost does not depend on its position in the list.
type CursorPage[T any] struct {
	Pagination CursorPagination `json:"pagination"`
	Data       []T              `json:"data"`
}

// CursorPagination locates the next page.
type CursorPagination struct {
	PageSize int `json:"page_size"`
	// After is the cursor for the next page; it is empty on the last page. It is
	// valid for the same list with the same filters, at any time, and for every
	// client of the tenant.
	After string `json:"after,omitempty"`
}

// ListTokensAfter returns the page of tokens after a cursor, newest first
// (permission token:read). It lists the tokens that match the filters and that the
// client may read. The cursor is the After of an earlier page, or "" for the start.
// Page must be zero.
//
// No token is returned twice, and no token that existed throughout is missed,
// whatever is written in between. A cursor from another list, other filters or
// another tenant is an [InvalidError].
func (c *Client) ListTokensAfter(ctx context.Context, p ListTokensParams, after string) (*CursorPage[Token], error) {
	return c.tokensAfter(ctx, &core.VerbListTokensAfter, p.query(), p.PageParams, after)
}

// SearchTokensAfter is [Client.ListTokensAfter] for the tokens that match a query
// and that the client may search (permission token:search). See
// [Client.SearchTokens].
func (c *Client) SearchTokensAfter(ctx context.Context, p SearchTokensParams, after string) (*CursorPage[Token], error) {
	return c.tokensAfter(ctx, &core.VerbSearchTokensAfter, p.query(), p.PageParams, after)
}

// tokensAfter returns the page of tokens after a cursor.
func (c *Client) tokensAfter(ctx context.Context, verb *core.Verb, asked tokens.Query, p PageParams, after string) (*CursorPage[Token], error) {
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (*CursorPage[Token], error) {
		page := &CursorPage[Token]{Data: []Token{}}
		next, err := tokens.After(ctx, op, asked, (*form.Paging)(&p), after, func(t tokens.Token) { page.Data = append(page.Data, tokenOf(t)) })
		if err != nil {
			return nil, err
		}
		page.Pagination = CursorPagination{PageSize: p.Size, After: next}
		return page, nil
	})
}

// AllTokens iterates over all tokens that match the filter and that the client may
// read, newest first (permission token:read).
//
// Like every iterator of [Client], it returns nothing twice and misses nothing that
// existed throughout, whatever is written during the loop. So a loop may delete the
// items it gets. Items created during the loop are not returned. The iterator reads
// in batches, each with the client's current rights, and ends after an error.
func (c *Client) AllTokens(ctx context.Context, f TokenFilter) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &core.VerbAllTokens, f.query())
}

// SearchAllTokens iterates over all tokens that match a query and that the client
// may search, newest first (permission token:search). See [Client.SearchTokens] and
// [Client.AllTokens].
func (c *Client) SearchAllTokens(ctx context.Context, query string) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &core.VerbSearchAllTokens, &tokens.Search{Query: query})
}

func (c *Client) allTokens(ctx context.Context, verb *core.Verb, asked tokens.Query) iter.Seq2[*Token, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *core.Op, w *find.Walk, before *storage.ID) (batch []Token, more bool, err error) {
		more, err = tokens.Piece(ctx, op, asked, w, before, func(t tokens.Token) { batch = append(batch, tokenOf(t)) })
		return batch, more, err
	})
}

// walk iterates over a list in batches, each with the client's current rights. Next
// reads the batch before an id, moves the id to the end of the batch, and reports
// whether there may be more.
func walk[T any](ctx context.Context, c *Client, verb *core.Verb,
	next func(ctx context.Context, op *core.Op, w *find.Walk, before *storage.ID) ([]T, bool, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		w, before := find.NewWalk(form.MaxPageSize), storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))
		for {
			more := false
			batch, err := run(ctx, c, verb, func(ctx context.Context, op *core.Op) (batch []T, err error) {
				batch, more, err = next(ctx, op, &w, &before)
				return batch, err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range batch {
				if !yield(&batch[i], nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// allRecords iterates over the entities of a list.
func allRecords[R, T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[R], show func(*R) *T, l records.List[R]) iter.Seq2[*T, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *core.Op, w *find.Walk, before *storage.ID) ([]T, bool, error) {
		items, more, err := kind.Next(ctx, op, l, w, before)
		return shown(items, show), more, err
	})
}

// listRecords returns a page of the entities of a list.
func listRecords[R, T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[R], show func(*R) *T, l records.List[R], p PageParams) (*Page[T], error) {
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (*Page[T], error) {
		p, err := p.normal()
		if err != nil {
			return nil, err
		}
		items, total, err := kind.List(ctx, op, l, form.Paging(p))
		if err != nil {
			return nil, err
		}
		page := newPage[T](p, total)
		page.Data = shown(items, show)
		return page, nil
	})
}

// shown converts entities of the internal package.
func shown[R, T any](items []R, show func(*R) *T) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = *show(&items[i])
	}
	return out
}
