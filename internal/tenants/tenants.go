// Package tenants manages tenants: their names, settings and webhook secrets.
//
// A tenant is two records: a document with its settings, and a ring with its keys, which
// the master key wraps. Both are created in one change. Several tenants may have one
// name, but the first keeps it, so that [Ensure] on several nodes finds the same tenant.
//
// The functions that take a vault are the operator's, and have no permission to check.
// Those that take an operation are calls of the tenant itself. Packages keyring and
// rotation do everything else with the ring, and package sweep deletes a tenant.
//
// Begin with [Create] and [Ensure].
package tenants

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Params are the parameters of a tenant.
type Params struct {
	Name     string              `json:"name"`
	Settings core.TenantSettings `json:"settings"`
}

// Read reads the JSON form.
func (p *Params) Read(r *form.Reader) {
	p.Name = r.Text("name")
	r.Object("settings", func(r *form.Reader) {
		p.Settings.DeduplicateTokens = r.BoolOrText("deduplicate_tokens")
	})
}

// UnmarshalJSON reads the JSON form strictly.
func (p *Params) UnmarshalJSON(data []byte) error { return fault.Of(form.ReadText(data, p.Read)) }

// nameKey returns the name key of a tenant. The first tenant with a name
// keeps it permanently.
func nameKey(name string) storage.Key {
	return records.NameKey(uuid.UUID{}, keyring.KindTenant, name)
}

// Create creates a tenant with its own keys. Several tenants may have the
// same name.
func Create(ctx context.Context, v *core.Vault, name string) (*core.Tenant, error) {
	t, err := create(ctx, v, name, nameKey(name))
	if errors.Is(err, storage.ErrExists) {
		return create(ctx, v, name, storage.Key{})
	}
	return t, err
}

// create creates a tenant. If unique is not zero, it must be unique.
func create(ctx context.Context, v *core.Vault, name string, unique storage.Key) (*core.Tenant, error) {
	if err := records.CheckName(name); err != nil {
		return nil, err
	}
	now := v.Now()
	ring, err := seal.NewRing(now)
	if err != nil {
		return nil, err
	}
	t := &core.Tenant{ID: v.NewID(now), Name: name, CreatedAs: name, WebhookSecret: runs.NewWebhookSecret(), CreatedAt: now}
	t.Record = storage.Record{AltKey: unique}
	wrapped, err := ring.Wrap(v.Root, t.ID)
	if err != nil {
		return nil, err
	}
	op := &core.Op{Caller: v.Owner(t.ID), State: &core.State{Ring: ring, ReadAt: time.Now()}, Now: now}
	rec, err := record(op, t)
	if err != nil {
		return nil, err
	}
	ch := op.Change()
	ch.InsertRecords = []storage.Record{
		{Kind: keyring.KindRing, ID: storage.ID(t.ID), Body: wrapped, CreatedAt: now}, rec,
	}
	ch.Logs = []storage.Log{op.Entry(audit.Create, rec.Kind, t.ID.String())}
	if err := op.Apply(ctx, ch); err != nil {
		return nil, fault.Wrap(err, "create tenant")
	}
	return t, nil
}

// Ensure returns the first tenant that was created under a name. If there is
// no such tenant, Ensure creates it.
func Ensure(ctx context.Context, v *core.Vault, name string) (*core.Tenant, error) {
	if err := records.CheckName(name); err != nil {
		return nil, err
	}
	for range core.MaxAttempts {
		t, found, err := named(ctx, v, name)
		if err == nil && !found {
			t, err = create(ctx, v, name, nameKey(name))
		}
		// It may have been created or deleted after the lookup.
		if !errors.Is(err, storage.ErrExists) && (!found || !errors.Is(err, fault.ErrNotFound)) {
			return t, err
		}
	}
	return nil, fault.ErrFaster
}

// named returns the tenant that was created under a name. A tenant is sealed
// together with the key of that name, so an index entry that leads to another
// tenant is an error.
func named(ctx context.Context, v *core.Vault, name string) (t *core.Tenant, found bool, err error) {
	key := nameKey(name)
	rec, err := core.Lookup(ctx, v.Store, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, nil
	}
	if err == nil && (rec.Kind != keyring.KindTenant || rec.AltKey != key) {
		err = fault.ErrAltered
	}
	if err != nil {
		return nil, false, fault.Wrap(err, "find the tenant of a name")
	}
	t, err = core.Do(ctx, v.Owner(uuid.UUID(rec.Tenant)), &core.VerbGetTenant, Get)
	if err != nil {
		return nil, true, err
	}
	state, err := v.Tenants.Get(ctx, t.ID)
	if err == nil && state.Doc.Record.AltKey != key {
		err = fault.Wrap(fault.ErrAltered, "find the tenant of a name")
	}
	return t, true, err
}

// List returns a page of the tenants, newest first, and the total number. p
// must be complete: see [form.Paging.Check].
func List(ctx context.Context, v *core.Vault, p form.Paging) (page []*core.Tenant, total int, err error) {
	recs, total, err := v.Store.ListRecords(ctx, storage.RecordFilter{Kind: keyring.KindTenant, Offset: p.Offset(), Limit: p.Size})
	for i := range recs {
		t, err := listed(ctx, v, &recs[i])
		if err != nil {
			return nil, 0, err
		}
		if t != nil {
			page = append(page, t)
		}
	}
	return page, total, err
}

// All iterates over all tenants, newest first.
func All(ctx context.Context, v *core.Vault) iter.Seq2[*core.Tenant, error] {
	return func(yield func(*core.Tenant, error) bool) {
		for rec, err := range storage.AllRecords(ctx, v.Store, storage.RecordFilter{Kind: keyring.KindTenant, Limit: form.MaxPageSize}) {
			var t *core.Tenant
			if err == nil {
				t, err = listed(ctx, v, rec)
			}
			if (t != nil || err != nil) && (!yield(t, err) || err != nil) {
				return
			}
		}
	}
}

// listed returns the tenant of a record, or nil if it was deleted after the record
// was read. A tenant that cannot be opened is shown as unreadable, so that it does
// not hide the others.
func listed(ctx context.Context, v *core.Vault, rec *storage.Record) (*core.Tenant, error) {
	state, err := v.Tenants.Get(ctx, uuid.UUID(rec.Tenant))
	if errors.Is(err, fault.ErrNotFound) {
		return nil, nil // which is not an error
	}
	key := v.Own.Status(uuid.UUID(rec.Tenant))
	if core.Unreadable(err) || key != nil && core.KeyDenied(err) {
		bad := &core.Tenant{ID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: core.Unreadable(err), Key: key}
		if !bad.Unreadable {
			bad.Name = rec.Name
		}
		return bad, nil
	}
	if err != nil {
		return nil, err
	}
	t := state.Doc
	t.Key = key
	return &t, nil
}

// Get returns the operation's tenant.
func Get(ctx context.Context, op *core.Op) (*core.Tenant, error) {
	if !op.State.Doc.Sealed {
		if err := op.Reload(ctx); err != nil {
			return nil, err
		}
	}
	if err := op.LogReads(ctx, audit.Read, core.Entity{Type: keyring.KindTenant, ID: op.Tenant().String()}); err != nil {
		return nil, err
	}
	t := op.State.Doc
	t.Key = op.Vault.Own.Status(op.Tenant())
	return &t, nil
}

// Replace replaces the name and the settings of the operation's tenant.
func Replace(ctx context.Context, op *core.Op, p Params) (*core.Tenant, error) {
	if err := records.CheckName(p.Name); err != nil {
		return nil, err
	}
	return change(ctx, op, func(t *core.Tenant) error {
		t.Name, t.Settings = p.Name, p.Settings
		return nil
	})
}

// Patch changes the operation's tenant by a JSON merge patch of its
// parameters.
func Patch(ctx context.Context, op *core.Op, patch any) (*core.Tenant, error) {
	text, err := records.PatchText(patch)
	if err != nil {
		return nil, err
	}
	return change(ctx, op, func(t *core.Tenant) error {
		var p Params
		if err := (records.Form{Fields: fault.Fields}).Merge(&p, Params{t.Name, t.Settings}, text); err != nil {
			return err
		}
		t.Name, t.Settings = p.Name, p.Settings
		return records.CheckName(p.Name)
	})
}

// secretOverlap is how long callbacks are also signed with the old secret.
const secretOverlap = 24 * time.Hour

// RotateSecret gives the operation's tenant a new webhook secret.
func RotateSecret(ctx context.Context, op *core.Op) (*core.Tenant, error) {
	return change(ctx, op, func(t *core.Tenant) error {
		t.OldSecret, t.OldSecretUntil = t.WebhookSecret, op.Now.Add(secretOverlap)
		t.WebhookSecret = runs.NewWebhookSecret()
		return nil
	})
}

// change reads, changes and stores the operation's tenant.
func change(ctx context.Context, op *core.Op, change func(*core.Tenant) error) (*core.Tenant, error) {
	defer op.Afterwards(func() { op.Vault.Tenants.Forget(op.Tenant()) })
	return core.RetryStale(func() (*core.Tenant, error) {
		var err error
		if op.State, err = op.Vault.Tenants.Reload(ctx, op.Tenant()); err != nil {
			return nil, err
		}
		t := op.State.Doc
		t.ModifiedAt, t.Key = op.Now, op.Vault.Own.Status(op.Tenant())
		name := t.Name
		if err := change(&t); err != nil {
			return nil, err
		}
		if t.Name != name {
			if err := giveUp(ctx, op, name); err != nil {
				return nil, err
			}
		}
		t.Record.Rev++
		rec, err := record(op, &t)
		if err != nil {
			return nil, err
		}
		return &t, op.SaveRecord(ctx, audit.Update, "", &rec)
	})
}

// record seals a tenant. It keeps the key of the original name, because a
// tenant can rename itself and must not be mistaken for another tenant
// afterwards.
func record(op *core.Op, t *core.Tenant) (storage.Record, error) {
	rec := storage.Record{
		Kind: keyring.KindTenant, ID: storage.ID(t.ID), Name: t.Name, AltKey: t.Record.AltKey, CreatedAt: t.CreatedAt, Rev: t.Record.Rev,
	}
	return rec, op.SealRecord(&rec, t)
}
