package vault

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/internal/token"
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

// ListTokens returns a page of the tokens that the client may read, newest
// first (permission token:read). The total is exact, so far into a list of
// millions [Client.ListTokensAfter] is faster.
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	return run(ctx, c, &verbListTokens, func(ctx context.Context, op *operation) (*Page[Token], error) {
		return op.pageOfTokens(ctx, &p, storage.TokenFilter{Count: true}, p.PageParams)
	})
}

// condition checks the filters and turns them into a condition.
func (p *ListTokensParams) condition(_ context.Context, op *operation) (storage.And, access.Transform, error) {
	if len(p.IDs) > maxListValues || len(p.Types) > maxListValues || len(p.Metadata) > token.MaxMetadata {
		return nil, access.Redact, fault.Field("", "may have at most %d ids, %d types and %d metadata filters", maxListValues, maxListValues, token.MaxMetadata)
	}
	bad := &form.Problems{}
	types := make([]string, len(p.Types))
	for i, t := range p.Types {
		types[i] = string(t)
		form.CheckText(bad, "type", types[i])
	}
	for _, id := range p.IDs {
		form.CheckText(bad, "id", id)
	}
	return find.List(op.State.Ring, p.IDs, types, p.Metadata), access.Redact, fault.Of(bad)
}

// maxListValues bounds each repeated filter of a list.
const maxListValues = 1000

// maxTotal is up to where the totals of searches are exact.
const maxTotal = 10_000

// find returns the condition of a list: what was asked for, and that the client
// has the permission on the token.
func (op *operation) find(ctx context.Context, asked tokenQuery) (storage.Cond, error) {
	where, least, err := asked.condition(ctx, op)
	if err != nil {
		return nil, err
	}
	if where, err = op.restrict(ctx, asked.permission(), least, where); err != nil || len(where) == 0 {
		return nil, err
	}
	return where, nil
}

// pageOfTokens returns a page of a list, with its total. How that is counted is
// said by the filter, whose other fields are filled in.
func (op *operation) pageOfTokens(ctx context.Context, asked tokenQuery, filter storage.TokenFilter, p PageParams) (page *Page[Token], err error) {
	if filter.Where, err = op.find(ctx, asked); err != nil {
		return nil, err
	}
	if p, err = p.normal(); err != nil {
		return nil, err
	}
	filter.Tenant, filter.Now = op.TenantID(), op.Now
	filter.Offset, filter.Limit = p.offset(), p.Size
	rows, total, err := op.listTokens(ctx, filter)
	if err != nil {
		return nil, op.PageError(err)
	}
	page = newPage[Token](p, total)
	if filter.CountUpTo > 0 {
		page = cappedPage[Token](p, total)
	}
	page.Data, err = op.seeAll(ctx, asked.permission(), rows)
	return page, err
}

// seeAll opens rows of a list as the client may see them, and logs the reads.
func (op *operation) seeAll(ctx context.Context, permission string, rows []storage.Token) ([]Token, error) {
	out := make([]Token, 0, len(rows))
	seen := make([]core.Entity, 0, len(rows))
	for i := range rows {
		if i%manyRows == manyRows-1 {
			if err := core.Turn(ctx); err != nil {
				return nil, err
			}
		}
		transform, ok := op.Grant().Decide(permission, rows[i].ID, rows[i].Containers)
		if !ok {
			continue // the condition and the rules disagree: show nothing
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, Token{})
		t.show(ctx, &out[len(out)-1], transform)
		admission.Of(ctx).Free(treeOf(&rows[i]))
		op.noteUse(ctx, permission, &t, transform)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seen = append(seen, t.entity())
	}
	if err := op.LogReads(ctx, audit.Read, seen...); err != nil {
		return nil, err
	}
	return out, nil
}

// restrict adds to a condition that the client has a permission on the token,
// with at least a transform.
func (op *operation) restrict(ctx context.Context, permission string, least access.Transform, where storage.And) (storage.And, error) {
	if op.Grant().OnAll(permission) && least <= access.Redact {
		return where, nil
	}
	sets, err := op.DB().ContainerSets(ctx, op.TenantID())
	if err != nil {
		return nil, err
	}
	granted := find.Granted(op.Grant(), permission, least, sets)
	if granted == nil {
		return where, nil
	}
	return append(storage.And{granted}, where...), nil
}

// SearchTokensParams asks for tokens by a query. The query may hold data, so it is
// not shown when it is printed or logged, except as JSON and in unexported
// fields: see [Token].
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
	return run(ctx, c, &verbSearchTokens, func(ctx context.Context, op *operation) (*Page[Token], error) {
		return op.pageOfTokens(ctx, &p, storage.TokenFilter{Count: true, CountUpTo: maxTotal + 1}, p.PageParams)
	})
}

// condition reads the query and turns it into a condition.
func (p *SearchTokensParams) condition(ctx context.Context, op *operation) (where storage.And, least access.Transform, err error) {
	where, asksData, err := op.readQuery(ctx, p.Query)
	if err != nil {
		return nil, least, err
	}
	least = access.Redact
	if asksData {
		if !op.MaySearchData() {
			return nil, least, fault.New(ErrForbidden, "A masked client may not search by data.")
		}
		if least = access.Mask; !op.Grant().Shows(access.TokenSearch, least) {
			return nil, least, fault.New(ErrForbidden, "Searching by data needs token:search with the transform mask or reveal.")
		}
	}
	return where, least, nil
}

// readQuery turns a query into a condition, and reports whether it is about data.
func (op *operation) readQuery(ctx context.Context, text string) (where storage.And, asksData bool, err error) {
	bad := &form.Problems{}
	if !form.CheckText(bad, "query", text) {
		return nil, false, fault.Of(bad)
	}
	node, err := query.Parse(text)
	if err != nil {
		var syntax *query.Error
		if errors.As(err, &syntax) {
			err = fault.Field("query", "at character %d: %s", syntax.Offset+1, syntax.Msg)
		}
		return nil, false, err
	}
	search := find.Search{Ring: op.State.Ring}
	if find.AsksContainer(node) {
		if search.Sets, err = op.DB().ContainerSets(ctx, op.TenantID()); err != nil {
			return nil, false, err
		}
	}
	return storage.And{search.Cond(node)}, find.AsksData(node), nil
}
