package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

// kind is a kind of entity of a tenant: applications, reactors or proxies. T is the
// entity, and P its parameters.
type kind[T, P any] struct {
	name    string
	columns []column[*T]
	of      func(*T) (id uuid.UUID, name string)
	ends    string // what deleting an entity ends
	blank   T      // an entity that does not exist yet

	all    func(ctx context.Context, api vault.API, name string) iter.Seq2[*T, error] // an empty name means all
	get    func(vault.API, context.Context, uuid.UUID) (*T, error)
	apply  func(vault.API, context.Context, P) (*vault.Applied[T], error)
	delete func(vault.API, context.Context, uuid.UUID) error
}

// list prints all entities.
func (k *kind[T, P]) list(c *call, o *opened) error {
	return printAll(c, k.all(c.ctx, o.api, ""), k.columns[:5])
}

// show prints the entity in the first argument.
func (k *kind[T, P]) show(c *call, o *opened) error {
	return printOne(c, k.columns)(k.find(c, o.api, c.args[0]))
}

// remove deletes the entity in the first argument.
func (k *kind[T, P]) remove(c *call, o *opened) error {
	item, err := k.find(c, o.api, c.args[0])
	if err != nil {
		return err
	}
	id, name := k.of(item)
	if err := c.confirm("Delete the " + k.name + " " + shell.Printable(name) + "?" + k.ends); err != nil {
		return err
	}
	return c.say(k.delete(o.api, c.ctx, id), map[string]any{"id": id, "deleted": true}, "Deleted the %s %s.", k.name, id)
}

// find returns the entity with an id or a name.
func (k *kind[T, P]) find(c *call, api vault.API, which string) (*T, error) {
	if id, err := uuid.Parse(which); err == nil {
		return k.get(api, c.ctx, id)
	}
	return k.named(c, api, which)
}

// named returns the entity with exactly this name. It is needed because the
// filters of lists ignore case and treat * as a wildcard.
func (k *kind[T, P]) named(c *call, api vault.API, which string) (*T, error) {
	var found *T
	for item, err := range k.all(c.ctx, api, which) {
		if err != nil {
			return nil, err
		}
		switch _, name := k.of(item); {
		case name != which:
		case found != nil:
			return nil, fmt.Errorf("several %ss have this name; use the id", k.name)
		default:
			found = item
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s: %w", k.name, vault.ErrNotFound)
	}
	return found, nil
}

// plan compares a manifest with the existing entity of the same name. The
// parameters are those in the manifest.
func (k *kind[T, P]) plan(c *call, api vault.API, m *manifest.Manifest, want P, compare func(d *manifest.Changes, now *T)) (*planned, error) {
	now, err := k.named(c, api, m.Name)
	if errors.Is(err, vault.ErrNotFound) {
		now, err = &k.blank, nil
	}
	if err != nil {
		return nil, err
	}
	d := &manifest.Changes{}
	compare(d, now)
	id, _ := k.of(now)
	p := &planned{Name: m.Name, ID: id, Changed: d.Names, diff: d.Diff, Action: actionUpdate}
	switch {
	case id == uuid.UUID{}:
		p.Action, p.Changed = actionCreate, nil
	case len(d.Names) == 0:
		p.Action = actionUnchanged
		return p, nil
	}
	p.write = func() (uuid.UUID, error) {
		applied, err := k.apply(api, c.ctx, want)
		if err == nil {
			id, _ = k.of(applied.Item)
		}
		return id, err
	}
	return p, nil
}
