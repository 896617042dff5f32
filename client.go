package vault

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/once"
	"github.com/seed-72ea4aab/vault/storage"
)

// Client is an identity in a vault: a tenant, one of its applications, or a
// session. Its methods are the operations of the vault. Each operation checks the
// rights of the identity and writes an entry to the audit log.
//
// A Client is cheap, holds no connection, and need not be closed. Each operation
// uses the rights that the identity has at that moment. When the API key of
// [Vault.Authenticate] is revoked or expires, operations fail with
// ErrUnauthenticated. The same happens when the application of [Owner.As] is
// deleted or expires. Nodes that did not make the change notice it within a second.
type Client struct {
	v *Vault
	handle
}

// handle is unexported, and so is what a Client embeds.
type handle = core.Handle

func (v *Vault) client(caller core.Caller) *Client { return &Client{v, core.NewHandle(caller)} }

// as returns a client of the same vault and transaction with another identity.
func (c *Client) as(id core.Identity) *Client { return c.v.client(core.CallerOf(c).At(id)) }

// Owner is the tenant itself: the embedding program, which may do everything. It is
// a [Client] with methods that no API key can use.
type Owner struct{ *Client }

// Tenant returns the owner of a tenant. It does not check that the tenant exists;
// the first operation does.
func (v *Vault) Tenant(id uuid.UUID) *Owner { return &Owner{v.client(v.core.Owner(id))} }

// Authenticate returns the client of an API key: an application or a session. A key
// that is missing, malformed, unknown, expired or revoked gives ErrUnauthenticated.
// When the database does not respond, no key works.
//
// The key may also be the id of an application, a colon, and a JWT that one of the
// [Identity] values of the application matches. A JWT that does not match gives the
// same error. A JWT whose issuer does not respond gives ErrUnavailable. The client
// works until the JWT ends or the identity is removed. It cannot make a key or change
// its application's identities, and a session that it authorizes lives for at most 24
// hours.
//
// A revoked key stops working at once on the node that revoked it, and within a
// second on every other node.
func (v *Vault) Authenticate(ctx context.Context, key string) (*Client, error) {
	caller, err := v.core.Authenticate(ctx, key)
	if err != nil {
		return nil, err
	}
	return v.client(caller), nil
}

// AsUser returns an owner that acts for a user of the embedding program. The
// subject is the program's own name for the user: the subject of an identity
// provider, a login, or an id. [Owner.As] keeps the user.
//
// Log entries and created_by hold an id of the user. It is the subject itself if that is
// a UUID of another version than 5, and otherwise a UUIDv5 of the tenant's id and the
// subject. So a user always has the same id, and two subjects have the same id only if
// they are the same UUID. Log entries also hold the subject in [LogEntry.ActorName], at
// most its first 200 characters.
func (o *Owner) AsUser(subject string) *Owner { return &Owner{o.as(core.CallerOf(o).AsUser(subject))} }

// As returns a client that acts as an application of the tenant, with exactly the
// application's rights. The client does not depend on the application's key: a new
// key changes nothing.
func (o *Owner) As(ctx context.Context, application uuid.UUID) (*Client, error) {
	return run(ctx, o.Client, &core.VerbAs, func(ctx context.Context, op *core.Op) (*Client, error) {
		id, err := op.As(ctx, application)
		if err != nil {
			return nil, err
		}
		return o.as(id.WithUserOf(core.CallerOf(o).Identity)), nil
	})
}

// From is [Client.From] for an owner.
func (o *Owner) From(origin string) *Owner { return &Owner{o.Client.From(origin)} }

// InTx is [Client.InTx] for an owner.
func (o *Owner) InTx(tx Tx) *Owner { return &Owner{o.Client.InTx(tx)} }

// Once is [Client.Once] with a function that takes an owner.
func (o *Owner) Once(ctx context.Context, key IdempotencyKey, do func(context.Context, *Owner) (StoredResponse, error)) (answer StoredResponse, replayed bool, err error) {
	return o.Client.Once(ctx, key, func(ctx context.Context, c *Client) (StoredResponse, error) { return do(ctx, &Owner{c}) })
}

// TenantID returns the tenant that the client belongs to.
func (c *Client) TenantID() uuid.UUID { return core.CallerOf(c).Tenant() }

// ApplicationID returns the application that the client acts as, or a zero id
// when it is the tenant itself.
func (c *Client) ApplicationID() uuid.UUID { return core.CallerOf(c).ApplicationID() }

// AsUser returns a client with the rights of c that acts for a user of the
// embedding program: see [Owner.AsUser].
func (c *Client) AsUser(subject string) *Client { return c.as(core.CallerOf(c).AsUser(subject)) }

// From returns a client whose log entries record where its calls come from, such as
// the address of a caller, in [LogEntry.Origin]. The origin has at most 45
// characters. Package httpserver sets it for every request. Clients made from c,
// and jobs that c starts, keep the origin.
func (c *Client) From(origin string) *Client { return c.as(core.CallerOf(c).From(origin)) }

// Masked returns a client with the rights of c that never sees plaintext. It reads
// masked data at most, and it cannot use tokens or search by data: such a query is
// ErrForbidden. It is for programs that show tokens to people.
func (c *Client) Masked() *Client { return c.as(core.CallerOf(c).Masked()) }

// Tx is a transaction of the application, for [Client.InTx]. [*sql.Tx] is a Tx, and
// so is every type that embeds it, such as the transaction of sqlx. Module vaultpgx
// turns a pgx.Tx into a Tx.
type Tx = storage.SQLTx

// InTx returns a client that works in a transaction of the application, on a
// connection that the application has opened to the vault's database:
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	card, err := c.InTx(tx).CreateToken(ctx, params)
//	_, err = tx.ExecContext(ctx, `INSERT INTO orders (card) VALUES ($1)`, card.ID)
//	err = tx.Commit()
//
// Module vaultpgx adapts a transaction of pgx: c.InTx(vaultpgx.Tx(tx)). Clients of
// one transaction see each other's writes.
//
// Operations on tokens, sessions, applications, reactors, proxies and the log are
// part of the transaction, and so are their log entries. Nobody else sees them
// before the commit, and a rollback undoes them. Reads see what the transaction has
// written. Other operations fail with [ErrInTx]: Once, React, InvokeProxy,
// RoundTripper, and changes of the tenant itself.
//
// The transaction must be on the vault's database, otherwise the first operation
// fails with storage.ErrOtherDatabase. It must be able to write. The durability of
// its commit depends on the application's connection. A refused operation leaves
// the transaction usable. When the database reports a conflict between
// transactions, the operation returns it, and the application has to repeat its
// transaction.
//
// The log entry of a read is part of the transaction too, so a rollback removes it
// although the program has seen the data. With Config.StrictReadLogs the entry is
// written on one of the vault's own connections if the storage supports it.
// PostgreSQL does, SQLite does not.
//
// On Citus the transaction commits in two phases. So it is atomic with every table of
// the database, including tables of the coordinator.
//
// Changes take effect on every node, including this one, within a second of the
// commit. Until the transaction ends, a rotation of the tenant's keys waits.
//
// On SQLite an operation takes the write lock, so begin the transaction with
// _txlock=immediate. While it is open, all other writes of the vault wait, and so
// do reads, because they write log entries. After 30 seconds they fail with
// [ErrUnavailable]. That includes calls through another client in the middle of the
// transaction.
//
// The client is safe for concurrent use, but only one goroutine at a time may use
// the transaction itself.
func (c *Client) InTx(tx Tx) *Client { return c.v.client(core.CallerOf(c).InTx(tx)) }

// Now returns the time of the vault's clock: see [Config].Now. The clock decides when
// tokens expire, so compute [TokenParams].ExpiresAt from it. Now needs no permission.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	return run(ctx, c, &core.VerbNow, func(ctx context.Context, op *core.Op) (time.Time, error) { return op.Now, ctx.Err() })
}

// HasPermission checks whether the client holds a permission on any object at all.
// It returns nil, ErrForbidden, or ErrUnauthenticated if the client's key is no
// longer valid. Only the operation itself checks whether the permission covers a
// certain token.
func (c *Client) HasPermission(ctx context.Context, permission Permission) error {
	return runErr(ctx, c, &core.VerbHasPermission, func(_ context.Context, op *core.Op) error {
		return op.Require(string(permission))
	})
}

// run executes a verb for the client. Every operation of a client starts here, and
// its errors are converted here.
func run[T any](ctx context.Context, c *Client, verb *core.Verb, do func(context.Context, *core.Op) (T, error)) (T, error) {
	out, err := core.Do(ctx, core.CallerOf(c), verb, do)
	return out, public(err)
}

// runTo is run for a verb whose internal result type differs from the public one.
func runTo[R, T any](ctx context.Context, c *Client, verb *core.Verb, show func(R) T, do func(context.Context, *core.Op) (R, error)) (out T, err error) {
	in, err := core.Do(ctx, core.CallerOf(c), verb, do)
	if err != nil {
		return out, public(err)
	}
	return show(in), nil
}

// runErr is run for a verb that returns only an error.
func runErr(ctx context.Context, c *Client, verb *core.Verb, do func(context.Context, *core.Op) error) error {
	_, err := core.Do(ctx, core.CallerOf(c), verb, func(ctx context.Context, op *core.Op) (struct{}, error) { return struct{}{}, do(ctx, op) })
	return public(err)
}

// IdempotencyKey identifies a request that must run at most once. The same key with
// another scope, or used by another application, session or user, is a different
// request.
type IdempotencyKey struct {
	// Scope is the kind of the request, such as a method and path.
	Scope string
	// Key is chosen by the caller: 1 to 255 printable ASCII characters.
	Key string
	// Lease is for requests with effects outside the database. The key is claimed
	// before the work starts, and stays claimed for this long if the process dies.
	// It must be longer than the work can take. Zero means that the work only
	// changes the vault.
	Lease time.Duration
}

// Once runs a request at most once for a key, across all nodes. It calls do, and
// commits the changes that do made through its Client together with the response. A
// later call with the same key gets that response, and true. A failed request
// leaves nothing, including its claim on the key, so it can be retried. While a
// request is running, others with the same key get ErrInProgress.
//
// The response may hold the data of tokens that do has read or used, also in a
// reactor's run. Once returns it again only while the callers that saw the tokens
// could still see as much of them; otherwise it fails with ErrForbidden. The tokens, and
// a cvc that do saw, must still exist, and only do may have changed the tokens.
// Otherwise Once fails with [ErrWithdrawn], and does not call do. Reads of more than
// 1,000 tokens are not tracked, and Once then always fails with [ErrWithdrawn].
//
// CreateToken and Tokenize bind the response to an erasure of the tokens alone, and
// the result of PatchToken, or of a token found as a duplicate, also to their
// deletion and expiry, and to the right to read them.
//
// If key.Lease is zero, do should only call the Client. It may run again from the
// start when others changed what it read, and its work is discarded if another node
// has already responded. Its writes are held back until it returns, and reads
// within it do not see them.
func (c *Client) Once(ctx context.Context, key IdempotencyKey, do func(context.Context, *Client) (StoredResponse, error)) (answer StoredResponse, replayed bool, err error) {
	ctx, end := c.v.core.TellOnce(ctx)
	defer func() { end(err) }()
	answer, err = run(ctx, c, &core.VerbOnce, func(ctx context.Context, op *core.Op) (StoredResponse, error) {
		work := func(ctx context.Context, caller core.Caller) (once.Response, error) {
			a, err := do(ctx, c.v.client(caller))
			return once.Response(a), err
		}
		stored, again, err := c.v.requests.Do(ctx, op, once.Key(key), work)
		replayed = again
		return StoredResponse(stored), err
	})
	return answer, replayed, err
}

// StoredResponse is the outcome of a request, kept for later requests with the same
// key. Printed or logged it shows only its status: see the package comment.
type StoredResponse struct {
	Status int
	Header http.Header
	Body   []byte
}
