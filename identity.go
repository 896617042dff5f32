package vault

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/storage"
)

// renewRights gives the operation the rights that its client has at this moment.
func (op *operation) renewRights(ctx context.Context) error {
	c := op.Client
	switch {
	case !c.key.IsZero():
		now, err := c.v.authenticate(ctx, c.key, c.tx)
		if err != nil {
			return err
		}
		op.Client = c.renewed(now)
	case c.app != nil:
		id, err := op.follow(ctx, c.app.ID)
		if errors.Is(err, ErrNotFound) {
			return ErrUnauthenticated // the application is gone
		}
		if err != nil {
			return err
		}
		op.Client = c.renewed(id.client)
	}
	return nil
}

// renewed returns what the client follows as it is now, at work where c is.
func (c *Client) renewed(now *Client) *Client {
	if c.pending == nil && c.tx == nil && c.actorType != ActorUser && !c.scripted && c.limit == nil {
		return now
	}
	fresh := *now
	fresh.pending, fresh.tx, fresh.scripted, fresh.limit, fresh.masked = c.pending, c.tx, c.scripted, c.limit, c.masked
	if c.limit != nil {
		fresh.grant = now.grant.Under(c.limit)
	}
	if c.actorType == ActorUser {
		fresh.creator, fresh.actor, fresh.actorType, fresh.actorName = c.creator, c.actor, c.actorType, c.actorName
	}
	return &fresh
}

// Authenticate returns the client that an API key stands for: an application
// or a session. A key that is missing, malformed, unknown, expired or revoked
// gives ErrUnauthenticated. When the database does not answer, no key works.
//
// A revoked key stops working at once on the node that revoked it and within a
// second on every other.
func (v *Vault) Authenticate(ctx context.Context, key string) (*Client, error) {
	if !apikey.Valid(key) {
		return nil, ErrUnauthenticated
	}
	return v.authenticate(ctx, apikey.Hash(key), nil)
}

// authenticate finds the client of a key by its hash. What is read in a
// transaction of the application, unless that is nil, is not remembered.
func (v *Vault) authenticate(ctx context.Context, key storage.Key, tx *txWork) (*Client, error) {
	if v.closed.Load() {
		return nil, ErrClosed
	}
	var id *identity
	var err error
	if tx != nil {
		id, err = v.identify(ctx, key, tx)
	} else {
		id, err = v.identity(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	if err := id.live(v.now()); err != nil {
		return nil, err
	}
	return id.client, nil
}

// identity returns what is known of a key, for up to a second.
func (v *Vault) identity(ctx context.Context, key storage.Key) (*identity, error) {
	if id, known := v.auth.Get(key); known {
		return id, nil
	}
	reading := v.auth.Ask(key)
	id, err := v.identify(ctx, key, nil)
	if err == nil && id.settled {
		reading.Keep(id)
	}
	return id, err
}

// identity is what is known of a key or an application.
type identity struct {
	client    *Client
	expiresAt time.Time // the earliest end of all that it depends on
	settled   bool      // false for a session that may yet be authorized
}

// endBy notes an end of something that the identity depends on.
func (id *identity) endBy(end time.Time) {
	if !end.IsZero() && (id.expiresAt.IsZero() || end.Before(id.expiresAt)) {
		id.expiresAt = end
	}
}

// live returns ErrUnauthenticated once the identity has expired.
func (id *identity) live(now time.Time) error {
	if !id.expiresAt.IsZero() && !id.expiresAt.After(now) {
		return ErrUnauthenticated
	}
	return nil
}

// appKey names an application among those of all tenants.
type appKey struct{ tenant, id uuid.UUID }

// follow returns an application of the tenant as an identity. It is used for up
// to a second, but not beyond a change that this node made.
func (op *operation) follow(ctx context.Context, application uuid.UUID) (*identity, error) {
	key := appKey{op.tenant, application}
	id, known := op.v.apps.Get(key)
	if !known || op.tx != nil {
		reading := op.v.apps.Ask(key)
		var err error
		if id, err = op.readApplication(ctx, application); err != nil {
			return nil, err
		}
		if op.tx == nil { // else it may be rolled back
			reading.Keep(id)
		}
	}
	return id, id.live(op.v.now())
}

// asTenant returns an operation of the tenant itself, where the client is at work.
func (c *Client) asTenant(ctx context.Context) (*operation, error) {
	tenant := c.at(c.v.Tenant(c.tenant))
	state, err := tenant.keys(ctx, false)
	return &operation{tenant, state, c.v.now()}, err
}

// readApplication reads an application as an identity.
func (c *Client) readApplication(ctx context.Context, application uuid.UUID) (*identity, error) {
	op, err := c.asTenant(ctx)
	if err != nil {
		return nil, err
	}
	app, err := applications.read(ctx, op, application)
	if err != nil {
		return nil, err
	}
	is, err := c.v.clientOf(app)
	if err != nil {
		return nil, err
	}
	id := &identity{client: is, settled: true}
	id.endBy(app.ExpiresAt)
	return id, nil
}

// forgetIdentities makes this node read every identity again.
func (v *Vault) forgetIdentities() {
	v.auth.Clear()
	v.apps.Clear()
}

// identify reads whose key this is. The rights that a record holds are sealed
// under the key's own hash: a record that was moved to another key does not
// open, and that key counts as unknown.
func (v *Vault) identify(ctx context.Context, key storage.Key, tx *txWork) (*identity, error) {
	rec, err := (&Client{v: v, tx: tx}).db().Lookup(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Key != key {
		return nil, ErrUnauthenticated // unknown, or a nonce sent as a key
	}
	if err != nil {
		return nil, err
	}
	op, err := (&Client{v: v, tenant: uuid.UUID(rec.Tenant), tx: tx}).asTenant(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	switch rec.Kind {
	case kindApplication:
		return op.identifyApplication(ctx, &rec)
	case kindSession:
		return op.identifySession(ctx, &rec)
	default:
		return nil, ErrUnauthenticated
	}
}

func (op *operation) identifyApplication(ctx context.Context, rec *storage.Record) (*identity, error) {
	app, err := applications.open(ctx, op, rec)
	if err != nil {
		op.v.cfg.Logger.ErrorContext(ctx, "an application's record cannot be decrypted", "tenant", op.tenant, "error", err)
		return nil, ErrUnauthenticated
	}
	c, err := op.v.clientOf(app)
	if err != nil {
		return nil, err
	}
	c.key = rec.Key
	id := &identity{client: c, settled: true}
	id.endBy(app.ExpiresAt)
	return id, nil
}

func (op *operation) identifySession(ctx context.Context, rec *storage.Record) (*identity, error) {
	var s session
	if err := op.openRecord(ctx, rec, &s); err != nil {
		op.v.cfg.Logger.ErrorContext(ctx, "a session's record cannot be decrypted", "tenant", op.tenant, "error", err)
		return nil, ErrUnauthenticated
	}
	app, err := op.keyHolder(ctx, s.Application, s.ApplicationKey)
	if err != nil {
		return nil, err
	}
	id := &identity{settled: s.Authorized}
	id.endBy(rec.ExpiresAt)
	id.endBy(app.ExpiresAt)
	grant := new(access.Grant) // nothing, until the session is authorized
	if s.Authorized {
		if grant, err = op.sessionGrant(ctx, &s, id); err != nil {
			return nil, err
		}
	}
	id.client = &Client{v: op.v, tenant: op.tenant, grant: grant, permissions: s.Permissions, rules: s.Rules, key: rec.Key, app: app, session: uuid.UUID(rec.ID),
		creator: app.ID, actor: app.ID, actorType: ActorApplication}
	return id, nil
}

// sessionGrant returns what a session may do now: what it was granted, as far as
// its authorizer could grant it at this moment. It ends with its authorizer.
func (op *operation) sessionGrant(ctx context.Context, s *session, id *identity) (*access.Grant, error) {
	grant, err := access.New(accessRules(s.Rules), texts(s.Permissions))
	if err != nil || s.AuthorizerKey == "" {
		return grant, err // the tenant itself may grant everything
	}
	authorizer, err := op.keyHolder(ctx, s.AuthorizedBy, s.AuthorizerKey)
	if err != nil {
		return nil, err
	}
	id.endBy(authorizer.ExpiresAt)
	now, err := access.New(accessRules(authorizer.Rules), texts(authorizer.Permissions))
	if err != nil {
		return nil, err
	}
	return grant.DelegatedBy(now), nil
}

// keyHolder returns an application, while it has the key that it had when it
// made or authorized a session; else ErrUnauthenticated.
func (op *operation) keyHolder(ctx context.Context, id uuid.UUID, mark string) (*Application, error) {
	app, err := applications.read(ctx, op, id)
	if errors.Is(err, ErrNotFound) || err == nil && app.keyMark() != mark {
		return nil, ErrUnauthenticated
	}
	return app, err
}
