package vault

import (
	"context"
	"errors"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/query"
	"github.com/seed-72ea4aab/vault/storage"
)

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

// SearchTokens returns a page of the tokens that meet a query and that the
// client may search, newest first (permission token:search).
//
// The fields are id, type, data, fingerprint, container, metadata.<key>,
// created_by, created_at, modified_by and modified_at. data finds tokens by the
// values of their search indexes, through keyed hashes: nothing is decrypted to
// find them. A bad query is an [InvalidError] that says where.
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
	s := searcher{op: op}
	if err := s.readSets(ctx, node); err != nil {
		return nil, err
	}
	return op.pageOfTokens(ctx, access.TokenSearch, storage.And{s.cond(node)}, p.PageParams)
}

// searcher turns a query into a condition.
type searcher struct {
	op   *call
	sets []storage.ContainerSet // read when the query asks for containers
}

// readSets reads the sets of containers, if the query asks for any.
func (s *searcher) readSets(ctx context.Context, n query.Node) error {
	if s.sets != nil || !asksContainer(n) {
		return nil
	}
	var err error
	s.sets, err = s.op.v.store.ContainerSets(ctx, s.op.tenantID())
	return err
}

func asksContainer(n query.Node) bool {
	switch n := n.(type) {
	case query.And:
		return anyNode(n, asksContainer)
	case query.Or:
		return anyNode(n, asksContainer)
	case query.Not:
		return asksContainer(n.Node)
	case query.InContainer:
		return true
	}
	return false
}

func anyNode(nodes []query.Node, is func(query.Node) bool) bool {
	for _, n := range nodes {
		if is(n) {
			return true
		}
	}
	return false
}

func (s *searcher) cond(n query.Node) storage.Cond {
	switch n := n.(type) {
	case query.And:
		return storage.And(s.conds(n))
	case query.Or:
		return storage.Or(s.conds(n))
	case query.Not:
		return storage.Not{Cond: s.cond(n.Node)}
	case query.IDIs:
		return storage.IDIn{string(n)}
	case query.TypeIs:
		return storage.TypeIn{string(n)}
	case query.DataIs:
		return storage.HashIs(s.op.indexHash(string(n)))
	case query.MetadataIs:
		return storage.HashIs(s.op.metadataHash(n.Key, n.Value))
	case query.FingerprintIs:
		return fingerprintCond(string(n))
	case query.InContainer:
		return s.containerCond(n)
	case query.ByIs:
		return storage.ByIs{Field: searchFields[n.Field], ID: n.ID}
	case query.TimeIn:
		return storage.TimeIn{Field: searchFields[n.Field], From: n.From, To: n.To, ExcludeTo: true}
	default:
		return storage.Or{} // unknown to this version: finds nothing
	}
}

func (s *searcher) conds(nodes []query.Node) []storage.Cond {
	out := make([]storage.Cond, len(nodes))
	for i, n := range nodes {
		out[i] = s.cond(n)
	}
	return out
}

var searchFields = map[query.Field]storage.Field{
	query.CreatedBy: storage.CreatedBy, query.CreatedAt: storage.CreatedAt,
	query.ModifiedBy: storage.ModifiedBy, query.ModifiedAt: storage.ModifiedAt,
}

// fingerprintCond finds nothing for a text that is no fingerprint.
func fingerprintCond(text string) storage.Cond {
	raw, err := base58.Decode(text)
	if err != nil || len(raw) != len(storage.Key{}) {
		return storage.Or{}
	}
	return storage.FingerprintIs(raw)
}

func (s *searcher) containerCond(n query.InContainer) storage.Cond {
	in := storage.SetIn{}
	for _, set := range s.sets {
		for _, c := range set.Containers {
			if c == n.Path || n.Prefix && strings.HasPrefix(c, n.Path) {
				in = append(in, set.Set)
				break
			}
		}
	}
	return in
}
