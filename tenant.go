package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
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
	return asInvalid(bad)
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
		return nil, err
	}
	now := v.now()
	ring, err := seal.NewRing(now)
	if err != nil {
		return nil, err
	}
	t := &tenantDoc{Tenant: Tenant{ID: v.ids.At(now), Name: name, WebhookSecret: webhook.NewSecret(), CreatedAt: now}}
	t.rec = storage.Record{AltKey: unique}
	wrapped, err := v.wrap(ctx, ring, t.ID)
	if err != nil {
		return nil, err
	}
	op := &operation{v.Tenant(t.ID), &keyring.State[tenantDoc]{Ring: ring, ReadAt: time.Now()}, now}
	rec, err := op.tenantRecord(t)
	if err != nil {
		return nil, err
	}
	ch := op.change()
	ch.InsertRecords = []storage.Record{
		{Kind: kindRing, ID: storage.ID(t.ID), Body: wrapped, CreatedAt: now}, rec,
	}
	ch.Logs = []storage.Log{op.entry(audit.Create, kindTenant, t.ID.String())}
	if err := v.store.Write(ctx, ch); err != nil {
		return nil, fmt.Errorf("vault: create tenant: %w", err)
	}
	return &t.Tenant, nil
}

// Tenants lists the tenants, newest first. It is for the embedding program:
// no API key reaches it.
func (v *Vault) Tenants(ctx context.Context, p PageParams) (*Page[Tenant], error) {
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	recs, total, err := v.store.ListRecords(ctx, storage.RecordFilter{Kind: kindTenant, Offset: p.offset(), Limit: p.Size})
	if err != nil {
		return nil, err
	}
	page := newPage[Tenant](p, total)
	for i := range recs {
		state, err := v.tenants.Get(ctx, uuid.UUID(recs[i].Tenant))
		if errors.Is(err, ErrNotFound) {
			continue // deleted since the list was read
		}
		if err != nil {
			return nil, err
		}
		page.Data = append(page.Data, state.Doc.Tenant)
	}
	return page, nil
}

// GetTenant returns the client's own tenant (permission tenant:read).
func (c *Client) GetTenant(ctx context.Context) (*Tenant, error) {
	if err := c.outsideTx("GetTenant"); err != nil {
		return nil, err
	}
	op, err := c.begin(ctx, access.TenantRead)
	if err != nil {
		return nil, err
	}
	state, err := op.v.tenants.Reload(ctx, op.tenant)
	if err != nil {
		return nil, err
	}
	if err := op.logReads(ctx, audit.Read, entity{kindTenant, op.tenant.String()}); err != nil {
		return nil, err
	}
	t := state.Doc.Tenant
	return &t, nil
}

// ReplaceTenant replaces the name and the settings of the client's own tenant
// (permission tenant:update).
func (c *Client) ReplaceTenant(ctx context.Context, p TenantParams) (*Tenant, error) {
	if err := c.outsideTx("ReplaceTenant"); err != nil {
		return nil, err
	}
	op, err := c.begin(ctx, access.TenantUpdate)
	if err != nil {
		return nil, err
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return op.changeTenant(ctx, func(t *tenantDoc) error {
		t.Name, t.Settings = p.Name, p.Settings
		return nil
	})
}

// PatchTenant changes the client's own tenant by a JSON merge patch (RFC 7386)
// of its parameters, which [EncodeJSON] reads (permission tenant:update).
func (c *Client) PatchTenant(ctx context.Context, patch any) (*Tenant, error) {
	if err := c.outsideTx("PatchTenant"); err != nil {
		return nil, err
	}
	op, err := c.begin(ctx, access.TenantUpdate)
	if err != nil {
		return nil, err
	}
	text, err := EncodeJSON(patch)
	if err != nil {
		return nil, err
	}
	return op.changeTenant(ctx, func(t *tenantDoc) error {
		var p TenantParams
		if err := mergeInto(&p, TenantParams{t.Name, t.Settings}, text); err != nil {
			return err
		}
		t.Name, t.Settings = p.Name, p.Settings
		return p.validate()
	})
}

// secretOverlap is how long callbacks are signed with the old secret too.
const secretOverlap = 24 * time.Hour

// RotateWebhookSecret gives the client's own tenant a new webhook secret
// (permission tenant:update). For 24 hours callbacks are signed with the old
// one as well, so that receivers can change over in their own time.
func (c *Client) RotateWebhookSecret(ctx context.Context) (*Tenant, error) {
	if err := c.outsideTx("RotateWebhookSecret"); err != nil {
		return nil, err
	}
	op, err := c.begin(ctx, access.TenantUpdate)
	if err != nil {
		return nil, err
	}
	return op.changeTenant(ctx, func(t *tenantDoc) error {
		t.OldSecret, t.OldSecretUntil = t.WebhookSecret, op.now.Add(secretOverlap)
		t.WebhookSecret = webhook.NewSecret()
		return nil
	})
}

// tenantDoc is a tenant as it is sealed.
type tenantDoc struct {
	Tenant
	OldSecret      string    `json:"old_webhook_secret,omitempty"`
	OldSecretUntil time.Time `json:"old_webhook_secret_until,omitzero"`

	rec storage.Record // that it was read from
}

// webhookSecrets returns the secrets that callbacks are signed with.
func (t *tenantDoc) webhookSecrets(now time.Time) []string {
	secrets := []string{t.WebhookSecret}
	if t.OldSecretUntil.After(now) {
		secrets = append(secrets, t.OldSecret)
	}
	return secrets
}

// newTenants returns what keeps the keys and documents of tenants.
func newTenants(v *Vault) *keyring.Cache[tenantDoc] {
	return keyring.New(keyring.Config[tenantDoc]{
		Store: v.store, Master: v.master, Missing: errNoTenant, Age: v.cfg.KeyAge,
		Decode: func(rec *storage.Record, plain []byte) (doc tenantDoc, err error) {
			err = decodeRecord(rec, plain, &doc)
			doc.ID, doc.rec = uuid.UUID(rec.ID), *rec
			doc.rec.Body = nil
			return doc, err
		},
	})
}

// changeTenant reads the client's own tenant, changes it and stores it.
func (op *operation) changeTenant(ctx context.Context, change func(*tenantDoc) error) (*Tenant, error) {
	defer op.afterwards(func() { op.v.tenants.Forget(op.tenant) })
	return retryStale(func() (*Tenant, error) {
		var err error
		if op.state, err = op.v.tenants.Reload(ctx, op.tenant); err != nil {
			return nil, err
		}
		t := op.state.Doc
		t.ModifiedAt = op.now
		if err := change(&t); err != nil {
			return nil, err
		}
		rec, err := op.tenantRecord(&t)
		if err != nil {
			return nil, err
		}
		ch := op.change()
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: t.rec.Rev, Record: rec}}
		ch.Logs = []storage.Log{op.entry(audit.Update, kindTenant, t.ID.String())}
		return &t.Tenant, op.write(ctx, ch)
	})
}

// tenantRecord seals a tenant. It keeps the key of the name that it was created
// under: a tenant can change its name by itself, and must not be taken for
// another one because of that.
func (op *operation) tenantRecord(t *tenantDoc) (storage.Record, error) {
	rec := storage.Record{Kind: kindTenant, ID: storage.ID(t.ID), Name: t.Name, AltKey: t.rec.AltKey, CreatedAt: t.CreatedAt}
	return rec, op.sealRecord(&rec, t)
}

// DeleteTenant deletes a tenant's keys, without which nothing opens what was
// sealed under them, and then its rows. If it is cut off in between, the next
// sweep deletes what is left.
//
// A copy of the database from before holds the keys, wrapped, so anyone who has it
// and the master key can still read it. For the data to be gone everywhere,
// such copies have to be gone, or the master key they were made under.
func (v *Vault) DeleteTenant(ctx context.Context, id uuid.UUID) error {
	_, err := retryStale(func() (struct{}, error) { return struct{}{}, v.dropTenant(ctx, id) })
	if err != nil {
		return err
	}
	v.tenants.Forget(id)
	v.tenants.Drop(id)
	v.forgetIdentities()
	return v.purge(ctx, storage.ID(id))
}

var errNoTenant = errorf(ErrNotFound, "There is no such tenant.")

func (v *Vault) dropTenant(ctx context.Context, id uuid.UUID) error {
	op := v.system(storage.ID(id))
	ch := op.change()
	for _, kind := range []string{kindTenant, kindRing} {
		recs, err := v.store.Records(ctx, storage.ID(id), kind, []storage.ID{storage.ID(id)})
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			return errNoTenant
		}
		ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: kind, ID: recs[0].ID, Rev: recs[0].Rev})
	}
	ch.InsertRecords = []storage.Record{{Kind: kindTombstone, ID: storage.ID(id), CreatedAt: op.now}}
	ch.Logs = []storage.Log{op.entry(audit.Delete, kindTenant, id.String())}
	return v.store.Write(ctx, ch)
}

// purge deletes the rows of a tenant whose keys are destroyed. Other nodes may
// not know of that yet and go on writing, so a record outside of the tenant
// makes sweeps look again, until no node can.
func (v *Vault) purge(ctx context.Context, tenant storage.ID) error {
	now := v.now()
	err := v.store.Write(ctx, &storage.Change{Now: now, InsertRecords: []storage.Record{{Kind: kindTombstone, ID: tenant, CreatedAt: now}}})
	if err != nil && !errors.Is(err, storage.ErrExists) {
		return err
	}
	return v.purgeRows(ctx, tenant)
}

func (v *Vault) purgeRows(ctx context.Context, tenant storage.ID) error {
	const chunk = 1000
	for {
		more, err := v.store.Purge(ctx, tenant, chunk)
		if err != nil || !more {
			return err
		}
	}
}
