package core

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/storage"
)

// Application is the part of an application that decides identity and rights. It
// is read from the application's record.
type Application struct {
	ID          uuid.UUID     `json:"id"`
	TenantID    uuid.UUID     `json:"tenant_id"`
	Type        string        `json:"type"`
	Permissions []string      `json:"permissions,omitempty"`
	Rules       []access.Rule `json:"rules,omitempty"`
	ExpiresAt   time.Time     `json:"expires_at,omitzero"`

	key storage.Key
}

// KeyMark identifies the current key of the application. A new key has another mark.
func (a *Application) KeyMark() string { return hex.EncodeToString(a.key[:]) }

// Expired reports whether the application has expired.
func (a *Application) Expired(now time.Time) bool {
	return !a.ExpiresAt.IsZero() && !a.ExpiresAt.After(now)
}

// principal returns the application as the principal of an identity.
func (a *Application) principal() (*principal, error) {
	grant, err := access.New(a.Rules, a.Permissions)
	if err != nil {
		return nil, fmt.Errorf("vault: application %s: %w", a.ID, err)
	}
	p := &principal{tenant: a.TenantID, grant: grant, rights: Rights{a.Permissions, a.Rules}, app: a}
	p.endBy(a.ExpiresAt)
	return p, nil
}

// Session is the document of a session, as it is sealed. It names its creator and
// its authorizer, and the keys they used. Its rights are computed at each use from
// the current rights of the authorizer.
type Session struct {
	Application    uuid.UUID `json:"application"`
	ApplicationKey string    `json:"application_key"`
	Authorized     bool      `json:"authorized"`
	AuthorizedBy   uuid.UUID `json:"authorized_by,omitzero"`   // an application, or the tenant itself
	AuthorizerKey  string    `json:"authorizer_key,omitempty"` // empty for the tenant itself
	Rights
}

// appKey is the key of the cache of applications.
type appKey struct{ tenant, id uuid.UUID }

// Authenticate returns the caller that an API key identifies.
func (v *Vault) Authenticate(ctx context.Context, key string) (Caller, error) {
	if !ids.ValidKey(key) {
		return Caller{}, fault.ErrUnauthenticated
	}
	if err := v.Alive(); err != nil {
		return Caller{}, err
	}
	who, err := v.holder(ctx, ids.HashKey(key))
	if err != nil {
		return Caller{}, err
	}
	return Caller{Vault: v, Identity: Identity{who: who, grant: who.grant}}, who.live(v.Now())
}

// renew gives the operation the current rights of its identity. It keeps an
// identity that was read less than a second ago, unless this node has revoked
// something since. So a request authenticates once.
func (op *Op) renew(ctx context.Context) error {
	who := op.who
	if who.key.IsZero() && who.app == nil {
		return nil
	}
	at := op
	if op.tx != nil {
		at = op.forIdentity(who.app.ID, who.session)
	}
	var err error
	switch {
	case who.read.Fresh() && at.tx == nil:
		return who.live(op.Vault.Now())
	case who.key.IsZero():
		who, err = at.follow(ctx, who.app.ID)
		if errors.Is(err, fault.ErrNotFound) {
			return fault.ErrUnauthenticated // the application was deleted
		}
	case at.tx != nil: // reads of a transaction are not cached
		who, err = op.Vault.identify(ctx, who.key, at.Unit)
	default:
		who, err = op.Vault.holder(ctx, who.key)
	}
	if err != nil {
		return err
	}
	op.Identity = op.renewed(who)
	return who.live(op.Vault.Now())
}

// holder returns the holder of a key. The result is cached for up to a second.
func (v *Vault) holder(ctx context.Context, key storage.Key) (*principal, error) {
	if who, known := v.auth.Get(key); known {
		return who, nil
	}
	reading := v.auth.Ask(key)
	who, err := v.identify(ctx, key, Unit{})
	if err == nil && !who.unauthorized {
		who.read = reading.Stamp
		reading.Keep(who)
	}
	return who, err
}

// follow returns an application of the tenant. The result is cached for up to a
// second, and no longer than until this node changes an application.
func (op *Op) follow(ctx context.Context, application uuid.UUID) (*principal, error) {
	key := appKey{op.Tenant(), application}
	if who, known := op.Vault.apps.Get(key); known && op.tx == nil {
		return who, nil
	}
	reading := op.Vault.apps.Ask(key)
	app, err := op.application(ctx, application)
	if err != nil {
		return nil, err
	}
	who, err := app.principal()
	if err == nil && op.tx == nil { // a transaction may be rolled back
		who.read = reading.Stamp
		reading.Keep(who)
	}
	return who, err
}

// As returns an application of the tenant as an identity. It returns
// ErrUnauthenticated for an expired application.
func (op *Op) As(ctx context.Context, application uuid.UUID) (Identity, error) {
	who, err := op.forIdentity(application).follow(ctx, application)
	if err != nil {
		return Identity{}, err
	}
	return Identity{who: who, grant: who.grant, origin: op.origin}, who.live(op.Vault.Now())
}

// ForgetIdentities makes this node read every identity again.
func (v *Vault) ForgetIdentities() {
	v.auth.Clear()
	v.apps.Clear()
}

// asTenant returns an operation of the tenant itself, in the caller's unit of work.
func (c Caller) asTenant(ctx context.Context, tenant uuid.UUID) (*Op, error) {
	op := &Op{Caller: c.At(Owner(tenant)), Now: c.Vault.Now()}
	return op, op.refresh(ctx, true)
}

// application reads an application for the vault's own use.
func (op *Op) application(ctx context.Context, id uuid.UUID) (*Application, error) {
	own, err := op.asTenant(ctx, op.Tenant())
	if err != nil {
		return nil, err
	}
	rec, err := own.Record(ctx, audit.Application, id)
	if err != nil {
		return nil, err
	}
	return own.openApplication(ctx, rec)
}

func (op *Op) openApplication(ctx context.Context, rec *storage.Record) (*Application, error) {
	app := &Application{}
	err := op.OpenRecord(ctx, rec, app)
	app.key = rec.Key
	return app, err
}

// identify reads the holder of a key. A record is sealed under the hash of its
// key. A record that was moved to another key cannot be decrypted, and that key
// counts as unknown.
func (v *Vault) identify(ctx context.Context, key storage.Key, unit Unit) (*principal, error) {
	c := Caller{Vault: v, Unit: unit}
	rec, err := Lookup(ctx, c.DB(), key)
	if errors.Is(err, storage.ErrNotFound) && unit.tx == nil {
		err = cmp.Or(v.noteMissing(ctx, key), err)
	}
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fault.ErrAltered) || err == nil && rec.Key != key {
		return nil, fault.ErrUnauthenticated // unknown, or a nonce sent as a key
	}
	if err != nil {
		return nil, err
	}
	op, err := c.asTenant(ctx, uuid.UUID(rec.Tenant))
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	switch rec.Kind {
	case audit.Application:
		return op.identifyApplication(ctx, &rec)
	case audit.Session:
		return op.identifySession(ctx, &rec)
	default:
		return nil, fault.ErrUnauthenticated
	}
}

func (op *Op) identifyApplication(ctx context.Context, rec *storage.Record) (*principal, error) {
	key := rec.Key
	app, err := op.openApplication(ctx, rec)
	if err != nil {
		op.Vault.Logger.ErrorContext(ctx, "an application's record cannot be decrypted", "tenant", op.Tenant(), "error", err)
		return nil, fault.ErrUnauthenticated
	}
	if rec.Key != key {
		return nil, fault.ErrUnauthenticated // the key was regenerated after the lookup
	}
	who, err := app.principal()
	if err != nil {
		return nil, err
	}
	who.key = key
	if op.tx == nil {
		op.Vault.revisions.noteKey(key, recordKey{op.TenantID(), rec.ID, rec.Kind})
	}
	return who, nil
}

func (op *Op) identifySession(ctx context.Context, rec *storage.Record) (*principal, error) {
	var s Session
	if err := op.OpenRecord(ctx, rec, &s); err != nil {
		op.Vault.Logger.ErrorContext(ctx, "a session's record cannot be decrypted", "tenant", op.Tenant(), "error", err)
		return nil, fault.ErrUnauthenticated
	}
	app, err := op.KeyHolder(ctx, s.Application, s.ApplicationKey)
	if err != nil {
		return nil, err
	}
	who := &principal{
		tenant: op.Tenant(), grant: new(access.Grant), rights: s.Rights, key: rec.Key, app: app,
		session: uuid.UUID(rec.ID), unauthorized: !s.Authorized,
	}
	who.endBy(rec.ExpiresAt)
	who.endBy(app.ExpiresAt)
	if s.Authorized {
		who.grant, err = op.sessionGrant(ctx, &s, who)
	}
	return who, err
}

// IdentifySession returns the session of a record as an identity. It returns
// ErrUnauthenticated if the session ended with its application or its authorizer.
func (op *Op) IdentifySession(ctx context.Context, rec *storage.Record) (Identity, error) {
	who, err := op.identifySession(ctx, rec)
	if err != nil {
		return Identity{}, err
	}
	return Identity{who: who, grant: who.grant}, who.live(op.Now)
}

// sessionGrant returns the current rights of a session: the rights it was granted,
// limited to the rights its authorizer has now. A session ends with its authorizer.
func (op *Op) sessionGrant(ctx context.Context, s *Session, who *principal) (*access.Grant, error) {
	grant, err := access.New(s.Rules, s.Permissions)
	if err != nil || s.AuthorizerKey == "" {
		return grant, err // the tenant itself may grant everything
	}
	authorizer, err := op.KeyHolder(ctx, s.AuthorizedBy, s.AuthorizerKey)
	if err != nil {
		return nil, err
	}
	who.endBy(authorizer.ExpiresAt)
	now, err := access.New(authorizer.Rules, authorizer.Permissions)
	if err != nil {
		return nil, err
	}
	return grant.DelegatedBy(now), nil
}

// KeyHolder returns an application if its current key has the mark, and otherwise
// ErrUnauthenticated.
func (op *Op) KeyHolder(ctx context.Context, id uuid.UUID, mark string) (*Application, error) {
	rec, err := op.Record(ctx, audit.Application, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	app, err := op.openApplication(ctx, rec)
	if err == nil && app.KeyMark() != mark {
		return nil, fault.ErrUnauthenticated
	}
	return app, err
}

// Holder reads an application as an identity, whether it has expired or not.
func (op *Op) Holder(ctx context.Context, application uuid.UUID) (Identity, error) {
	app, err := op.application(ctx, application)
	if err != nil {
		return Identity{}, err
	}
	who, err := app.principal()
	if err != nil {
		return Identity{}, err
	}
	return Identity{who: who, grant: who.grant}, nil
}
