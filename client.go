package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/apikey"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// Client is an identity at work in a vault: a tenant, one of its applications,
// or a session. Its methods are the operations of the vault, each limited to
// what the identity may do and entered in the audit log.
//
// A Client is cheap, holds no connection, and need not be closed. One that
// came from [Vault.Authenticate] follows its key: when the key is revoked or
// expires, its operations fail with ErrUnauthenticated.
type Client struct {
	v      *Vault
	tenant uuid.UUID
	grant  *access.Grant
	// What grant was made of, unless it is that of the embedding program.
	permissions []string
	rules       []AccessRule

	key     storage.Key  // the API key this client follows; zero for none
	app     *Application // nil for the tenant itself
	session uuid.UUID    // zero unless the key is a session's
	proxy   uuid.UUID    // zero unless the client is a ProxyCaller

	creator   uuid.UUID // stands in created_by and modified_by
	actor     uuid.UUID // stands in log entries; zero for the tenant itself
	actorType string

	pending *pendingWrites // inside Once: writes wait here for the answer

	scripted bool // running code asks
}

// trusted is the grant of the embedding program.
var trusted = access.Unlimited()

// TenantID returns the tenant that the client belongs to.
func (c *Client) TenantID() uuid.UUID { return c.tenant }

// ApplicationID returns the application that the client acts as, or a zero id
// when it is the tenant itself.
func (c *Client) ApplicationID() uuid.UUID {
	if c.app == nil {
		return uuid.UUID{}
	}
	return c.app.ID
}

// ProxyID returns the proxy that a [Vault.ProxyCaller] calls, or a zero id for
// every other client.
func (c *Client) ProxyID() uuid.UUID { return c.proxy }

// AsUser returns a client that acts for a user of the embedding program: log
// entries and created_by carry the user's id. Its rights are those of c.
func (c *Client) AsUser(user uuid.UUID) *Client {
	u := *c
	u.creator, u.actor, u.actorType = user, user, actorUser
	return &u
}

// As returns a client that acts as an application of the tenant, with the
// application's rights and no more. Only the tenant itself may do this.
//
// The rights are those that the application has now. Unlike a client from
// [Vault.Authenticate], this one does not learn when they change, or when the
// application is deleted or expires: ask for a new one for each piece of work.
func (c *Client) As(ctx context.Context, application uuid.UUID) (*Client, error) {
	op, err := c.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	if c.grant != trusted {
		return nil, errorf(ErrForbidden, "Only the tenant itself may act as one of its applications.")
	}
	app, err := applications.read(ctx, op, application)
	if err != nil {
		return nil, err
	}
	if app.expired(op.now) {
		return nil, ErrUnauthenticated
	}
	return c.v.clientOf(app)
}

// clientOf returns a client with the rights of an application.
func (v *Vault) clientOf(app *Application) (*Client, error) {
	grant, err := access.New(accessRules(app.Rules), app.Permissions)
	if err != nil {
		return nil, fmt.Errorf("vault: application %s: %w", app.ID, err)
	}
	return &Client{v: v, tenant: app.TenantID, grant: grant, permissions: app.Permissions, rules: app.Rules, app: app,
		creator: app.ID, actor: app.ID, actorType: actorApplication}, nil
}

// Check reports whether the client holds a permission on anything at all:
// nil, ErrForbidden, or ErrUnauthenticated when its key has died. Whether it
// extends to a certain token is found out by the operation. [CreateSessions]
// and [AuthorizeSessions] can be asked for like permissions.
func (c *Client) Check(ctx context.Context, permission string) error {
	may, ofKind := sessionRights[permission]
	if ofKind {
		permission = ""
	}
	op, err := c.begin(ctx, permission)
	if err != nil || !ofKind {
		return err
	}
	return may(op)
}

// operation is one operation of a client in progress: whose it is, the keys it
// works with, and when it began.
type operation struct {
	*Client
	state *keyring.State[tenantDoc]
	now   time.Time
}

// begin opens an operation: it finds out whether the client's key is still
// good, whether it carries the permission at all (none is asked for with ""),
// and under which keys the tenant's data is sealed.
//
// It is so small that it is inlined: the call is then on the caller's stack.
func (c *Client) begin(ctx context.Context, permission string) (*operation, error) {
	op := &operation{Client: c}
	return op, op.admit(ctx, permission)
}

func (op *operation) admit(ctx context.Context, permission string) error {
	if op.v.closed.Load() {
		return ErrClosed // though what the caches hold would do for some operations
	}
	if c := op.Client; !c.key.IsZero() {
		now, err := c.v.authenticate(ctx, c.key)
		if err != nil {
			return err
		}
		op.Client = c.renewed(now)
	}
	if permission != "" && !op.grant.Has(permission) {
		return errorf(ErrForbidden, "The permission %s is needed.", permission)
	}
	state, err := op.v.tenants.Get(ctx, op.tenant)
	if err != nil {
		return err
	}
	op.state, op.now = state, op.v.now()
	return nil
}

// renewed returns what the client's key stands for now, at work where c is.
func (c *Client) renewed(now *Client) *Client {
	if c.pending == nil && c.actorType != actorUser {
		return now
	}
	fresh := *now
	fresh.pending = c.pending
	if c.actorType == actorUser {
		fresh.creator, fresh.actor, fresh.actorType = c.creator, c.actor, c.actorType
	}
	return &fresh
}

// tenantID returns the tenant as the storage knows it.
func (c *Client) tenantID() storage.ID { return storage.ID(c.tenant) }

// change returns an empty change of the client's tenant.
func (op *operation) change() *storage.Change {
	ch := &storage.Change{}
	op.start(ch)
	return ch
}

// start makes ch an empty change of the client's tenant.
func (op *operation) start(ch *storage.Change) {
	*ch = storage.Change{Tenant: op.tenantID(), Now: op.now}
	if op.state != nil {
		// What is sealed under these keys must not be written when they may
		// have been replaced.
		ch.Before = op.state.WriteBefore()
	}
}

// refresh lets a long operation go on under keys that are not too old.
func (op *operation) refresh(ctx context.Context) error {
	state, err := op.v.tenants.Get(ctx, op.tenant)
	if err == nil {
		op.state = state
	}
	return err
}

// write applies a change. Inside Once it waits instead, to be committed together
// with the answer; but work with effects outside of the database may let out
// what it read before that, so its entries of reads are written at once.
//
// An operation may have taken longer than keys may be used. Then the database
// refuses its change, and it is sealed again under keys that are read now.
func (op *operation) write(ctx context.Context, ch *storage.Change) error {
	if op.pending != nil && !(ch.Relaxed && op.pending.leased) {
		op.pending.add(ch, op.state.Ring)
		return nil
	}
	if ch.Relaxed && op.v.cfg.StrictReadLogs {
		ch.Relaxed = false
	}
	for range maxAttempts {
		err := op.v.store.Write(ctx, ch)
		if !errors.Is(err, storage.ErrLate) {
			return err
		}
		if err := op.renew(ctx, ch); err != nil {
			return err
		}
	}
	return errFaster
}

// renew seals a change again under keys that are not too old, and gives it the
// time that these have.
func (op *operation) renew(ctx context.Context, ch *storage.Change) error {
	from := op.state.Ring
	if err := op.refresh(ctx); err != nil {
		return err
	}
	return op.reseal(ch, from)
}

// reseal seals a change, which was sealed with another ring, under the keys of
// the operation.
func (op *operation) reseal(ch *storage.Change, from *seal.Ring) error {
	r := sealed.Resealer{Tenant: op.tenant, From: from, To: op.state.Ring}
	if err := r.Change(ch); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	ch.Before = op.state.WriteBefore()
	return nil
}

// afterwards runs f now, or inside Once when the change that came before is
// committed. It is for forgetting what a change has made untrue.
func (op *operation) afterwards(f func()) {
	if op.pending != nil {
		op.pending.afterwards(f)
		return
	}
	f()
}

// seal encrypts for a place of this tenant.
func (op *operation) seal(p *seal.Place, plain []byte) ([]byte, error) {
	p.Tenant = op.tenant
	return op.state.Ring.Seal(p, plain)
}

// open decrypts what was sealed for a place of this tenant. A key that the
// ring does not know may be younger than the ring: then the ring is read again.
func (op *operation) open(ctx context.Context, p *seal.Place, version int, sealed []byte) ([]byte, error) {
	p.Tenant = op.tenant
	plain, err := op.state.Ring.Open(p, version, sealed)
	if errors.Is(err, seal.ErrNoKey) {
		if op.state, err = op.v.tenants.Reload(ctx, op.tenant); err != nil {
			return nil, err
		}
		plain, err = op.state.Ring.Open(p, version, sealed)
	}
	if err != nil {
		// Joined first, because what goes to Errorf piece by piece goes to the heap,
		// and with it the place of everything that does open.
		return nil, fmt.Errorf("%s: %w", "vault: "+p.Field+" of "+p.Entity+" "+p.ID, err)
	}
	return plain, nil
}

// retryStale runs an operation that reads, computes and writes, again when the
// rows were changed by others in between, or the keys grew too old.
func retryStale[T any](do func() (T, error)) (T, error) {
	for attempt := 1; ; attempt++ {
		out, err := do()
		again := errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrLate)
		if !again || attempt == maxAttempts {
			return out, err
		}
	}
}

// maxAttempts bounds how often a write is computed again because others were
// faster. Each lost attempt means that another's succeeded.
const maxAttempts = 100

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
// under the key's own hash: a record that was moved to another key does not
// open, and that key counts as unknown.
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
	if app.ExpiresAt != nil {
		id.expiresAt = *app.ExpiresAt
	}
	return id, nil
}

func (op *operation) identifySession(ctx context.Context, rec *storage.Record) (*identity, error) {
	var s session
	if err := op.openRecord(ctx, rec, &s); err != nil {
		op.v.cfg.Logger.ErrorContext(ctx, "a session's record cannot be decrypted", "tenant", op.tenant, "error", err)
		return nil, ErrUnauthenticated
	}
	app, err := applications.read(ctx, op, s.Application)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrUnauthenticated // sessions end with their application
	}
	if err != nil {
		return nil, err
	}
	grant := new(access.Grant) // nothing, until the session is authorized
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
