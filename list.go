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

// ListParams filters reactors or proxies. Zero fields filter nothing.
type ListParams struct {
	IDs []uuid.UUID
	// Name matches the whole name without regard to case; * stands for any text.
	Name string
	PageParams
}

// listOf returns the list of the internal package.
func listOf[R any](p *ListParams) records.List[R] { return records.List[R]{IDs: p.IDs, Name: p.Name} }

// Applied is the result of an Apply method: the entity in its current state, and
// whether the call created or changed it.
type Applied[T any] struct {
	Item             *T
	Created, Changed bool
}

func applied[T any](item *T, created, changed bool, err error) (*Applied[T], error) {
	if err != nil {
		return nil, err
	}
	return &Applied[T]{item, created, changed}, nil
}

// listRecords returns a page of applications, reactors or proxies.
func listRecords[R, T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[R], l records.List[R], p PageParams, show func(*R) *T) (*Page[T], error) {
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

// allRecords iterates over applications, reactors or proxies.
func allRecords[R, T any](ctx context.Context, c *Client, verb *core.Verb, kind *records.Kind[R], l records.List[R], show func(*R) *T) iter.Seq2[*T, error] {
	return walk(ctx, c, verb, func(ctx context.Context, op *core.Op, w *core.Walk, before *storage.ID) ([]T, bool, error) {
		items, more, err := kind.Next(ctx, op, l, w, before)
		return shown(items, show), more, err
	})
}

// shown converts entities of an internal package.
func shown[R, T any](items []R, show func(*R) *T) []T {
	out := make([]T, len(items))
	for i := range items {
		out[i] = *show(&items[i])
	}
	return out
}
