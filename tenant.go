package vault

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/erase"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/notary"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/sweep"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/storage"
)

// Tenant is an owner of data. Tenants share nothing. The secret is hidden when
// printed or logged: see the package comment.
type Tenant struct {
	ID       uuid.UUID      `json:"id"`
	Name     string         `json:"name"`
	Settings TenantSettings `json:"settings"`
	// WebhookSecret signs the callbacks of asynchronous reactors, as Standard
	// Webhooks describes.
	WebhookSecret string    `json:"webhook_secret,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	ModifiedAt    time.Time `json:"modified_at,omitzero"`
	// Key is the tenant's own key; nil if it has none: see [Vault.SetTenantKey].
	Key *TenantKey `json:"key,omitempty"`
	// CreatedAs is the name under which the program created the tenant. A tenant
	// can rename itself, so Name may be a former name of another tenant. Only
	// [Vault.ListTenants] and [Vault.AllTenants] set CreatedAs, if it is known.
	CreatedAs string `json:"-"`
	// Unreadable is set in lists for a tenant whose rows were altered or do not
	// open. Only ID and CreatedAt are set then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// TenantKey is a tenant's own key, as one node sees it.
type TenantKey struct {
	URI   string         `json:"uri"` // without passwords and tokens
	State TenantKeyState `json:"state"`
	// CheckedAt is when the holder of the key last responded.
	CheckedAt time.Time `json:"checked_at,omitzero"`
}

// TenantKeyState describes whether a tenant's own key can be used.
type TenantKeyState string

// The states of a tenant's own key. A key is unreachable when its holder has not
// responded until the end of Config.KeyGrace.
const (
	TenantKeyOK          TenantKeyState = TenantKeyState(keyring.KeyOK)
	TenantKeyDenied      TenantKeyState = TenantKeyState(keyring.KeyDenied)
	TenantKeyUnreachable TenantKeyState = TenantKeyState(keyring.KeyUnreachable)
)

// TenantSettings are defaults that a tenant chooses.
type TenantSettings struct {
	// DeduplicateTokens makes CreateToken return an existing token with the same
	// content. A call can override it.
	DeduplicateTokens bool `json:"deduplicate_tokens"`
}

// TenantParams are the parts of a tenant that can be changed.
type TenantParams struct {
	Name     string         `json:"name"`
	Settings TenantSettings `json:"settings"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is. A setting may also be
// the string "true" or "false".
func (p *TenantParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var in tenants.Params
		in.Read(r)
		*p = TenantParams{in.Name, TenantSettings(in.Settings)}
	})
}

// CreateTenant adds a tenant with its own keys. Several tenants may have the same
// name; [Vault.EnsureTenant] returns the first of them.
func (v *Vault) CreateTenant(ctx context.Context, name string) (*Tenant, error) {
	return tenantOrErr(tenants.Create(ctx, v.core, name))
}

// tenantOrErr converts the result of the internal package.
func tenantOrErr(t *core.Tenant, err error) (*Tenant, error) {
	if err != nil {
		return nil, public(err)
	}
	return tenantOf(t), nil
}

// EnsureTenant returns the tenant that was created under a name, and creates it if
// it does not exist. If several tenants have the name, it returns the first.
// Programs that start concurrently get the same tenant.
//
// A renamed tenant is still found by the name that the program gave it, and not by
// its new name. A management key of the tenant can change the name, and must not
// get what the program keeps for another tenant.
func (v *Vault) EnsureTenant(ctx context.Context, name string) (*Tenant, error) {
	return tenantOrErr(tenants.Ensure(ctx, v.core, name))
}

// ListTenants lists the tenants, newest first. It is for the embedding program; no API
// key can use it.
func (v *Vault) ListTenants(ctx context.Context, p PageParams) (*Page[Tenant], error) {
	p, err := p.normal()
	if err != nil {
		return nil, public(err)
	}
	found, total, err := tenants.List(ctx, v.core, form.Paging(p))
	if err != nil {
		return nil, err
	}
	page := newPage[Tenant](p, total)
	for _, t := range found {
		page.Data = append(page.Data, *listedTenant(t))
	}
	return page, nil
}

// AllTenants iterates over all tenants, newest first. It returns no tenant twice
// and misses no tenant that existed throughout: see [Client.AllTokens]. Like
// [Vault.ListTenants] it is for the embedding program.
func (v *Vault) AllTenants(ctx context.Context) iter.Seq2[*Tenant, error] {
	return func(yield func(*Tenant, error) bool) {
		for t, err := range tenants.All(ctx, v.core) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(listedTenant(t), nil) {
				return
			}
		}
	}
}

// listedTenant returns a tenant with the name that it was created under.
func listedTenant(t *core.Tenant) *Tenant {
	out := tenantOf(t)
	out.CreatedAs = t.CreatedAs
	return out
}

// GetTenant returns the client's own tenant (permission tenant:read).
func (c *Client) GetTenant(ctx context.Context) (*Tenant, error) {
	return runTo(ctx, c, &core.VerbGetTenant, tenantOf, tenants.Get)
}

// ReplaceTenant replaces the name and the settings of the client's own tenant
// (permission tenant:update).
func (c *Client) ReplaceTenant(ctx context.Context, p TenantParams) (*Tenant, error) {
	return runTo(ctx, c, &core.VerbReplaceTenant, tenantOf, func(ctx context.Context, op *core.Op) (*core.Tenant, error) {
		return tenants.Replace(ctx, op, tenants.Params{Name: p.Name, Settings: core.TenantSettings(p.Settings)})
	})
}

// PatchTenant applies a JSON merge patch (RFC 7386) to the parameters of the
// client's own tenant (permission tenant:update). The patch is read as by
// [EncodeJSON].
func (c *Client) PatchTenant(ctx context.Context, patch any) (*Tenant, error) {
	return runTo(ctx, c, &core.VerbPatchTenant, tenantOf, func(ctx context.Context, op *core.Op) (*core.Tenant, error) {
		return tenants.Patch(ctx, op, plainJSON(patch))
	})
}

// RotateWebhookSecret gives the client's own tenant a new webhook secret
// (permission tenant:update). For 24 hours callbacks are signed with the old secret
// as well, so that receivers can switch in their own time.
func (c *Client) RotateWebhookSecret(ctx context.Context) (*Tenant, error) {
	return runTo(ctx, c, &core.VerbRotateWebhookSecret, tenantOf, tenants.RotateSecret)
}

// tenantOf converts a tenant of the internal package.
func tenantOf(t *core.Tenant) *Tenant {
	out := &Tenant{ID: t.ID, Name: t.Name, Settings: TenantSettings(t.Settings), WebhookSecret: t.WebhookSecret,
		CreatedAt: t.CreatedAt, ModifiedAt: t.ModifiedAt, Unreadable: t.Unreadable}
	if t.Key != nil {
		out.Key = &TenantKey{t.Key.URI, TenantKeyState(t.Key.State), t.Key.CheckedAt}
	}
	return out
}

// DeleteTenant deletes a tenant's keys, without which its data cannot be opened,
// and then its rows. If it is interrupted, the next sweep deletes the rest.
//
// An older copy of the database still holds the wrapped keys, so anyone who has the
// copy and the master key can read it. To erase the data everywhere, also delete
// such copies or the master key they were made under.
func (v *Vault) DeleteTenant(ctx context.Context, id uuid.UUID) error {
	if err := tenants.GiveUpNames(ctx, v.core, id); err != nil {
		return err
	}
	l, done, err := notary.Borrow(ctx, v.core)
	if err != nil {
		return public(err)
	}
	defer done()
	return sweep.DeleteTenant(ctx, v.core, l, id)
}

// Swept counts what a sweep deleted.
type Swept struct {
	Tokens   int // expired
	CVCs     int // older than an hour
	Sessions int // expired
	Logs     int // entries of the audit log, older than Config.LogRetention
	// Unopened is the number of expired rows that stay, because they do not open:
	// they were altered, or the keys of their tenant cannot be read. There is an
	// alarm about each of them, or about the keys.
	Unopened int
}

// Sweep deletes expired tokens, cvcs, sessions and idempotency records. It also
// deletes what is left of deleted tenants, of erased tokens (see
// [Client.EraseTokens]), and of callbacks that were abandoned 30 days ago. Then it
// deletes entries of the audit log that are older than Config.LogRetention, two
// million at most.
//
// The vault sweeps every Config.SweepEvery; several nodes may sweep at once. A node
// whose clock differs from the database's by more than 30 seconds only finishes the
// deletion of tenants: see [Vault.ClockAhead].
func (v *Vault) Sweep(ctx context.Context) (swept Swept, err error) {
	ctx, end := v.core.Tell(ctx, core.Event{Kind: string(EventSweep), Name: "sweep"})
	defer func() { end(err) }()
	done, err := sweep.Run(ctx, v.core, v.retention())
	v.core.WriteUses(ctx)
	return Swept(done), errors.Join(err, erase.Complete(ctx, v.core))
}

// retention returns which log entries a sweep deletes: entries that are old enough,
// and that all sinks have taken or whose grace period is over.
func (v *Vault) retention() sweep.Retention {
	r := sweep.Retention{Keep: v.cfg.LogRetention, Ledger: func(ctx context.Context) (*ledger.Ledger, func(), error) { return notary.Borrow(ctx, v.core) }}
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
	pace.Every(ctx, v.cfg.SweepEvery, func() { v.sweepNow(ctx) })
}

// sweepNow sweeps, unless the program does that itself, or the master key cannot be
// used.
func (v *Vault) sweepNow(ctx context.Context) {
	if v.cfg.SweepEvery < 0 || v.core.Key.Usable() != nil {
		return
	}
	if _, err := v.Sweep(ctx); err != nil && ctx.Err() == nil {
		v.cfg.Logger.ErrorContext(ctx, "sweep failed", "error", err)
	}
}
