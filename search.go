package vault

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
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

// TokenSelection selects tokens. It is a [ListTokensParams], which needs the
// permission token:read, or a [SearchTokensParams], which needs token:search. Nil is
// an empty ListTokensParams, which selects all tokens.
type TokenSelection interface {
	// selection returns the query, the page, and whether it is a search.
	selection() (q tokens.Query, page PageParams, searches bool)
}

func (p ListTokensParams) selection() (q tokens.Query, page PageParams, searches bool) {
	return &tokens.List{IDs: p.IDs, Types: as[string](p.Types), Metadata: p.Metadata}, p.PageParams, false
}

func (p SearchTokensParams) selection() (q tokens.Query, page PageParams, searches bool) {
	return &tokens.Search{Query: p.Query}, p.PageParams, true
}

// selected returns the query and the page of a selection, and the verb that reads or
// searches.
func selected(sel TokenSelection, reads, searches *core.Verb) (tokens.Query, PageParams, *core.Verb) {
	if sel == nil {
		sel = ListTokensParams{}
	}
	q, page, searched := sel.selection()
	if searched {
		return q, page, searches
	}
	return q, page, reads
}

// ListTokens returns a page of the tokens that the client may read, newest first
// (permission token:read). [Client.ListTokensAfter] is faster far into a list of
// millions.
//
// The total is exact, except under a metadata filter, where it is exact up to
// 10,000. Beyond that it is 10,000 and TotalIsCapped is set, and TotalPages is at
// least the number of the next page as long as there is one.
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	return c.pageOfTokens(ctx, &core.VerbListTokens, p)
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
	return c.pageOfTokens(ctx, &core.VerbSearchTokens, p)
}

// pageOfTokens returns a page of a list.
func (c *Client) pageOfTokens(ctx context.Context, verb *core.Verb, sel TokenSelection) (*Page[Token], error) {
	asked, p, _ := sel.selection()
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (*Page[Token], error) {
		data := []Token{}
		total, err := tokens.Page(ctx, op, asked, (*form.Paging)(&p), func(t tokens.Token) { data = append(data, tokenOf(t)) })
		if err != nil {
			return nil, err
		}
		page := newPage[Token](p, total)
		if most := tokens.CountUpTo(asked, (*form.Paging)(&p)); most > 0 {
			pages := page.Pagination.TotalPages
			page = cappedPage[Token](p, total)
			if _, list := asked.(*tokens.List); list {
				page.Pagination.TotalPages = max(page.Pagination.TotalPages, min(pages, p.Page+1))
			}
		}
		page.Data = data
		return page, nil
	})
}

// CursorPage is a page of a list that is read in order. It has no total, so its
// cost does not depend on its position in the list.
type CursorPage[T any] struct {
	Pagination struct {
		PageSize int `json:"page_size"`
		// After is the cursor for the next page; it is empty on the last page. It is
		// valid for the same list with the same filters, at any time, and for every
		// client of the tenant.
		After string `json:"after,omitempty"`
	} `json:"pagination"`
	Data []T `json:"data"`
}

// ListTokensAfter returns the page of selected tokens after a cursor, newest first.
// It lists the tokens that the client may read, or search: see [TokenSelection]. The
// cursor is the After of an earlier page, or "" for the start. Page must be zero.
//
// No token is returned twice, and no token that existed throughout is missed,
// whatever is written in between. A cursor from another list, other filters or
// another tenant is an [InvalidError].
func (c *Client) ListTokensAfter(ctx context.Context, sel TokenSelection, after string) (*CursorPage[Token], error) {
	asked, p, verb := selected(sel, &core.VerbListTokensAfter, &core.VerbSearchTokensAfter)
	return run(ctx, c, verb, func(ctx context.Context, op *core.Op) (*CursorPage[Token], error) {
		page := &CursorPage[Token]{Data: []Token{}}
		next, err := tokens.After(ctx, op, asked, (*form.Paging)(&p), after, func(t tokens.Token) { page.Data = append(page.Data, tokenOf(t)) })
		if err != nil {
			return nil, err
		}
		page.Pagination.PageSize, page.Pagination.After = p.Size, next
		return page, nil
	})
}

// AllTokens iterates over all selected tokens that the client may read, or search,
// newest first: see [TokenSelection].
//
// Like every iterator of [Client], it returns nothing twice and misses nothing that
// existed throughout, whatever is written during the loop. So a loop may delete the
// items it gets. Items created during the loop are not returned. The iterator reads
// in batches, each with the client's current rights, and ends after an error. Page
// and Size of the parameters have no effect.
func (c *Client) AllTokens(ctx context.Context, sel TokenSelection) iter.Seq2[*Token, error] {
	asked, _, verb := selected(sel, &core.VerbAllTokens, &core.VerbSearchAllTokens)
	return walk(ctx, c, verb, func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) (batch []Token, more bool, err error) {
		more, err = tokens.Piece(ctx, op, asked, w, before, func(t tokens.Token) { batch = append(batch, tokenOf(t)) })
		return batch, more, err
	})
}

// walk iterates over a list in batches, each with the client's current rights. Next
// reads the batch before an id, moves the id to the end of the batch, and reports
// whether there may be more.
func walk[T any](ctx context.Context, c *Client, verb *core.Verb,
	next func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) ([]T, bool, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		w, before := core.NewWalk(form.MaxPageSize), storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))
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
