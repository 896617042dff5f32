package vault

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
)

// collection has the verbs of one kind of entity: applications, reactors or
// proxies. T and P are the entity and its parameters in this package, and R and I
// in its internal package.
type collection[T, P, R, I any] struct {
	verbs  *core.EntityVerbs
	kind   *records.Kind[R]
	store  func(*Vault) entityStore[R, I]
	inside func(*P) I
	show   func(*R) *T
	id     func(*T) uuid.UUID
	same   func(*T, P) bool // whether an entity has the parameters
	again  func(*P)         // removes what is only for a new entity; may be nil
}

// entityStore creates and changes entities of one kind.
type entityStore[R, I any] interface {
	Create(ctx context.Context, op *core.Op, p I) (*R, error)
	Ensure(ctx context.Context, op *core.Op, p I) (item *R, created bool, err error)
	Replace(ctx context.Context, op *core.Op, id uuid.UUID, p I) (*R, error)
	Patch(ctx context.Context, op *core.Op, id uuid.UUID, patch any) (*R, error)
	Delete(ctx context.Context, op *core.Op, id uuid.UUID) error
}

// ListParams filters reactors or proxies. Zero fields filter nothing.
type ListParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// listOf returns the list of the internal package.
func listOf[R any](p *ListParams) records.List[R] { return records.List[R]{IDs: p.IDs, Name: p.Name} }

func (k *collection[T, P, R, I]) create(ctx context.Context, c *Client, p P) (*T, error) {
	return runTo(ctx, c, &k.verbs.Create, k.show, func(ctx context.Context, op *core.Op) (*R, error) {
		return k.store(c.v).Create(ctx, op, k.inside(&p))
	})
}

func (k *collection[T, P, R, I]) ensure(ctx context.Context, c *Client, p P) (*T, error) {
	item, _, err := k.ensureBy(ctx, c, &k.verbs.Ensure, p)
	return item, err
}

func (k *collection[T, P, R, I]) ensureBy(ctx context.Context, c *Client, verb *core.Verb, p P) (item *T, created bool, err error) {
	item, err = runTo(ctx, c, verb, k.show, func(ctx context.Context, op *core.Op) (item *R, err error) {
		item, created, err = k.store(c.v).Ensure(ctx, op, k.inside(&p))
		return item, err
	})
	return item, created, err
}

// apply finds or creates an entity, and replaces an existing entity that differs.
func (k *collection[T, P, R, I]) apply(ctx context.Context, c *Client, p P) (*Applied[T], error) {
	item, created, err := k.ensureBy(ctx, c, &k.verbs.Apply, p)
	out := &Applied[T]{Item: item, Created: created}
	if err == nil && !created && !k.same(item, p) {
		out.Changed = true
		if k.again != nil {
			k.again(&p)
		}
		out.Item, err = k.replace(ctx, c, k.id(item), p)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (k *collection[T, P, R, I]) get(ctx context.Context, c *Client, id uuid.UUID) (*T, error) {
	return runTo(ctx, c, &k.verbs.Get, k.show, func(ctx context.Context, op *core.Op) (*R, error) { return k.kind.Get(ctx, op, id) })
}

func (k *collection[T, P, R, I]) list(ctx context.Context, c *Client, l records.List[R], p PageParams) (*Page[T], error) {
	return run(ctx, c, &k.verbs.List, func(ctx context.Context, op *core.Op) (*Page[T], error) {
		p, err := p.normal()
		if err != nil {
			return nil, err
		}
		items, total, err := k.kind.List(ctx, op, l, form.Paging(p))
		if err != nil {
			return nil, err
		}
		page := newPage[T](p, total)
		page.Data = k.shown(items)
		return page, nil
	})
}

func (k *collection[T, P, R, I]) all(ctx context.Context, c *Client, l records.List[R]) iter.Seq2[*T, error] {
	return walk(ctx, c, &k.verbs.All, func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) ([]T, bool, error) {
		items, more, err := k.kind.Next(ctx, op, l, w, before)
		return k.shown(items), more, err
	})
}

func (k *collection[T, P, R, I]) shown(items []R) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = *k.show(&items[i])
	}
	return out
}

func (k *collection[T, P, R, I]) replace(ctx context.Context, c *Client, id uuid.UUID, p P) (*T, error) {
	return runTo(ctx, c, &k.verbs.Replace, k.show, func(ctx context.Context, op *core.Op) (*R, error) {
		return k.store(c.v).Replace(ctx, op, id, k.inside(&p))
	})
}

func (k *collection[T, P, R, I]) patch(ctx context.Context, c *Client, id uuid.UUID, patch any) (*T, error) {
	return runTo(ctx, c, &k.verbs.Patch, k.show, func(ctx context.Context, op *core.Op) (*R, error) {
		return k.store(c.v).Patch(ctx, op, id, plainJSON(patch))
	})
}

func (k *collection[T, P, R, I]) delete(ctx context.Context, c *Client, id uuid.UUID) error {
	return runErr(ctx, c, &k.verbs.Delete, func(ctx context.Context, op *core.Op) error { return k.store(c.v).Delete(ctx, op, id) })
}
