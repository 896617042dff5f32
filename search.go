package vault

import (
	"context"
	"errors"
	"iter"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/internal/seal"
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
// first (permission token:read).
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	op, err := c.begin(ctx, access.TokenRead)
	if err != nil {
		return nil, err
	}
	where, err := p.condition(op.state.Ring)
	if err != nil {
		return nil, err
	}
	return op.pageOfTokens(ctx, access.TokenRead, access.Redact, where, p.PageParams)
}

// condition checks the filters and turns them into a condition.
func (p *ListTokensParams) condition(ring *seal.Ring) (storage.And, error) {
	if len(p.IDs) > maxListValues || len(p.Types) > maxListValues || len(p.Metadata) > token.MaxMetadata {
		return nil, invalid("", "may have at most %d ids, %d types and %d metadata filters", maxListValues, maxListValues, token.MaxMetadata)
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
	return find.List(ring, p.IDs, types, p.Metadata), asInvalid(bad)
}

// maxListValues bounds each repeated filter of a list.
const maxListValues = 1000

// pageOfTokens lists the tokens that meet a condition and on which the client
// has a permission, with at least a transform.
func (op *operation) pageOfTokens(ctx context.Context, permission string, least access.Transform, where storage.And, p PageParams) (*Page[Token], error) {
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	if where, err = op.restrict(ctx, permission, least, where); err != nil {
		return nil, err
	}
	rows, total, err := op.db().ListTokens(ctx, storage.TokenFilter{
		Tenant: op.tenantID(), Where: condOf(where), Now: op.now,
		Offset: p.offset(), Limit: p.Size, MaxBytes: op.maxPageBytes(), Count: true,
	})
	if err != nil {
		return nil, op.pageError(err)
	}
	page := newPage[Token](p, total)
	page.Data, err = op.seeAll(ctx, permission, rows)
	return page, err
}

// AllTokens iterates over all tokens that meet the filters and that the client
// may read, newest first (permission token:read). Tokens created meanwhile are
// not seen. The page parameters do not count.
func (c *Client) AllTokens(ctx context.Context, p ListTokensParams) iter.Seq2[*Token, error] {
	return func(yield func(*Token, error) bool) {
		walk := tokenWalk{Walk: find.NewWalk(maxPageSize)}
		for {
			batch, more, err := c.nextTokens(ctx, p, &walk)
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

// tokenWalk is how far an iteration has come.
type tokenWalk struct {
	before storage.ID
	find.Walk
}

// nextTokens returns the next batch of an iteration. It reports whether there
// may be another.
func (c *Client) nextTokens(ctx context.Context, p ListTokensParams, walk *tokenWalk) ([]Token, bool, error) {
	op, err := c.begin(ctx, access.TokenRead)
	if err != nil {
		return nil, false, err
	}
	where, err := p.condition(op.state.Ring)
	if err != nil {
		return nil, false, err
	}
	if where, err = op.restrict(ctx, access.TokenRead, access.Redact, where); err != nil {
		return nil, false, err
	}
	rows, more, err := find.Next(&walk.Walk, func(limit int) ([]storage.Token, error) {
		rows, _, err := op.db().ListTokens(ctx, storage.TokenFilter{
			Tenant: op.tenantID(), Where: condOf(where), Now: op.now,
			Before: walk.before, Limit: limit, MaxBytes: op.maxPageBytes(),
		})
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	walk.before = rows[len(rows)-1].Ord
	batch, err := op.seeAll(ctx, access.TokenRead, rows)
	return batch, more, err
}

// seeAll opens rows of a list as the client may see them, and logs the reads.
func (op *operation) seeAll(ctx context.Context, permission string, rows []storage.Token) ([]Token, error) {
	out := make([]Token, 0, len(rows))
	seen := make([]entity, 0, len(rows))
	for i := range rows {
		transform, ok := op.grant.Decide(permission, rows[i].ID, rows[i].Containers)
		if !ok {
			continue // the condition and the rules disagree: show nothing
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, Token{})
		t.show(ctx, &out[len(out)-1], transform)
		op.noteUse(ctx, permission, &t, transform)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		seen = append(seen, t.entity())
	}
	if err := op.logReads(ctx, audit.Read, seen...); err != nil {
		return nil, err
	}
	return out, nil
}

// condOf returns nil for a condition that always holds.
func condOf(where storage.And) storage.Cond {
	if len(where) == 0 {
		return nil
	}
	return where
}

// restrict adds to a condition that the client has a permission on the token,
// with at least a transform.
func (op *operation) restrict(ctx context.Context, permission string, least access.Transform, where storage.And) (storage.And, error) {
	if op.grant.OnAll(permission) && least <= access.Redact {
		return where, nil
	}
	sets, err := op.db().ContainerSets(ctx, op.tenantID())
	if err != nil {
		return nil, err
	}
	granted := find.Granted(op.grant, permission, least, sets)
	if granted == nil {
		return where, nil
	}
	return append(storage.And{granted}, where...), nil
}

// SearchTokensParams asks for tokens by a query.
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
func (c *Client) SearchTokens(ctx context.Context, p SearchTokensParams) (*Page[Token], error) {
	op, err := c.begin(ctx, access.TokenSearch)
	if err != nil {
		return nil, err
	}
	bad := &form.Problems{}
	if !form.CheckText(bad, "query", p.Query) {
		return nil, asInvalid(bad)
	}
	node, err := query.Parse(p.Query)
	if err != nil {
		var syntax *query.Error
		if errors.As(err, &syntax) {
			return nil, invalid("query", "at character %d: %s", syntax.Offset+1, syntax.Msg)
		}
		return nil, err
	}
	search := find.Search{Ring: op.state.Ring}
	if find.AsksContainer(node) {
		if search.Sets, err = op.db().ContainerSets(ctx, op.tenantID()); err != nil {
			return nil, err
		}
	}
	least := access.Redact
	if find.AsksData(node) {
		if least = access.Mask; !op.grant.Shows(access.TokenSearch, least) {
			return nil, errorf(ErrForbidden, "Searching by data needs token:search with the transform mask or reveal.")
		}
	}
	return op.pageOfTokens(ctx, access.TokenSearch, least, storage.And{search.Cond(node)}, p.PageParams)
}
