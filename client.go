package vault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// Client is an identity at work in a vault: a tenant, one of its applications,
// or a session. Its methods are the operations of the vault, each limited to
// what the identity may do and entered in the audit log.
//
// A Client is cheap, holds no connection, and need not be closed. It follows
// what it came from: each operation has the rights of that moment. When the API
// key of [Vault.Authenticate] is revoked or expires, or the application of
// [Client.As] is deleted or expires, operations fail with ErrUnauthenticated. On
// other nodes than the one that made a change it takes up to a second.
type Client struct {
	v      *Vault
	tenant uuid.UUID
	grant  *access.Grant
	// What grant was made of, unless it is that of the embedding program.
	permissions []Permission
	rules       []AccessRule

	key     storage.Key  // the API key this client follows; zero for none
	app     *Application // nil for the tenant itself; without a key it is followed
	session uuid.UUID    // zero unless the key is a session's
	proxy   uuid.UUID    // zero unless the client is a ProxyCaller

	creator   uuid.UUID // stands in created_by and modified_by
	actor     uuid.UUID // stands in log entries; zero for the tenant itself
	actorType ActorType
	actorName string // what the embedding program calls the user that it acts for

	pending *pendingWrites // inside Once: writes wait here for the answer

	tx *txWork // the transaction of the application that it works in; nil for none

	scripted bool // running code asks

	limit *access.Grant // rights that it never exceeds, whatever it follows; nil for none

	masked bool // it may not search by data
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

// AsUser returns a client that acts for a user of the embedding program, by what
// the program calls it: the subject of an identity provider, a login, an id. Its
// rights are those of c.
//
// Log entries and created_by carry an id of the user: the subject itself when
// it is a UUID, and else a UUIDv5 of the tenant's id and the subject, so that one
// user has the same id each time. The log entries also carry the subject in
// [LogEntry.ActorName], at most its first 200 characters.
func (c *Client) AsUser(subject string) *Client {
	u := *c
	id, err := uuid.Parse(subject)
	if err != nil || len(subject) != len(id.String()) {
		id = uuid.NewSHA1(c.tenant, []byte(subject))
	}
	u.creator, u.actor, u.actorType, u.actorName = id, id, ActorUser, actorName(subject)
	return &u
}

// Masked returns a client with the rights of c, but for data: it sees of a token
// what a mask shows at most, may use none, and may not search by data: such a
// query is ErrForbidden. It is for programs that show tokens to people.
func (c *Client) Masked() *Client {
	m := *c
	m.limit = masked
	if c.limit != nil {
		m.limit = c.limit.Under(masked)
	}
	m.grant = c.grant.Under(masked)
	m.masked = true
	return &m
}

// masked is the limit of a client that sees no data in clear.
var masked = func() *access.Grant {
	var others, onTokens []string
	for _, p := range access.Catalogue() {
		switch {
		case !access.OnTokens(p.Type):
			others = append(others, p.Type)
		case p.Type != access.TokenUse:
			onTokens = append(onTokens, p.Type)
		}
	}
	g, err := access.New([]access.Rule{{Priority: 1, Container: "/", Transform: access.Mask, Permissions: onTokens}}, others)
	if err != nil {
		panic(err) // the rule does not depend on anything
	}
	return g
}()

// As returns a client that acts as an application of the tenant, with the
// application's rights and no more. Only the tenant itself may do this. The
// client follows the application, but not its key: a new key changes nothing.
func (c *Client) As(ctx context.Context, application uuid.UUID) (*Client, error) {
	op, err := c.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	if c.grant != trusted {
		return nil, errorf(ErrForbidden, "Only the tenant itself may act as one of its applications.")
	}
	id, err := op.follow(ctx, application)
	if err != nil {
		return nil, err
	}
	return c.at(id.client), nil
}

// clientOf returns a client with the rights of an application.
func (v *Vault) clientOf(app *Application) (*Client, error) {
	grant, err := access.New(accessRules(app.Rules), texts(app.Permissions))
	if err != nil {
		return nil, fmt.Errorf("vault: application %s: %w", app.ID, err)
	}
	return &Client{v: v, tenant: app.TenantID, grant: grant, permissions: app.Permissions, rules: app.Rules, app: app,
		creator: app.ID, actor: app.ID, actorType: ActorApplication}, nil
}

// Check reports whether the client holds a permission on anything at all:
// nil, ErrForbidden, or ErrUnauthenticated when its key has died. Whether it
// extends to a certain token is found out by the operation.
func (c *Client) Check(ctx context.Context, permission Permission) error {
	may, ofKind := sessionRights[permission]
	if !ofKind {
		_, err := c.begin(ctx, string(permission))
		return err
	}
	op, err := c.begin(ctx, "")
	if err != nil {
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
	if op.tx != nil {
		if err := op.bindTx(ctx); err != nil {
			return err
		}
	}
	if err := op.renewRights(ctx); err != nil {
		return err
	}
	if permission != "" && !op.grant.Has(permission) {
		return errorf(ErrForbidden, "The permission %s is needed.", permission)
	}
	state, err := op.keys(ctx, false)
	if err != nil {
		return err
	}
	op.state, op.now = state, op.v.now()
	return nil
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
	state, err := op.keys(ctx, false)
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
	if op.tx != nil {
		return op.writeInTx(ctx, ch)
	}
	if op.pending != nil && !(ch.Relaxed && op.pending.leased) {
		op.pending.add(ch, op.state.Ring)
		return nil
	}
	if ch.Relaxed && op.v.cfg.StrictReadLogs {
		ch.Relaxed = false
	}
	written, err := roomToWrite(ctx, ch)
	if err != nil {
		return err
	}
	defer written()
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
		if op.state, err = op.keys(ctx, true); err != nil {
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
