package vault

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
)

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

// CursorSearch is [Client.SearchTokensAfter] as JSON.
type CursorSearch struct {
	Query string
	Size  int
	Start string // the After of an earlier page, or ""
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *CursorSearch) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.Query, p.Start = r.Text("query"), r.Text("start")
		p.Size = readCount(r, "size")
	})
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p CursorSearch) MarshalJSON() ([]byte, error) {
	w := &form.Writer{}
	w.Text("query", p.Query)
	w.Int("size", p.Size)
	w.Text("start", p.Start)
	return w.JSON(), nil
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
	return run(ctx, c, &verbListTokensAfter, func(ctx context.Context, op *operation) (*CursorPage[Token], error) {
		return op.tokensAfter(ctx, &p, p.PageParams, after)
	})
}

// SearchTokensAfter is [Client.ListTokensAfter] for the tokens that meet a query
// and that the client may search (permission token:search): see
// [Client.SearchTokens].
func (c *Client) SearchTokensAfter(ctx context.Context, p SearchTokensParams, after string) (*CursorPage[Token], error) {
	return run(ctx, c, &verbSearchTokensAfter, func(ctx context.Context, op *operation) (*CursorPage[Token], error) {
		return op.tokensAfter(ctx, &p, p.PageParams, after)
	})
}

// tokensAfter returns a piece of a list of tokens.
func (op *operation) tokensAfter(ctx context.Context, asked tokenQuery, p PageParams, after string) (*CursorPage[Token], error) {
	if p.Page != 0 {
		return nil, fault.Field("page", "is not for lists by cursor; leave it out")
	}
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	before, err := op.readCursor(asked, after)
	if err != nil {
		return nil, err
	}
	where, err := op.find(ctx, asked)
	if err != nil {
		return nil, err
	}
	rows, more, err := op.tokensBefore(ctx, where, before, p.Size)
	if err != nil {
		return nil, op.PageError(err)
	}
	page := &CursorPage[Token]{Pagination: CursorPagination{PageSize: p.Size}}
	if more {
		page.Pagination.After = op.cursor(asked, rows[len(rows)-1].Ord)
	}
	page.Data, err = op.seeAll(ctx, asked.permission(), rows)
	return page, err
}

// tokensBefore reads rows of a list, and reports whether there are more. It asks
// for one more than it returns; where that is too much at once, only for those.
func (op *operation) tokensBefore(ctx context.Context, where storage.Cond, before storage.ID, size int) (rows []storage.Token, more bool, err error) {
	filter := storage.TokenFilter{Tenant: op.TenantID(), Where: where, Now: op.Now, Before: before, Limit: size + 1}
	rows, _, err = op.listTokens(ctx, filter)
	if errors.Is(err, storage.ErrTooLarge) {
		filter.Limit = size
		rows, _, err = op.listTokens(ctx, filter)
		return rows, len(rows) == size, err
	}
	more = len(rows) > size
	return rows[:min(len(rows), size)], more, err
}

const labelCursor = "cursor"

// cursor names a place in a list of tokens. Its hash binds it to the tenant,
// whose key it is made with, and to the list.
func (op *operation) cursor(asked tokenQuery, at storage.ID) string {
	hash := op.State.Ring.Hash(labelCursor, append([]string{string(at[:])}, asked.binding()...)...)
	return base64.RawURLEncoding.EncodeToString(append(at[:], hash[:]...))
}

// readCursor returns the place that a cursor names; zero for the start.
func (op *operation) readCursor(asked tokenQuery, text string) (at storage.ID, err error) {
	if text == "" {
		return at, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(raw) > len(at) {
		at = storage.ID(raw[:len(at)])
	}
	if subtle.ConstantTimeCompare([]byte(text), []byte(op.cursor(asked, at))) != 1 {
		return at, fault.Field("start", "must be the after of an earlier page of this list, with the same filters")
	}
	return at, nil
}

// tokenQuery is a list of tokens that somebody asks for.
type tokenQuery interface {
	permission() string // on the tokens
	// condition returns what tokens must meet, and the least transform that the
	// client must have on them.
	condition(ctx context.Context, op *operation) (where storage.And, least access.Transform, err error)
	// binding tells the list from every other.
	binding() []string
}

func (p *ListTokensParams) permission() string { return access.TokenRead }

func (p *ListTokensParams) binding() []string {
	parts := append([]string{"list", strconv.Itoa(len(p.IDs)), strconv.Itoa(len(p.Types))}, slices.Sorted(slices.Values(p.IDs))...)
	for _, t := range slices.Sorted(slices.Values(p.Types)) {
		parts = append(parts, string(t))
	}
	for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
		parts = append(parts, key, query.Fold(p.Metadata[key]))
	}
	return parts
}

func (p *SearchTokensParams) permission() string { return access.TokenSearch }

func (p *SearchTokensParams) binding() []string { return []string{"search", p.Query} }

// AllTokens iterates over all tokens that meet the filters and that the client
// may read, newest first (permission token:read). The page parameters do not
// count.
//
// Like every iterator of [Client], it gives nothing twice and misses nothing that
// existed throughout, whatever is written meanwhile, so a loop may delete what it
// is given; what is created meanwhile is not seen. It reads piece by piece, with
// the rights that the client has at that moment, and ends after an error.
func (c *Client) AllTokens(ctx context.Context, p ListTokensParams) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &verbAllTokens, &p)
}

// SearchAllTokens iterates over all tokens that meet a query and that the client
// may search, newest first (permission token:search): see [Client.SearchTokens]
// and [Client.AllTokens].
func (c *Client) SearchAllTokens(ctx context.Context, p SearchTokensParams) iter.Seq2[*Token, error] {
	return c.allTokens(ctx, &verbSearchAllTokens, &p)
}

func (c *Client) allTokens(ctx context.Context, verb *core.Verb, asked tokenQuery) iter.Seq2[*Token, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *operation, w *find.Walk, before *storage.ID) ([]Token, bool, error) {
		where, err := op.find(ctx, asked)
		if err != nil {
			return nil, false, err
		}
		rows, more, err := find.Next(w, func(limit int) ([]storage.Token, error) {
			rows, _, err := op.listTokens(ctx, storage.TokenFilter{
				Tenant: op.TenantID(), Where: where, Now: op.Now, Before: *before, Limit: limit,
			})
			return rows, err
		})
		if err != nil || len(rows) == 0 {
			return nil, false, err
		}
		*before = rows[len(rows)-1].Ord
		batch, err := op.seeAll(ctx, asked.permission(), rows)
		return batch, more, err
	})
}

// walk iterates over a list piece by piece, each with the rights of its moment.
// Next reads the piece that comes before an id, moves the id to its end, and
// reports whether there may be another.
func walk[T any](ctx context.Context, c *Client, verb *core.Verb,
	next func(ctx context.Context, op *operation, w *find.Walk, before *storage.ID) ([]T, bool, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		w, before := find.NewWalk(maxPageSize), storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))
		for {
			more := false
			batch, err := run(ctx, c, verb, func(ctx context.Context, op *operation) (batch []T, err error) {
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
func allRecords[T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[T], l records.List[T]) iter.Seq2[*T, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *operation, w *find.Walk, before *storage.ID) ([]T, bool, error) {
		return kind.Next(ctx, op.Op, l, w, before)
	})
}

// listRecords returns a page of the entities of a list.
func listRecords[T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[T], l records.List[T], p PageParams) (*Page[T], error) {
	return run(ctx, c, verb, func(ctx context.Context, op *operation) (*Page[T], error) {
		p, err := p.normal()
		if err != nil {
			return nil, err
		}
		items, total, err := kind.List(ctx, op.Op, l, form.Paging(p))
		if err != nil {
			return nil, err
		}
		page := newPage[T](p, total)
		page.Data = items
		return page, nil
	})
}
