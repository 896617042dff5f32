// Package applications manages the applications of a tenant, which hold API
// keys. It also explains what an application or a session may do, and why, by the
// same rules in the same order as the operation itself.
package applications

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

// Store creates and changes applications.
type Store struct{}

// Create creates an application with a key.
func (Store) Create(ctx context.Context, op *core.Op, p Params) (*Application, error) {
	app, err := build(op, p)
	if err != nil {
		return nil, err
	}
	return Records.Create(ctx, op, app)
}

// Ensure returns the application with the name of p. If it does not exist,
// Ensure creates it.
func (Store) Ensure(ctx context.Context, op *core.Op, p Params) (app *Application, created bool, err error) {
	return Records.Ensure(ctx, op, p.Name, access.ApplicationCreate, func() (*Application, error) { return build(op, p) })
}

// build returns an application that is not stored yet.
func build(op *core.Op, p Params) (*Application, error) {
	p, err := p.checked(op.Now, op.Vault.AllowPrivate)
	if err != nil {
		return nil, err
	}
	if err := mayGrant(op, p.Permissions); err != nil {
		return nil, err
	}
	app := &Application{
		ID: op.NewID(), TenantID: op.Tenant(), Name: p.Name, Type: p.Type,
		Permissions: p.Permissions, Rules: p.Rules, ExpiresAt: p.ExpiresAt, CreatedBy: op.Creator(), CreatedAt: op.Now,
	}
	app.setKey()
	return app, nil
}

// Own returns the application that the caller acts as.
func Own(ctx context.Context, op *core.Op) (*Application, error) {
	if op.Application() == nil {
		return nil, fault.New(fault.ErrNotFound, "the tenant itself is not an application")
	}
	return Records.Get(ctx, op, op.Application().ID)
}

// Replace replaces everything of an application except its type and key.
func (Store) Replace(ctx context.Context, op *core.Op, id uuid.UUID, p Params) (*Application, error) {
	var err error
	if p.Type == "" { // the allowed permissions depend on its current type
		err = p.checkPlain(op.Now)
	} else {
		p, err = p.checked(op.Now, op.Vault.AllowPrivate)
	}
	if err != nil {
		return nil, err
	}
	return update(ctx, op, id, func(old Params) (Params, error) {
		if p.Type != "" {
			return p, nil
		}
		whole := p
		whole.Type = old.Type
		return whole.checked(op.Now, op.Vault.AllowPrivate)
	})
}

// Patch changes an application by a JSON merge patch of its parameters.
func (Store) Patch(ctx context.Context, op *core.Op, id uuid.UUID, patch any) (*Application, error) {
	text, err := records.PatchText(patch)
	if err != nil {
		return nil, err
	}
	form := records.Form{Fields: fault.Fields}
	app, err := update(ctx, op, id, func(p Params) (Params, error) {
		var patched Params
		if err := form.Merge(&patched, p, text); err != nil {
			return p, err
		}
		if patched.Type != p.Type {
			return p, errTypeIsFixed() // the permissions of another type do not matter
		}
		return patched.checked(op.Now, op.Vault.AllowPrivate)
	})
	if errors.Is(err, fault.ErrNotFound) {
		var alone Params
		err = cmp.Or(form.Fault(text, &alone, func() error {
			_, err := alone.checked(op.Now, op.Vault.AllowPrivate)
			return err
		}), err)
	}
	return app, err
}

func errTypeIsFixed() error { return fault.Field("type", "cannot be changed") }

func update(ctx context.Context, op *core.Op, id uuid.UUID, change func(Params) (Params, error)) (*Application, error) {
	return save(ctx, op, id, "", func(app *Application) error {
		p, err := change(app.params())
		if err != nil {
			return err
		}
		if p.Type != app.Type {
			return errTypeIsFixed()
		}
		if err := mayGrant(op, p.Permissions); err != nil {
			return err
		}
		app.Name, app.Permissions, app.Rules, app.ExpiresAt = p.Name, p.Permissions, p.Rules, p.ExpiresAt
		return nil
	})
}

// save changes an application and clears this node's cached identities. If
// message is not empty, it is the message of the log entry.
func save(ctx context.Context, op *core.Op, id uuid.UUID, message string, change func(*Application) error) (*Application, error) {
	defer op.Afterwards(op.Vault.ForgetIdentities)
	return Records.UpdateAs(ctx, op, id, message, func(app *Application) error {
		if err := mayGrant(op, app.Permissions); err != nil {
			return err
		}
		return change(app)
	})
}

// RegenerateKey gives an application a new key.
func RegenerateKey(ctx context.Context, op *core.Op, id uuid.UUID) (*Application, error) {
	return save(ctx, op, id, audit.KeyRegenerated, func(app *Application) error {
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

// Delete deletes an application.
func (Store) Delete(ctx context.Context, op *core.Op, id uuid.UUID) error {
	defer op.Afterwards(op.Vault.ForgetIdentities)
	return Records.Delete(ctx, op, id, func(app *Application) error { return mayGrant(op, app.Permissions) })
}
