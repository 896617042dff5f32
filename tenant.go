package vault

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/erase"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/sweep"
	"github.com/seed-72ea4aab/vault/internal/webhook"
	"github.com/seed-72ea4aab/vault/storage"
)

// Tenant is an owner of data. Tenants share nothing. The secret is not shown
// when it is printed or logged, except as JSON and in unexported fields: see
// [Token].
type Tenant struct {
	ID       uuid.UUID      `json:"id"`
	Name     string         `json:"name"`
	Settings TenantSettings `json:"settings"`
	// WebhookSecret signs the callbacks of asynchronous reactors, as Standard
	// Webhooks describes.
	WebhookSecret string    `json:"webhook_secret,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	ModifiedAt    time.Time `json:"modified_at,omitzero"`
	// CreatedAs is the name that the program created the tenant under. A tenant can
	// rename itself, so Name may be one that another tenant had. Only
	// [Vault.Tenants] and [Vault.AllTenants] fill it in, if it is known.
	CreatedAs string `json:"-"`
}

// TenantSettings are defaults that a tenant sets for itself.
type TenantSettings struct {
	// DeduplicateTokens makes CreateToken answer with an existing token of the
	// same content, unless the call says otherwise.
	DeduplicateTokens bool `json:"deduplicate_tokens"`
}

// TenantParams is what can be changed of a tenant.
type TenantParams struct {
	Name     string         `json:"name"`
	Settings TenantSettings `json:"settings"`
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError]. A setting may be the string "true" or
// "false" too.
func (p *TenantParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		p.Name = r.Text("name")
		r.Object("settings", func(r *form.Reader) {
			p.Settings.DeduplicateTokens = r.BoolOrText("deduplicate_tokens")
		})
	})
}

func (p *TenantParams) validate() error {
	bad := &form.Problems{}
	form.CheckName(bad, "name", p.Name)
	return fault.Of(bad)
}

// CreateTenant adds a tenant with keys of its own. Several may have one name;
// [Vault.EnsureTenant] returns the first of them.
func (v *Vault) CreateTenant(ctx context.Context, name string) (*Tenant, error) {
	t, err := v.createTenant(ctx, name, tenantKey(name))
	if errors.Is(err, storage.ErrExists) {
		return v.createTenant(ctx, name, storage.Key{})
	}
	return t, err
}

// createTenant adds a tenant that is unique by a key, unless it is zero.
func (v *Vault) createTenant(ctx context.Context, name string, unique storage.Key) (*Tenant, error) {
	params := TenantParams{Name: name}
	if err := params.validate(); err != nil {
		return nil, public(err)
	}
	now := v.core.Now()
	ring, err := seal.NewRing(now)
	if err != nil {
		return nil, err
	}
	t := &core.Tenant{ID: v.core.NewID(now), Name: name, CreatedAs: name, WebhookSecret: webhook.NewSecret(), CreatedAt: now}
	t.Record = storage.Record{AltKey: unique}
	wrapped, err := keyring.Wrap(ctx, v.master, ring, storage.ID(t.ID))
	if err != nil {
		return nil, err
	}
	op := &operation{&core.Op{Caller: v.core.Owner(t.ID), State: &core.State{Ring: ring, ReadAt: time.Now()}, Now: now}, v}
	rec, err := op.tenantRecord(t)
	if err != nil {
		return nil, err
	}
	ch := op.Change()
	ch.InsertRecords = []storage.Record{
		{Kind: kindRing, ID: storage.ID(t.ID), Body: wrapped, CreatedAt: now}, rec,
	}
	ch.Logs = []storage.Log{op.RecordEntry(audit.Create, &rec)}
	if err := op.Apply(ctx, ch); err != nil {
		return nil, fault.Wrap(err, "create tenant")
	}
	return tenantOf(t), nil
}

// EnsureTenant returns the tenant that was created under a name, and creates it
// when there is none: of several the first. Programs that start together get the
// same one.
//
// A tenant that has changed its name since is still found by the one that the
// program gave it, and not by the new one: a management key of the tenant can
// change it, and must not get what the program keeps for another tenant.
func (v *Vault) EnsureTenant(ctx context.Context, name string) (*Tenant, error) {
	if err := records.CheckName(name); err != nil {
		return nil, public(err)
	}
	for range core.MaxAttempts {
		t, found, err := v.tenantNamed(ctx, name)
		if err == nil && !found {
			t, err = v.createTenant(ctx, name, tenantKey(name))
		}
		// It may have been created, or deleted, since it was looked for.
		if !errors.Is(err, storage.ErrExists) && (!found || !errors.Is(err, ErrNotFound)) {
			return t, err
		}
	}
	return nil, fault.ErrFaster
}

// tenantNamed returns the tenant that was created under a name. A tenant is
// sealed together with the key of that name, so an entry of the index that leads
// to another tenant is an error.
func (v *Vault) tenantNamed(ctx context.Context, name string) (t *Tenant, found bool, err error) {
	key := tenantKey(name)
	rec, err := core.Lookup(ctx, v.store, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, nil
	}
	if err == nil && (rec.Kind != kindTenant || rec.AltKey != key) {
		err = fault.ErrAltered
	}
	if err != nil {
		return nil, false, fault.Wrap(err, "find the tenant of a name")
	}
	c := v.Tenant(uuid.UUID(rec.Tenant))
	t, err = c.GetTenant(ctx)
	if err != nil {
		return nil, true, err
	}
	state, err := v.core.Tenants.Get(ctx, t.ID)
	if err == nil && state.Doc.Record.AltKey != key {
		err = fault.Wrap(fault.ErrAltered, "find the tenant of a name")
	}
	return t, true, err
}

// tenantKey is the name key of a tenant. The first tenant of a name keeps it for
// good.
func tenantKey(name string) storage.Key { return records.NameKey(uuid.UUID{}, kindTenant, name) }

// Tenants lists the tenants, newest first. It is for the embedding program:
// no API key reaches it.
func (v *Vault) Tenants(ctx context.Context, p PageParams) (*Page[Tenant], error) {
	p, err := p.normal()
	if err != nil {
		return nil, public(err)
	}
	recs, total, err := v.store.ListRecords(ctx, storage.RecordFilter{Kind: kindTenant, Offset: p.offset(), Limit: p.Size})
	if err != nil {
		return nil, err
	}
	page := newPage[Tenant](p, total)
	for t, err := range v.listed(ctx, recs) {
		if err != nil {
			return nil, err
		}
		page.Data = append(page.Data, *t)
	}
	return page, nil
}

// AllTenants iterates over all tenants, newest first. It gives nothing twice and
// misses nothing that existed throughout: see [Client.AllTokens]. Like
// [Vault.Tenants] it is for the embedding program.
func (v *Vault) AllTenants(ctx context.Context) iter.Seq2[*Tenant, error] {
	return func(yield func(*Tenant, error) bool) {
		filter := storage.RecordFilter{Kind: kindTenant, Limit: form.MaxPageSize}
		for {
			recs, _, err := v.store.ListRecords(ctx, filter)
			if err != nil {
				yield(nil, err)
				return
			}
			for t, err := range v.listed(ctx, recs) {
				if !yield(t, err) || err != nil {
					return
				}
			}
			if len(recs) < filter.Limit {
				return
			}
			filter.Before = recs[len(recs)-1].ID
		}
	}
}

// listed iterates over the tenants of records. It leaves out tenants that were
// deleted since the records were read.
func (v *Vault) listed(ctx context.Context, recs []storage.Record) iter.Seq2[*Tenant, error] {
	return func(yield func(*Tenant, error) bool) {
		for i := range recs {
			state, err := v.core.Tenants.Get(ctx, uuid.UUID(recs[i].Tenant))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			t := tenantOf(&state.Doc)
			if t.CreatedAs = state.Doc.CreatedAs; t.CreatedAs == "" && t.ModifiedAt.IsZero() {
				t.CreatedAs = t.Name
			}
			if !yield(t, nil) {
				return
			}
		}
	}
}

// GetTenant returns the client's own tenant (permission tenant:read).
func (c *Client) GetTenant(ctx context.Context) (*Tenant, error) {
	return run(ctx, c, &verbGetTenant, func(ctx context.Context, op *operation) (*Tenant, error) {
		state, err := op.Vault.Tenants.Reload(ctx, op.Tenant())
		if err != nil {
			return nil, err
		}
		if err := op.LogReads(ctx, audit.Read, core.Entity{Type: kindTenant, ID: op.Tenant().String()}); err != nil {
			return nil, err
		}
		return tenantOf(&state.Doc), nil
	})
}

// ReplaceTenant replaces the name and the settings of the client's own tenant
// (permission tenant:update).
func (c *Client) ReplaceTenant(ctx context.Context, p TenantParams) (*Tenant, error) {
	return run(ctx, c, &verbReplaceTenant, func(ctx context.Context, op *operation) (*Tenant, error) {
		if err := p.validate(); err != nil {
			return nil, err
		}
		return op.changeTenant(ctx, func(t *core.Tenant) error {
			t.Name, t.Settings = p.Name, core.TenantSettings(p.Settings)
			return nil
		})
	})
}

// PatchTenant changes the client's own tenant by a JSON merge patch (RFC 7386)
// of its parameters, which [EncodeJSON] reads (permission tenant:update).
func (c *Client) PatchTenant(ctx context.Context, patch any) (*Tenant, error) {
	return run(ctx, c, &verbPatchTenant, func(ctx context.Context, op *operation) (*Tenant, error) {
		text, err := EncodeJSON(patch)
		if err != nil {
			return nil, err
		}
		return op.changeTenant(ctx, func(t *core.Tenant) error {
			var p TenantParams
			if err := paramsForm.Merge(&p, TenantParams{t.Name, TenantSettings(t.Settings)}, text); err != nil {
				return err
			}
			t.Name, t.Settings = p.Name, core.TenantSettings(p.Settings)
			return p.validate()
		})
	})
}

// secretOverlap is how long callbacks are signed with the old secret too.
const secretOverlap = 24 * time.Hour

// RotateWebhookSecret gives the client's own tenant a new webhook secret
// (permission tenant:update). For 24 hours callbacks are signed with the old
// one as well, so that receivers can change over in their own time.
func (c *Client) RotateWebhookSecret(ctx context.Context) (*Tenant, error) {
	return run(ctx, c, &verbRotateWebhookSecret, func(ctx context.Context, op *operation) (*Tenant, error) {
		return op.changeTenant(ctx, func(t *core.Tenant) error {
			t.OldSecret, t.OldSecretUntil = t.WebhookSecret, op.Now.Add(secretOverlap)
			t.WebhookSecret = webhook.NewSecret()
			return nil
		})
	})
}

// tenantOf returns a tenant as callers see it.
func tenantOf(t *core.Tenant) *Tenant {
	return &Tenant{ID: t.ID, Name: t.Name, Settings: TenantSettings(t.Settings), WebhookSecret: t.WebhookSecret,
		CreatedAt: t.CreatedAt, ModifiedAt: t.ModifiedAt}
}

// changeTenant reads the client's own tenant, changes it and stores it.
func (op *operation) changeTenant(ctx context.Context, change func(*core.Tenant) error) (*Tenant, error) {
	defer op.Afterwards(func() { op.Vault.Tenants.Forget(op.Tenant()) })
	return core.RetryStale(func() (*Tenant, error) {
		var err error
		if op.State, err = op.Vault.Tenants.Reload(ctx, op.Tenant()); err != nil {
			return nil, err
		}
		t := op.State.Doc
		t.ModifiedAt = op.Now
		if err := change(&t); err != nil {
			return nil, err
		}
		t.Record.Rev++
		rec, err := op.tenantRecord(&t)
		if err != nil {
			return nil, err
		}
		ch := op.Change()
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: rec.Rev - 1, Record: rec}}
		ch.Logs = []storage.Log{op.RecordEntry(audit.Update, &rec)}
		return tenantOf(&t), op.Write(ctx, ch)
	})
}

// tenantRecord seals a tenant. It keeps the key of the name that it was created
// under: a tenant can change its name by itself, and must not be taken for
// another one because of that.
func (op *operation) tenantRecord(t *core.Tenant) (storage.Record, error) {
	rec := storage.Record{
		Kind: kindTenant, ID: storage.ID(t.ID), Name: t.Name, AltKey: t.Record.AltKey, CreatedAt: t.CreatedAt, Rev: t.Record.Rev,
	}
	return rec, op.SealRecord(&rec, t)
}

// DeleteTenant deletes a tenant's keys, without which nothing opens what was
// sealed under them, and then its rows. If it is cut off in between, the next
// sweep deletes what is left.
//
// A copy of the database from before holds the keys, wrapped, so anyone who has it
// and the master key can still read it. For the data to be gone everywhere,
// such copies have to be gone, or the master key they were made under.
func (v *Vault) DeleteTenant(ctx context.Context, id uuid.UUID) error {
	return sweep.DeleteTenant(ctx, v.core, id)
}

// Swept counts what a sweep deleted.
type Swept struct {
	Tokens   int // expired
	CVCs     int // whose hour had passed
	Sessions int // expired
	Logs     int // entries of the audit log, older than Config.LogRetention
}

// Sweep deletes what has expired: tokens, cvcs, sessions, idempotency records,
// what is left of deleted tenants, of erased tokens (see [Client.EraseTokens]), and
// of callbacks that were given up 30 days
// ago; and then entries of the audit log that are older than Config.LogRetention,
// two million at most. The vault sweeps by itself every Config.SweepEvery;
// several nodes may do so at once. A node whose clock is more than 30 seconds off
// the database's only finishes the deletion of tenants: see [Vault.ClockAhead].
func (v *Vault) Sweep(ctx context.Context) (swept Swept, err error) {
	ctx, end := v.observe(ctx, EventSweep, "sweep", uuid.UUID{}, uuid.UUID{})
	defer func() { end(err) }()
	done, err := sweep.Run(ctx, v.core, v.retention())
	return Swept(done), errors.Join(err, erase.Settle(ctx, v.core))
}

// retention says which log entries a sweep deletes: those that are old enough and
// that all sinks have, or that are past the grace.
func (v *Vault) retention() sweep.Retention {
	r := sweep.Retention{Keep: v.cfg.LogRetention}
	if len(v.cfg.Sinks) == 0 || v.cfg.SinkGrace < 0 {
		return r
	}
	r.Before = func(ctx context.Context, tenant storage.ID, before time.Time) (time.Time, error) {
		at, overdue, err := v.sinks.Keep(ctx, tenant, before, before.Add(-v.cfg.SinkGrace))
		if overdue {
			v.cfg.Logger.ErrorContext(ctx, "log entries are deleted that a sink has not taken within Config.SinkGrace", "tenant", uuid.UUID(tenant))
		}
		return at, err
	}
	return r
}

// sweepLoop sweeps until the vault is closed.
func (v *Vault) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(v.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := v.Sweep(ctx); err != nil && ctx.Err() == nil {
				v.cfg.Logger.ErrorContext(ctx, "sweep failed", "error", err)
			}
		}
	}
}
