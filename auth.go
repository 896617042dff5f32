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

// Authenticate returns the client that an API key stands for: an application
// or a session. A key that is missing, malformed, unknown, expired or revoked
// gives ErrUnauthenticated. When the database does not answer, nobody gets in.
//
// A revoked key stops working at once on the node that revoked it and within a
// second on every other.
func (v *Vault) Authenticate(ctx context.Context, key string) (*Client, error) {
	if !apikey.Valid(key) {
		return nil, ErrUnauthenticated
	}
	return v.authenticate(ctx, apikey.Hash(key))
}

// authenticate finds the client of a key by its hash.
func (v *Vault) authenticate(ctx context.Context, key storage.Key) (*Client, error) {
	if v.closed.Load() {
		return nil, ErrClosed
	}
	id, known := v.auth.Get(key)
	if !known {
		reading := v.auth.Ask(key)
		var err error
		if id, err = v.identify(ctx, key); err != nil {
			return nil, err
		}
		if id.settled {
			reading.Keep(id)
		}
	}
	if !id.expiresAt.IsZero() && !id.expiresAt.After(v.now()) {
		return nil, ErrUnauthenticated
	}
	return id.client, nil
}

// identity is what is known of a key.
type identity struct {
	client    *Client
	expiresAt time.Time // the earliest end of all that the key depends on
	settled   bool      // false for a session that may yet be authorized
}

// identify reads whose key this is. The rights that a record holds are sealed
// under the key's own hash: a record that somebody put under another key does
// not open, and its key counts as unknown.
func (v *Vault) identify(ctx context.Context, key storage.Key) (*identity, error) {
	rec, err := v.store.Lookup(ctx, key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Key != key {
		return nil, ErrUnauthenticated // unknown, or a nonce sent as a key
	}
	if err != nil {
		return nil, err
	}
	state, err := v.tenants.Get(ctx, uuid.UUID(rec.Tenant))
	if errors.Is(err, ErrNotFound) {
		return nil, ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	op := &operation{v.Tenant(uuid.UUID(rec.Tenant)), state, v.now()}
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
	app, err := op.openApplication(ctx, rec)
	if err != nil {
		op.v.cfg.Logger.ErrorContext(ctx, "an application's record does not open", "tenant", op.tenant, "error", err)
		return nil, ErrUnauthenticated
	}
	c, err := op.v.clientOf(app)
	if err != nil {
		return nil, err
	}
	c.key = rec.Key
	id := &identity{client: c, settled: true}
	if app.ExpiresAt != nil {
		id.expiresAt = *app.ExpiresAt
	}
	return id, nil
}

func (op *operation) identifySession(ctx context.Context, rec *storage.Record) (*identity, error) {
	var s session
	if err := op.openRecord(ctx, rec, &s); err != nil {
		op.v.cfg.Logger.ErrorContext(ctx, "a session's record does not open", "tenant", op.tenant, "error", err)
		return nil, ErrUnauthenticated
	}
	app, err := op.application(ctx, s.Application)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrUnauthenticated // sessions end with their application
	}
	if err != nil {
		return nil, err
	}
	grant := new(access.Grant) // nothing, until somebody authorizes it
	if s.Authorized {
		if grant, err = access.New(accessRules(s.Rules), s.Permissions); err != nil {
			return nil, err
		}
	}
	id := &identity{settled: s.Authorized, expiresAt: rec.ExpiresAt}
	if app.ExpiresAt != nil && app.ExpiresAt.Before(id.expiresAt) {
		id.expiresAt = *app.ExpiresAt
	}
	id.client = &Client{v: op.v, tenant: op.tenant, grant: grant, permissions: s.Permissions, rules: s.Rules, key: rec.Key, app: app, session: uuid.UUID(rec.ID),
		creator: app.ID, actor: app.ID, actorType: actorApplication}
	return id, nil
}
