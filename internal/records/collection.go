package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Params is a pointer to parameters of type P.
type Params[P any] interface {
	*P
	json.Unmarshaler
}

// Collection is a kind of entity that is created and changed by parameters P.
type Collection[T, P any, D Params[P]] struct {
	*Kind[T]
	// Right is the permission to create an entity.
	Right string
	// Name returns the name in parameters.
	Name func(*P) string
	// Checks check parameters in order, and may normalize them. They may leave out
	// checks of what equals the old entity. A new one has no parameters, and an unknown
	// one is zero.
	Checks []func(ctx context.Context, op *core.Op, p *P, old *T) error
	// New returns a new entity without parameters.
	New func(*core.Op) *T
	// Params returns the parameters of an entity, and Set sets them.
	Params func(*T) P
	Set    func(*T, *P)
	// Keep adds to parameters that replace all others what they may leave out. They
	// are then checked again. It may be nil, as the functions below.
	Keep func(*P, *T)
	// Seen returns a written entity as the caller may see it.
	Seen func(*core.Op, *T) *T
	// Shown is as in [Form].
	Shown func(jsonx.Value, *form.Problems) jsonx.Value
}

func (c *Collection[T, P, D]) check(ctx context.Context, op *core.Op, p *P, old *T) error {
	for _, check := range c.Checks {
		if err := check(ctx, op, p, old); err != nil {
			return err
		}
	}
	return nil
}

// build returns an entity that is not stored yet.
func (c *Collection[T, P, D]) build(ctx context.Context, op *core.Op, p *P) (*T, error) {
	item := c.New(op)
	if err := c.check(ctx, op, p, item); err != nil {
		return nil, err
	}
	c.Set(item, p)
	return item, nil
}

func (c *Collection[T, P, D]) seen(op *core.Op, item *T, err error) (*T, error) {
	if err != nil || c.Seen == nil {
		return item, err
	}
	return c.Seen(op, item), nil
}

// Create creates an entity.
func (c *Collection[T, P, D]) Create(ctx context.Context, op *core.Op, p *P) (*T, error) {
	item, err := c.build(ctx, op, p)
	if err != nil {
		return nil, err
	}
	_, err = c.Kind.Create(ctx, op, item)
	return c.seen(op, item, err)
}

// Ensure returns the entity with the name of p, and creates it if it does not exist.
func (c *Collection[T, P, D]) Ensure(ctx context.Context, op *core.Op, p *P) (item *T, created bool, err error) {
	return c.Kind.Ensure(ctx, op, c.Name(p), c.Right, func() (*T, error) { return c.build(ctx, op, p) })
}

// Replace replaces all parameters of an entity.
func (c *Collection[T, P, D]) Replace(ctx context.Context, op *core.Op, id uuid.UUID, p *P) (*T, error) {
	if err := c.check(ctx, op, p, new(T)); err != nil {
		return nil, err
	}
	return c.update(ctx, op, id, func(item *T) error {
		whole := *p
		if c.Keep != nil {
			c.Keep(&whole, item)
			if err := c.check(ctx, op, &whole, item); err != nil {
				return err
			}
		}
		c.Set(item, &whole)
		return nil
	})
}

// Patch changes an entity by a JSON merge patch of its parameters.
func (c *Collection[T, P, D]) Patch(ctx context.Context, op *core.Op, id uuid.UUID, patch any) (*T, error) {
	text, err := PatchText(patch)
	if err != nil {
		return nil, err
	}
	read := Form{Fields: fault.Fields, Shown: c.Shown}
	item, err := c.update(ctx, op, id, func(item *T) error {
		if err := c.dropReferences(ctx, op, item); err != nil {
			return err
		}
		var p P
		if err := read.Merge(D(&p), c.Params(item), text); err != nil {
			return err
		}
		if err := c.check(ctx, op, &p, item); err != nil {
			return err
		}
		c.Set(item, &p)
		return nil
	})
	if errors.Is(err, fault.ErrNotFound) {
		var alone P
		checks := make([]func() error, len(c.Checks))
		for i, check := range c.Checks {
			checks[i] = func() error { return check(ctx, op, &alone, new(T)) }
		}
		err = cmp.Or(read.Fault(text, D(&alone), checks...), err)
	}
	return item, err
}

func (c *Collection[T, P, D]) update(ctx context.Context, op *core.Op, id uuid.UUID, change func(*T) error) (*T, error) {
	item, err := c.Update(ctx, op, id, "", change)
	return c.seen(op, item, err)
}
