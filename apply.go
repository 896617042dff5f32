package vault

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/records"
)

// ApplyAction says what an Apply method has done.
type ApplyAction string

// The actions of Apply methods.
const (
	ApplyCreated   ApplyAction = "created"
	ApplyChanged   ApplyAction = "changed"
	ApplyUnchanged ApplyAction = "unchanged"
)

// Applied is the result of an Apply method: the entity as it is now, and what was
// done.
type Applied[T any] struct {
	Item   *T
	Action ApplyAction
}

// ApplyApplication makes the application with the name of p what p says: it creates
// the application when no other has the name, changes it when it differs, and
// otherwise leaves it alone (permissions application:read, and those of
// [Client.CreateApplication] or [Client.ReplaceApplication] when something is to be
// done). Programs that start together create one. The type of an application cannot
// change. Key is set only in the result that created it.
func (c *Client) ApplyApplication(ctx context.Context, p ApplicationParams) (*Applied[Application], error) {
	found, err := run(ctx, c, &verbApplyApplication, func(ctx context.Context, op *operation) (*Applied[Application], error) {
		return ensureNamed(ctx, op, &applications, p.Name, access.ApplicationCreate,
			func() (*Application, error) { return op.newApplication(p) }, func(a *Application) uuid.UUID { return a.ID })
	})
	if err != nil || found.Action == ApplyCreated || found.Item.Params().Same(p) {
		return found, err
	}
	return changed(c.ReplaceApplication(ctx, found.Item.ID, p))
}

// ApplyReactor makes the reactor with the name of p what p says, as
// [Client.ApplyApplication] does for applications (permissions reactor:read, and
// reactor:create or reactor:update when something is to be done).
func (c *Client) ApplyReactor(ctx context.Context, p ReactorParams) (*Applied[Reactor], error) {
	found, err := run(ctx, c, &verbApplyReactor, func(ctx context.Context, op *operation) (*Applied[Reactor], error) {
		return ensureNamed(ctx, op, &reactors, p.Name, access.ReactorCreate,
			func() (*Reactor, error) { return op.newReactor(ctx, &p) }, func(r *Reactor) uuid.UUID { return r.ID })
	})
	if err != nil || found.Action == ApplyCreated || found.Item.Params().Same(p) {
		return found, err
	}
	return changed(c.ReplaceReactor(ctx, found.Item.ID, p))
}

// ApplyProxy makes the proxy with the name of p what p says, as
// [Client.ApplyApplication] does for applications (permissions proxy:read, and
// proxy:create or proxy:update when something is to be done). The key of a proxy
// stays.
func (c *Client) ApplyProxy(ctx context.Context, p ProxyParams) (*Applied[Proxy], error) {
	found, err := run(ctx, c, &verbApplyProxy, func(ctx context.Context, op *operation) (*Applied[Proxy], error) {
		return ensureNamed(ctx, op, &proxies, p.Name, access.ProxyCreate,
			func() (*Proxy, error) { return op.newProxy(ctx, &p) }, func(x *Proxy) uuid.UUID { return x.ID })
	})
	if err != nil || found.Action == ApplyCreated || found.Item.Params().Same(p) {
		return found, err
	}
	return changed(c.ReplaceProxy(ctx, found.Item.ID, p))
}

// ensureNamed finds an entity by its name or creates it, and says which.
func ensureNamed[T any](ctx context.Context, op *operation, kind *records.Kind[T], name, permission string, build func() (*T, error), id func(*T) uuid.UUID) (*Applied[T], error) {
	var built uuid.UUID // the last one; another node may be faster
	item, err := kind.Ensure(ctx, op.Op, name, func() (*T, error) {
		if err := op.Require(permission); err != nil {
			return nil, err
		}
		item, err := build()
		if err == nil {
			built = id(item)
		}
		return item, err
	})
	if err != nil {
		return nil, err
	}
	if id(item) == built {
		return &Applied[T]{item, ApplyCreated}, nil
	}
	return &Applied[T]{item, ApplyUnchanged}, nil
}

// changed is the result of a replacement.
func changed[T any](item *T, err error) (*Applied[T], error) {
	if err != nil {
		return nil, err
	}
	return &Applied[T]{item, ApplyChanged}, nil
}

// Same reports whether p and q describe the same application. The order of
// permissions and rules does not count, and neither does a type that is left out.
func (p ApplicationParams) Same(q ApplicationParams) bool {
	p.Type, q.Type = cmp.Or(p.Type, q.Type), cmp.Or(q.Type, p.Type)
	a, b := p.plain(), q.plain()
	return a.Name == b.Name && a.Type == b.Type && a.ExpiresAt.Equal(b.ExpiresAt) && slices.Equal(a.Permissions, b.Permissions) &&
		slices.EqualFunc(a.Rules, b.Rules, func(x, y AccessRule) bool {
			return x.Description == y.Description && x.Priority == y.Priority && x.Container == y.Container && x.Transform == y.Transform &&
				slices.Equal(x.Conditions, y.Conditions) && slices.Equal(x.Permissions, y.Permissions)
		})
}

// plain returns the parameters as they are stored, with lists in order. What is
// wrong with them does not matter here.
func (p ApplicationParams) plain() ApplicationParams {
	p, _ = p.checked(time.Time{})
	p.Permissions = slices.Sorted(slices.Values(p.Permissions))
	p.Rules = slices.SortedFunc(slices.Values(p.Rules), func(a, b AccessRule) int { return a.Priority - b.Priority })
	for i := range p.Rules {
		p.Rules[i].Permissions = slices.Sorted(slices.Values(p.Rules[i].Permissions))
	}
	return p
}

// Same reports whether p and q describe the same reactor.
func (p ReactorParams) Same(q ReactorParams) bool {
	return p.Name == q.Name && p.Code == q.Code && maps.Equal(p.Configuration, q.Configuration) && sameRef(p.Application, q.Application)
}

// Same reports whether p and q describe the same proxy.
func (p ProxyParams) Same(q ProxyParams) bool {
	required := func(b *bool) bool { return b == nil || *b }
	return p.Name == q.Name && p.DestinationURL == q.DestinationURL && p.RequestTransform.code() == q.RequestTransform.code() &&
		p.ResponseTransform.code() == q.ResponseTransform.code() && maps.Equal(p.Configuration, q.Configuration) &&
		sameRef(p.Application, q.Application) && required(p.RequireAuth) == required(q.RequireAuth)
}

func sameRef(a, b *ApplicationRef) bool {
	return a == b || a != nil && b != nil && a.ID == b.ID
}
