package vaultclient

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// collection sends the calls of one kind of entity: applications, reactors or
// proxies. T is the entity, and P its parameters.
type collection[T, P any] struct {
	verbs *core.EntityVerbs
	path  string
	id    func(*T) uuid.UUID
	name  func(*T) string
	same  func(*T, P) bool // whether an entity has the parameters
	again func(*P)         // removes what is only for a new entity; may be nil
}

func (k *collection[T, P]) create(ctx context.Context, c *Client, p P) (*T, error) {
	return write[T](ctx, c, &k.verbs.Create, http.MethodPost, k.path, p)
}

func (k *collection[T, P]) get(ctx context.Context, c *Client, id uuid.UUID) (*T, error) {
	return get[T](ctx, c, &k.verbs.Get, below(k.path, id), "")
}

func (k *collection[T, P]) list(ctx context.Context, c *Client, query url.Values) (*vault.Page[T], error) {
	return get[vault.Page[T]](ctx, c, &k.verbs.List, k.path, query.Encode())
}

// all iterates over a list. The query returns the parameters of a page.
func (k *collection[T, P]) all(ctx context.Context, c *Client, query func(vault.PageParams) url.Values) iter.Seq2[*T, error] {
	return pageWalk(k.id, func(p vault.PageParams) (*vault.Page[T], error) {
		return get[vault.Page[T]](ctx, c, &k.verbs.All, k.path, query(p).Encode())
	}, nil)
}

func (k *collection[T, P]) replace(ctx context.Context, c *Client, id uuid.UUID, p P) (*T, error) {
	return write[T](ctx, c, &k.verbs.Replace, http.MethodPut, below(k.path, id), p)
}

func (k *collection[T, P]) patch(ctx context.Context, c *Client, id uuid.UUID, patch any) (*T, error) {
	return patchEntity[T](ctx, c, &k.verbs.Patch, below(k.path, id), patch)
}

func (k *collection[T, P]) delete(ctx context.Context, c *Client, id uuid.UUID) error {
	return c.remove(ctx, &k.verbs.Delete, below(k.path, id))
}

func (k *collection[T, P]) apply(ctx context.Context, c *Client, name string, p P) (out *vault.Applied[T], err error) {
	ctx, end := c.tell(ctx, &k.verbs.Apply)
	defer func() { end(err) }()
	out = &vault.Applied[T]{}
	for item, err := range k.all(ctx, c, func(page vault.PageParams) url.Values { return entityQuery(nil, name, page) }) {
		if err != nil {
			return nil, err
		}
		if k.name(item) == name { // the filter ignores case and treats * as a wildcard
			out.Item = item
		}
	}
	switch {
	case out.Item == nil:
		out.Created = true
		out.Item, err = k.create(ctx, c, p)
	case !k.same(out.Item, p):
		out.Changed = true
		if k.again != nil {
			k.again(&p)
		}
		out.Item, err = k.replace(ctx, c, k.id(out.Item), p)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// below returns the path of an entity in a collection.
func below(collection string, id uuid.UUID) string { return collection + "/" + id.String() }

// entityQuery returns the query parameters for entities by ids and name.
func entityQuery(ids []uuid.UUID, name string, p vault.PageParams) url.Values {
	query := pageQuery(p)
	for _, id := range ids {
		query.Add("id", id.String())
	}
	if name != "" {
		query.Set("name", name)
	}
	return query
}
