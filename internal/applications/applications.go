// Package applications manages the applications of a tenant, which hold API
// keys. It also explains what an application or a session may do, and why, by the
// same rules in the same order as the operation itself.
package applications

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/storage"
)

// Application is a stored application. Package vault documents the fields.
type Application struct {
	ID          uuid.UUID     `json:"id"`
	TenantID    uuid.UUID     `json:"tenant_id"`
	Name        string        `json:"name,omitempty"`
	Type        string        `json:"type,omitempty"`
	Key         string        `json:"key,omitempty"` // known only when it is created
	Permissions []string      `json:"permissions,omitempty"`
	Rules       []access.Rule `json:"rules,omitempty"`
	CreatedBy   uuid.UUID     `json:"created_by,omitzero"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID     `json:"modified_by,omitzero"`
	ModifiedAt  time.Time     `json:"modified_at,omitzero"`
	ExpiresAt   time.Time     `json:"expires_at,omitzero"`
	Unreadable  bool          `json:"unreadable,omitempty"`

	hash    storage.Key
	keyedAt time.Time // when the application got its key; zero for CreatedAt
}

// document is the stored form of an application.
type document struct {
	plain
	KeyedAt time.Time `json:"keyed_at,omitzero"`
}

type plain Application

// UnmarshalJSON reads the stored form.
func (app *Application) UnmarshalJSON(text []byte) error {
	var doc document
	err := json.Unmarshal(text, &doc)
	*app = Application(doc.plain)
	app.keyedAt = doc.KeyedAt
	return err
}

// Records stores applications as records.
var Records = records.Kind[Application]{
	Name: audit.Application,
	Columns: func(app *Application) storage.Record {
		return storage.Record{ID: storage.ID(app.ID), Name: app.Name, Key: app.hash, CreatedAt: app.CreatedAt}
	},
	Document: func(app *Application) any {
		doc := document{plain(*app), app.keyedAt}
		doc.Key = "" // only its hash is stored
		return &doc
	},
	Opened: func(app *Application, rec *storage.Record) { app.hash = rec.Key },
	Unreadable: func(rec *storage.Record) Application {
		return Application{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(app *Application, by uuid.UUID, at time.Time) { app.ModifiedBy, app.ModifiedAt = by, at },
	May:      func(op *core.Op, app *Application) error { return mayGrant(op, app.Permissions) },
	Changed:  func(op *core.Op) { op.Vault.ForgetIdentities() },
}

// params returns the parameters of the application.
func (app *Application) params() Params {
	return Params{app.Name, app.Type, slices.Clone(app.Permissions), slices.Clone(app.Rules), app.ExpiresAt}
}

// setKey gives the application a new key.
func (app *Application) setKey() {
	kinds := map[string]string{
		string(access.Public): ids.PublicKey, string(access.Private): ids.PrivateKey, string(access.Management): ids.ManagementKey,
	}
	app.Key = ids.NewKey(kinds[app.Type])
	app.hash = ids.HashKey(app.Key)
}

// mayGrant checks whether the caller may give permissions to an application,
// or change an application that has them. Otherwise it could take over or
// disable an application with more rights. Permissions on tokens come with
// the right to manage applications. Any other permission can be granted only
// by a caller that has it.
func mayGrant(op *core.Op, permissions []string) error {
	for _, p := range permissions {
		if !op.Grant().MayGrant(p) {
			return fault.New(fault.ErrForbidden, "permission %s required to grant it, or to change an application that holds it", p)
		}
	}
	return nil
}

// All creates and changes applications.
var All = &records.Collection[Application, Params, *Params]{
	Kind: &Records, Right: access.ApplicationCreate,
	Name:   func(p *Params) string { return p.Name },
	Checks: []func(context.Context, *core.Op, *Params, *Application) error{check},
	New: func(op *core.Op) *Application {
		return &Application{ID: op.NewID(), TenantID: op.Tenant(), CreatedBy: op.Creator(), CreatedAt: op.Now}
	},
	Params: (*Application).params, Set: (*Application).set,
	Keep: func(p *Params, app *Application) { p.Type = cmp.Or(p.Type, app.Type) },
}

// check checks parameters. The permissions that are allowed depend on the type,
// which a replacement may leave out, and which cannot change.
func check(_ context.Context, op *core.Op, p *Params, old *Application) (err error) {
	unknown := old.ID == uuid.UUID{}
	switch {
	case unknown && p.Type == "":
		return p.checkPlain(op.Now)
	case old.Type != "" && p.Type != old.Type:
		return fault.Field("type", "cannot be changed")
	}
	if *p, err = p.checked(op.Now, op.Vault.AllowPrivate); err != nil || unknown {
		return err
	}
	return mayGrant(op, p.Permissions)
}

// set sets the fields of the application from parameters. A new application also
// gets its type and its key.
func (app *Application) set(p *Params) {
	app.Name, app.Permissions, app.Rules, app.ExpiresAt = p.Name, p.Permissions, p.Rules, p.ExpiresAt
	if app.Type == "" {
		app.Type = p.Type
		app.setKey()
	}
}

// Own returns the application that the caller acts as.
func Own(ctx context.Context, op *core.Op) (*Application, error) {
	if op.Application() == nil {
		return nil, fault.New(fault.ErrNotFound, "the tenant itself is not an application")
	}
	return Records.Get(ctx, op, op.Application().ID)
}

// RegenerateKey gives an application a new key.
func RegenerateKey(ctx context.Context, op *core.Op, id uuid.UUID) (*Application, error) {
	return Records.Update(ctx, op, id, audit.KeyRegenerated, func(app *Application) error {
		app.setKey()
		app.keyedAt = op.Now
		return nil
	})
}

// HasKeySince reports whether an application got its key at a time or later.
func (app *Application) HasKeySince(t time.Time) bool {
	keyed := app.keyedAt
	if keyed.IsZero() {
		keyed = app.CreatedAt
	}
	return !keyed.Before(t)
}
