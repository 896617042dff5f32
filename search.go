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
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/storage"
)

// ListTokensParams filters tokens. Zero fields filter nothing; all given ones
// must hold.
type ListTokensParams struct {
	IDs   []string
	Types []TokenType
	// Metadata matches values without regard to case, keys exactly.
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

// ListTokens returns a page of the tokens that the client may read, newest
// first (permission token:read). The total is exact, so far into a list of
// millions [Client.ListTokensAfter] is faster.
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	return c.pageOfTokens(ctx, &verbs.ListTokens, p.query(), p.PageParams, 0)
}

// SearchTokensParams asks for tokens by a query. The query may hold data, so it is
// not shown when it is printed or logged, except as JSON and in unexported
// fields: see the package comment.
type SearchTokensParams struct {
	// Query is made of terms, field:value, with AND, OR, NOT, parentheses and
	// ranges: type:card AND metadata.user:"Jane Doe" AND created_at:[2026-01-01 TO *].
	Query string
	PageParams
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
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

// SearchTokens returns a page of the tokens that meet a query and that the
// client may search, newest first (permission token:search).
//
// The fields are id, type, data, fingerprint, container, metadata.<key>,
// created_by, created_at, modified_by and modified_at. data finds tokens by the
// values of their search indexes, through keyed hashes: nothing is decrypted to
// find them. A search over data is a way to see it, so a query with a data term
// covers only tokens that the client may search with the transform mask or
// reveal, and without such a right it is ErrForbidden. A bad query is an
// [InvalidError] that says where.
//
// The total is exact up to 10,000; beyond that it is 10,000, and TotalIsCapped is
// set. Pages beyond are served.
func (c *Client) SearchTokens(ctx context.Context, p SearchTokensParams) (*Page[Token], error) {
	return c.pageOfTokens(ctx, &verbs.SearchTokens, p.query(), p.PageParams, tokens.MaxTotal+1)
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

// CursorPage is a piece of a list that is read from one end to the other. It has
// no total, so it costs the same wherever in the list it is.
type CursorPage[T any] struct {
	Pagination CursorPagination `json:"pagination"`
	Data       []T              `json:"data"`
}

// CursorPagination says how a list goes on.
type CursorPagination struct {
	PageSize int `json:"page_size"`
	// After asks for the items that follow; it is empty on the last page. It is
	// good for the same list with the same filters, at any time, and for every
	// client of the tenant.
	After string `json:"after,omitempty"`
}

// ListTokensAfter returns the tokens that follow a place in the list of those
// that meet the filters and that the client may read, newest first (permission
// token:read). The place is the After of an earlier page, or "" for the start.
// Page must be zero.
//
// No token comes twice, and none that existed throughout is missed, whatever is
// written meanwhile. A place that is from another list, other filters or another
// tenant is an [InvalidError].
func (c *Client) ListTokensAfter(ctx context.Context, p ListTokensParams, after string) (*CursorPage[Token], error) {
	return c.tokensAfter(ctx, &verbs.ListTokensAfter, p.query(), p.PageParams, after)
}

// SearchTokensAfter is [Client.ListTokensAfter] for the tokens that meet a query
// and that the client may search (permission token:search): see
// [Client.SearchTokens].
func (c *Client) SearchTokensAfter(ctx context.Context, p SearchTokensParams, after string) (*CursorPage[Token], error) {
	return c.tokensAfter(ctx, &verbs.SearchTokensAfter, p.query(), p.PageParams, after)
}

// tokensAfter returns a piece of a list of tokens.
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

// AllTokens iterates over all tokens that meet the filter and that the client
// may read, newest first (permission token:read).
//
// Like every iterator of [Client], it gives nothing twice and misses nothing that
// existed throughout, whatever is written meanwhile, so a loop may delete what it
// is given; what is created meanwhile is not seen. It reads piece by piece, with
// the rights that the client has at that moment, and ends after an error.
func (c *Client) AllTokens(ctx context.Context, f TokenFilter) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &verbs.AllTokens, f.query())
}

// SearchAllTokens iterates over all tokens that meet a query and that the client
// may search, newest first (permission token:search): see [Client.SearchTokens]
// and [Client.AllTokens].
func (c *Client) SearchAllTokens(ctx context.Context, query string) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &verbs.SearchAllTokens, &tokens.Search{Query: query})
}

func (c *Client) allTokens(ctx context.Context, verb *core.Verb, asked tokens.Query) iter.Seq2[*Token, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *core.Op, w *find.Walk, before *storage.ID) (batch []Token, more bool, err error) {
		more, err = tokens.Piece(ctx, op, asked, w, before, func(t tokens.Token) { batch = append(batch, tokenOf(t)) })
		return batch, more, err
	})
}

// walk iterates over a list piece by piece, each with the rights of its moment.
// Next reads the piece that comes before an id, moves the id to its end, and
// reports whether there may be another.
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

// shown returns the entities of a room as callers see them.
func shown[R, T any](items []R, show func(*R) *T) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = *show(&items[i])
	}
	return out
}
