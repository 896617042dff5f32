package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
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
	Keys        []Key         `json:"keys,omitempty"`
	// Generation counts how often all keys were replaced.
	Generation int `json:"generation,omitempty"`
	// Identities are the workloads that may act as the application with a JWT.
	Identities []identity.Identity `json:"identities,omitempty"`
	Hold       Hold                `json:"hold,omitempty"`
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
// its authorizer, and what they showed to act: see [Identity.Credential]. Its rights are computed at each use from
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

// Authenticate returns the caller that an API key identifies, or the id of an
// application with a JWT after a colon.
func (v *Vault) Authenticate(ctx context.Context, key string) (Caller, error) {
	application, jwt, isJWT := splitJWT(key)
	if !isJWT && !ids.ValidKey(key) {
		return Caller{}, fault.ErrUnauthenticated
	}
	if err := v.Alive(); err != nil {
		return Caller{}, err
	}
	var who *principal
	var err error
	if isJWT {
		who, err = v.identifyWorkload(ctx, application, jwt)
	} else {
		who, err = v.holder(ctx, ids.HashKey(key))
	}
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
		if work := op.who.shown.workload; err == nil && work != nil {
			if who = who.shownBy(*work); who == nil {
				return fault.ErrUnauthenticated // the identity was removed
			}
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

// openApplication opens the record of an application that is about to act.
func (op *Op) openApplication(ctx context.Context, rec *storage.Record) (*Application, error) {
	app := &Application{}
	err := op.OpenRecord(ctx, rec, app)
	return app, cmp.Or(err, app.Hold.Err(audit.Application))
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
	case KindKey:
		return op.identifyKey(ctx, &rec)
	case audit.Session:
		return op.identifySession(ctx, &rec)
	default:
		return nil, fault.ErrUnauthenticated
	}
}

// identifyKey returns the application of a key, if the application has the key.
func (op *Op) identifyKey(ctx context.Context, rec *storage.Record) (*principal, error) {
	var doc KeyRecord
	err := op.OpenRecord(ctx, rec, &doc)
	if Unreadable(err) {
		op.Vault.Logger.ErrorContext(ctx, "the record of an API key cannot be decrypted", "tenant", op.Tenant(), "error", err)
		return nil, fault.ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	app, err := op.readApplication(ctx, doc.Application)
	i := -1
	if app != nil {
		i = slices.IndexFunc(app.Keys, func(k Key) bool { return k.ID == uuid.UUID(rec.ID) && k.Hash == rec.Key })
	}
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && i < 0:
		return nil, fault.ErrUnauthenticated // deleted since the lookup
	case errors.Is(err, fault.ErrForbidden) && i >= 0:
		return nil, err // it is suspended
	case Unreadable(err), errors.Is(err, fault.ErrForbidden):
		op.Vault.Logger.ErrorContext(ctx, "an application's record cannot be decrypted", "tenant", op.Tenant(), "error", err)
		return nil, fault.ErrUnauthenticated
	case err != nil:
		return nil, err
	}
	who, err := app.principal()
	if err != nil {
		return nil, err
	}
	who.key, who.shown.key = rec.Key, app.Keys[i]
	who.endBy(app.Keys[i].ExpiresAt)
	if op.tx == nil && who.live(op.Now) == nil {
		op.Vault.revisions.noteKey(rec.Key, recordKey{op.TenantID(), storage.ID(app.ID), audit.Application})
		op.Vault.noteUse(op.Tenant(), app.Keys[i].ID, doc.UsedAt, op.Now)
	}
	return who, nil
}

// readApplication reads an application that is about to act. For a suspended
// application it returns the error as well.
func (op *Op) readApplication(ctx context.Context, id uuid.UUID) (*Application, error) {
	rec, err := op.Record(ctx, audit.Application, id)
	if err != nil {
		return nil, err
	}
	return op.openApplication(ctx, rec)
}

func (op *Op) identifySession(ctx context.Context, rec *storage.Record) (*principal, error) {
	var s Session
	err := op.OpenRecord(ctx, rec, &s)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fault.ErrUnauthenticated // ended since the lookup
	}
	if err != nil {
		op.Vault.Logger.ErrorContext(ctx, "a session's record cannot be decrypted", "tenant", op.Tenant(), "error", err)
		return nil, fault.ErrUnauthenticated
	}
	app, end, err := op.KeyHolder(ctx, s.Application, s.ApplicationKey)
	if err != nil {
		return nil, err
	}
	who := &principal{
		tenant: op.Tenant(), grant: new(access.Grant), rights: s.Rights, key: rec.Key, app: app,
		session: uuid.UUID(rec.ID), unauthorized: !s.Authorized, workload: strings.HasPrefix(s.AuthorizerKey, identityMark),
	}
	who.endBy(rec.ExpiresAt)
	who.endBy(end)
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
	authorizer, end, err := op.KeyHolder(ctx, s.AuthorizedBy, s.AuthorizerKey)
	if err != nil {
		return nil, err
	}
	who.endBy(end)
	now, err := access.New(authorizer.Rules, authorizer.Permissions)
	if err != nil {
		return nil, err
	}
	return grant.DelegatedBy(now), nil
}

// KeyHolder returns an application that still has the credential with a mark, and
// when the first of the two expires. Otherwise it returns ErrUnauthenticated.
func (op *Op) KeyHolder(ctx context.Context, id uuid.UUID, mark string) (*Application, time.Time, error) {
	app, err := op.readApplication(ctx, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, time.Time{}, fault.ErrUnauthenticated
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	end, ok := app.holds(mark)
	if !ok {
		return nil, time.Time{}, fault.ErrUnauthenticated
	}
	who := principal{expiresAt: end}
	who.endBy(app.ExpiresAt)
	return app, who.expiresAt, nil
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
