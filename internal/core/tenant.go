package core

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

// Tenant is the document of a tenant, as it is sealed.
type Tenant struct {
	ID             uuid.UUID      `json:"id"`
	Name           string         `json:"name"`
	CreatedAs      string         `json:"created_as,omitempty"` // the first name
	Settings       TenantSettings `json:"settings"`
	WebhookSecret  string         `json:"webhook_secret,omitempty"`
	CreatedAt      time.Time      `json:"created_at,omitzero"`
	ModifiedAt     time.Time      `json:"modified_at,omitzero"`
	OldSecret      string         `json:"old_webhook_secret,omitempty"`
	OldSecretUntil time.Time      `json:"old_webhook_secret_until,omitzero"`

	// Unreadable is set in lists, for a tenant whose keys or document do not open.
	Unreadable bool `json:"-"`
	// Sealed is set if the tenant's own key is denied. Only ID, Name, CreatedAt and
	// Key are set then, from columns of the record.
	Sealed bool `json:"-"`
	// Key is the state of the tenant's own key; nil if it has none.
	Key *keyring.Status `json:"-"`
	// Record is the record that the tenant was read from, without its body.
	Record storage.Record `json:"-"`
}

// TenantSettings are defaults that a tenant sets for itself.
type TenantSettings struct {
	DeduplicateTokens bool `json:"deduplicate_tokens"`
}

// WebhookSecrets returns the secrets that callbacks are signed with.
func (t *Tenant) WebhookSecrets(now time.Time) []string {
	secrets := []string{t.WebhookSecret}
	if t.OldSecretUntil.After(now) {
		secrets = append(secrets, t.OldSecret)
	}
	return secrets
}

// State is the part of a tenant that an operation needs: keys and document.
type State = keyring.State[Tenant]

// newTenants returns the cache of keys and documents of tenants.
func (v *Vault) newTenants() *keyring.Cache[Tenant] {
	return keyring.New(keyring.Config[Tenant]{
		Store: v.Store, Root: v.Root, Missing: fault.ErrNoTenant, Age: v.ReadAge, Own: v.Own,
		Usable:  func() error { return v.Key.Usable() },
		Refused: func(tenant uuid.UUID) bool { return v.Ledger != nil && v.Ledger.Refuses(tenant) },
		Bad: func(ctx context.Context, tenant uuid.UUID, kind string, older bool, err error) error {
			name := AlarmUnreadable
			if older {
				name, err = AlarmRolledBack, fault.ErrAltered
			}
			return v.Alarm(ctx, name, tenant, Entity{Type: kind, ID: tenant.String()}, err)
		},
		Decode: func(rec *storage.Record, plain []byte) (doc Tenant, err error) {
			err = decodeRecord(rec, plain, &doc)
			doc.ID, doc.Record = uuid.UUID(rec.ID), *rec
			doc.Record.Body = nil
			return doc, err
		},
		Sealed: func(rec *storage.Record) Tenant {
			return Tenant{ID: uuid.UUID(rec.ID), Name: rec.Name, CreatedAt: rec.CreatedAt, Sealed: true}
		},
	})
}

func decodeRecord(rec *storage.Record, plain []byte, doc any) error {
	if err := json.Unmarshal(plain, doc); err != nil {
		// The text of err may quote a value, so it stays out of the message.
		return fmt.Errorf("vault: decode %s: %w", rec.Kind, errDocument)
	}
	return nil
}
