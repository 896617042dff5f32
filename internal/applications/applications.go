// Package applications manages the applications of a tenant, which hold API
// keys. It also explains what an application or a session may do, and why, by the
// same rules in the same order as the operation itself.
//
// It promises that no caller gets more rights through an application: to create, change
// or delete one, or to make a key for it, a caller must be able to grant all of its
// rights. A key is shown once, and only its hash is stored.
//
// It rests on package records for the stored form, on package access for the comparison
// of rights, and on package identity for the claims of workloads. Package core finds the
// application of a caller, and does so on each call: nothing here is copied into
// sessions or jobs.
//
// Begin with the collection and the checks in applications.go. Keys are in keys.go,
// and [Ask] in explain.go explains the rights of a caller.
package applications

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Application is a stored application. Package vault documents the fields.
type Application struct {
	ID          uuid.UUID           `json:"id"`
	TenantID    uuid.UUID           `json:"tenant_id"`
	Name        string              `json:"name,omitempty"`
	Type        string              `json:"type,omitempty"`
	Key         string              `json:"key,omitempty"` // known only when it is created
	Permissions []string            `json:"permissions,omitempty"`
	Rules       []access.Rule       `json:"rules,omitempty"`
	CreatedBy   uuid.UUID           `json:"created_by,omitzero"`
	CreatedAt   time.Time           `json:"created_at,omitzero"`
	ModifiedBy  uuid.UUID           `json:"modified_by,omitzero"`
	ModifiedAt  time.Time           `json:"modified_at,omitzero"`
	ExpiresAt   time.Time           `json:"expires_at,omitzero"`
	Identities  []identity.Identity `json:"identities,omitempty"`
	Hold        core.Hold           `json:"hold,omitempty"`
	Unreadable  bool                `json:"unreadable,omitempty"`

	keys       []core.Key
	generation int       // counts how often all keys were replaced
	keyID      uuid.UUID // of the first key of a new application
	keyedAt    time.Time // when all keys were last replaced; zero for CreatedAt
}

// document is the stored form of an application.
type document struct {
	plain
	Keys       []core.Key `json:"keys,omitempty"`
	Generation int        `json:"generation,omitempty"`
	KeyedAt    time.Time  `json:"keyed_at,omitzero"`
}

type plain Application

// UnmarshalJSON reads the stored form.
func (app *Application) UnmarshalJSON(text []byte) error {
	var doc document
	err := json.Unmarshal(text, &doc)
	*app = Application(doc.plain)
	app.keys, app.generation, app.keyedAt = doc.Keys, doc.Generation, doc.KeyedAt
	return err
}

// Records stores applications as records.
var Records = records.Kind[Application]{
	Name: seal.RecordKind(audit.Application),
	Columns: func(app *Application) storage.Record {
		rec := storage.Record{ID: storage.ID(app.ID), Name: app.Name, CreatedAt: app.CreatedAt}
		if len(app.Identities) > 0 { // the tenant of a JWT is not known
			rec.Key = core.ApplicationKey(app.ID)
		}
		return rec
	},
	Document: func(app *Application) any {
		doc := document{plain(*app), app.keys, app.generation, app.keyedAt}
		doc.Key = "" // only its hash is stored
		return &doc
	},
	Unreadable: func(rec *storage.Record) Application {
		return Application{ID: uuid.UUID(rec.ID), TenantID: uuid.UUID(rec.Tenant), CreatedAt: rec.CreatedAt, Unreadable: true}
	},
	Modified: func(app *Application, by uuid.UUID, at time.Time) { app.ModifiedBy, app.ModifiedAt = by, at },
	May:      func(op *core.Op, app *Application) error { return mayGrant(op, app.Permissions) },
	Changed:  func(op *core.Op) { op.Vault.ForgetIdentities() },
	Beside:   keyRows,
}

// params returns the parameters of the application.
func (app *Application) params() Params {
	return Params{Name: app.Name, Type: app.Type, Permissions: slices.Clone(app.Permissions), Rules: slices.Clone(app.Rules), ExpiresAt: app.ExpiresAt, Identities: identity.Clone(app.Identities)}
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
		return &Application{ID: op.NewID(), TenantID: op.Tenant(), CreatedBy: op.Creator(), CreatedAt: op.Now, keyID: op.NewID()}
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
	case old.Type != "" && p.CreateKey != nil:
		return fault.Field("create_key", "is only for a new application; keys are created with POST /applications/{id}/keys")
	}
	must := op.Vault.MustClaims
	if unknown || old.Type != "" && identity.Same(p.Identities, old.Identities) {
		must = nil // stored identities stay, even if the server no longer has the issuer
	}
	if *p, err = p.checked(op.Now, op.Vault.AllowPrivate, must); err != nil || unknown {
		return err
	}
	return cmp.Or(mayGrant(op, p.Permissions), maySignIn(op, p, old))
}

// maySignIn checks whether the caller may give an application another way to sign in.
// A caller with a JWT cannot make a key. A caller with a JWT or with a key that ends
// cannot change the identities of its application. Otherwise it could turn temporary
// access into permanent access.
func maySignIn(op *core.Op, p *Params, old *Application) error {
	switch {
	case old.Type == "" && (p.CreateKey == nil || *p.CreateKey):
		return mayMakeKey(op)
	case old.Type != "" && op.ApplicationID() == old.ID && op.ShortLived() != "" && !identity.Same(p.Identities, old.Identities):
		return fault.New(fault.ErrForbidden, "a caller with a JWT, or with a key that ends, cannot change the identities of its own application")
	}
	return nil
}

// mayMakeKey checks whether the caller may make a key, which the response then has.
func mayMakeKey(op *core.Op) error {
	if op.ByWorkload() {
		return fault.New(fault.ErrForbidden, "a caller with a JWT cannot make a key; a new application needs create_key false")
	}
	op.GivesKey()
	return nil
}

// set sets the fields of the application from parameters. A new application also
// gets its type and its key.
func (app *Application) set(p *Params) {
	app.Name, app.Permissions, app.Rules, app.ExpiresAt = p.Name, p.Permissions, p.Rules, p.ExpiresAt
	app.Identities = identity.Marked(p.Identities, app.Identities)
	if app.Type != "" {
		return
	}
	app.Type = p.Type
	if p.CreateKey == nil || *p.CreateKey {
		app.addKey(core.Key{ID: app.keyID, CreatedBy: app.CreatedBy, CreatedAt: app.CreatedAt})
	}
}

// Own returns the application that the caller acts as.
func Own(ctx context.Context, op *core.Op) (*Application, error) {
	if op.Application() == nil {
		return nil, fault.New(fault.ErrNotFound, "the tenant itself is not an application")
	}
	return Records.Get(ctx, op, op.Application().ID)
}
