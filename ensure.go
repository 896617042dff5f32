package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// nameKey is what keeps two programs from making the same thing at the same
// time: it is unique in the database. Of applications, reactors and proxies only
// what an Ensure method made has one, and loses it when it is renamed.
func nameKey(tenant uuid.UUID, kind, name string) storage.Key {
	return sha256.Sum256([]byte("name\x00" + kind + "\x00" + tenant.String() + "\x00" + name))
}

// tenantKey is the nameKey of a tenant. The first one of a name has it for good.
func tenantKey(name string) storage.Key { return nameKey(uuid.UUID{}, kindTenant, name) }

// keepNameKey lets a record that is written again keep what it was ensured by,
// unless it has another name by now.
func keepNameKey(rec, old *storage.Record) {
	if rec.Name == old.Name {
		rec.AltKey = old.AltKey
	}
}

// checkName refuses a name that nothing can have.
func checkName(name string) error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", name)
	return fault.Of(bad)
}

// named returns the record with exactly this name, or nil. Of several it is the
// oldest, so that every node finds the same one.
func named(ctx context.Context, db storage.RecordReader, tenant storage.ID, kind, name string) (*storage.Record, error) {
	rec, err := db.Lookup(ctx, nameKey(uuid.UUID(tenant), kind, name))
	if err == nil || !errors.Is(err, storage.ErrNotFound) {
		return &rec, err
	}
	var oldest *storage.Record
	filter := storage.RecordFilter{Tenant: tenant, Kind: kind, Name: name, Limit: form.MaxPageSize}
	for {
		recs, _, err := db.ListRecords(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range recs { // the filter reads * as any text, and does not mind case
			if recs[i].Name == name {
				oldest = &recs[i]
			}
		}
		if len(recs) < filter.Limit {
			return oldest, nil
		}
		filter.Before = recs[len(recs)-1].ID
	}
}

// ensure returns the entity with a name, and makes it when there is none. When
// another node was faster, it returns what that one made.
func (k *recordKind[T]) ensure(ctx context.Context, op *operation, name string, build func() (*T, error)) (*T, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	for range core.MaxAttempts {
		rec, err := named(ctx, op.DB(), op.TenantID(), k.name, name)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			return k.shown(ctx, op, rec)
		}
		item, err := build()
		if err != nil {
			return nil, err
		}
		item, err = k.createAs(ctx, op, item, nameKey(op.Tenant(), k.name, name))
		if !errors.Is(err, storage.ErrExists) {
			return item, err
		}
	}
	return nil, fault.ErrFaster
}

// shown opens a record for a caller, and logs that it was read.
func (k *recordKind[T]) shown(ctx context.Context, op *operation, rec *storage.Record) (*T, error) {
	item, err := k.open(ctx, op, rec)
	if err != nil {
		return nil, err
	}
	if err := k.show(ctx, op, item); err != nil {
		return nil, err
	}
	return item, op.LogReads(ctx, audit.Read, core.Entity{Type: k.name, ID: uuid.UUID(rec.ID).String()})
}

// EnsureTenant returns the tenant that was created under a name, and creates it
// when there is none: of several the first. Programs that start together get the
// same one.
//
// A tenant that has changed its name since is still found by the one that the
// program gave it, and not by the new one: a management key of the tenant can
// change it, and must not get what the program keeps for another tenant.
func (v *Vault) EnsureTenant(ctx context.Context, name string) (*Tenant, error) {
	if err := checkName(name); err != nil {
		return nil, public(err)
	}
	for range core.MaxAttempts {
		rec, err := v.store.Lookup(ctx, tenantKey(name))
		found := err == nil
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		var t *Tenant
		if found {
			t, err = v.Tenant(uuid.UUID(rec.Tenant)).GetTenant(ctx)
		} else {
			t, err = v.createTenant(ctx, name, tenantKey(name))
		}
		// It may have been made, or deleted, since it was looked for.
		if !errors.Is(err, storage.ErrExists) && (!found || !errors.Is(err, ErrNotFound)) {
			return t, err
		}
	}
	return nil, fault.ErrFaster
}

// EnsureApplication returns the application that has the name of p, and creates
// it when there is none (permissions application:read, and those of
// [Client.CreateApplication] when it is missing). Programs that start together
// get the same one.
//
// An application that exists is returned as it is, whatever else p says:
// [Client.ReplaceApplication] changes it. If it has another type than p, that is
// ErrConflict. Key is set only in the answer that created it; [Client.As] needs
// none.
func (c *Client) EnsureApplication(ctx context.Context, p ApplicationParams) (*Application, error) {
	return run(ctx, c, &verbEnsureApplication, func(ctx context.Context, op *operation) (*Application, error) {
		app, err := applications.ensure(ctx, op, p.Name, func() (*Application, error) {
			if err := op.Require(access.ApplicationCreate); err != nil {
				return nil, err
			}
			return op.newApplication(p)
		})
		if err == nil && p.Type != "" && app.Type != p.Type {
			return nil, fault.New(ErrConflict, "There is an application of this name that has another type.")
		}
		return app, err
	})
}

// EnsureReactor returns the reactor that has the name of p, and creates it when
// there is none (permissions reactor:read, and reactor:create when it is
// missing). Programs that start together get the same one. A reactor that exists
// is returned as it is, whatever else p says: [Client.ReplaceReactor] changes it.
func (c *Client) EnsureReactor(ctx context.Context, p ReactorParams) (*Reactor, error) {
	return run(ctx, c, &verbEnsureReactor, func(ctx context.Context, op *operation) (*Reactor, error) {
		return reactors.ensure(ctx, op, p.Name, func() (*Reactor, error) {
			if err := op.Require(access.ReactorCreate); err != nil {
				return nil, err
			}
			return op.newReactor(ctx, &p)
		})
	})
}

// EnsureProxy returns the proxy that has the name of p, and creates it when there
// is none (permissions proxy:read, and proxy:create when it is missing). Programs
// that start together get the same one, with the same key. A proxy that exists is
// returned as it is, whatever else p says: [Client.ReplaceProxy] changes it.
func (c *Client) EnsureProxy(ctx context.Context, p ProxyParams) (*Proxy, error) {
	return run(ctx, c, &verbEnsureProxy, func(ctx context.Context, op *operation) (*Proxy, error) {
		return proxies.ensure(ctx, op, p.Name, func() (*Proxy, error) {
			if err := op.Require(access.ProxyCreate); err != nil {
				return nil, err
			}
			return op.newProxy(ctx, &p)
		})
	})
}

// Params returns what describes the application, to be changed and given to
// [Client.ReplaceApplication].
func (a *Application) Params() ApplicationParams {
	return ApplicationParams{a.Name, a.Type, slices.Clone(a.Permissions), slices.Clone(a.Rules), a.ExpiresAt}
}

// Params returns what describes the reactor, to be changed and given to
// [Client.ReplaceReactor].
func (r *Reactor) Params() ReactorParams {
	p := ReactorParams{Name: r.Name, Code: r.Code, Configuration: maps.Clone(r.Configuration)}
	if r.Application != nil {
		p.Application = &ApplicationRef{r.Application.ID}
	}
	return p
}

// Params returns what describes the proxy, to be changed and given to
// [Client.ReplaceProxy].
func (x *Proxy) Params() ProxyParams {
	p := ProxyParams{Name: x.Name, DestinationURL: x.DestinationURL, Configuration: maps.Clone(x.Configuration),
		RequestTransform: x.RequestTransform.clone(), ResponseTransform: x.ResponseTransform.clone(), RequireAuth: new(x.RequireAuth)}
	if x.ApplicationID != (uuid.UUID{}) {
		p.Application = &ApplicationRef{x.ApplicationID}
	}
	return p
}

func (t *ProxyTransform) clone() *ProxyTransform {
	if t == nil {
		return nil
	}
	return &ProxyTransform{t.Code}
}
