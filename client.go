package vault

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bridge"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/once"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/sessions"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/storage"
)

// Client is an identity at work in a vault: a tenant, one of its applications,
// or a session. Its methods are the operations of the vault, each limited to
// what the identity may do and entered in the audit log.
//
// A Client is cheap, holds no connection, and need not be closed. It follows
// what it came from: each operation has the rights of that moment. When the API
// key of [Vault.Authenticate] is revoked or expires, or the application of
// [Owner.As] is deleted or expires, operations fail with ErrUnauthenticated. On
// other nodes than the one that made a change it takes up to a second.
type Client struct {
	v      *Vault
	caller core.Caller
}

// with returns a client of the same vault.
func (c *Client) with(caller core.Caller) *Client { return &Client{c.v, caller} }

// as returns a client with another identity at work in the same place.
func (c *Client) as(id core.Identity) *Client { return c.with(c.caller.At(id)) }

// Owner is a tenant itself at work in a vault: the embedding program, which may do
// everything. It is a [Client] with the methods that no API key has.
type Owner struct{ *Client }

// Tenant returns the owner of a tenant. It does not check that the tenant exists;
// the first operation does.
func (v *Vault) Tenant(id uuid.UUID) *Owner { return &Owner{&Client{v, v.core.Owner(id)}} }

// Authenticate returns the client that an API key stands for: an application
// or a session. A key that is missing, malformed, unknown, expired or revoked
// gives ErrUnauthenticated. When the database does not answer, no key works.
//
// A revoked key stops working at once on the node that revoked it and within a
// second on every other.
func (v *Vault) Authenticate(ctx context.Context, key string) (*Client, error) {
	caller, err := v.core.Authenticate(ctx, key)
	if err != nil {
		return nil, err
	}
	return &Client{v, caller}, nil
}

// AsUser returns an owner that acts for a user of the embedding program, by the
// program's own name for the user: the subject of an identity provider, a login,
// an id. [Owner.As] keeps the user.
//
// Log entries and created_by carry an id of the user: the subject itself if it is
// a UUID, otherwise a UUIDv5 of the tenant's id and the subject, so that a user
// has the same id each time. Log entries also carry the subject in
// [LogEntry.ActorName], at most its first 200 characters.
func (o *Owner) AsUser(subject string) *Owner { return &Owner{o.as(o.caller.AsUser(subject))} }

// As returns a client that acts as an application of the tenant, with the
// application's rights and no more. The client follows the application, but not
// its key: a new key changes nothing.
func (o *Owner) As(ctx context.Context, application uuid.UUID) (*Client, error) {
	return run(ctx, o.Client, &verbs.As, func(ctx context.Context, op *core.Op) (*Client, error) {
		id, err := op.As(ctx, application)
		if err != nil {
			return nil, err
		}
		return o.as(id.WithUserOf(o.caller.Identity)), nil
	})
}

// From is [Client.From] for an owner.
func (o *Owner) From(origin string) *Owner { return &Owner{o.Client.From(origin)} }

// InTx is [Client.InTx] for an owner.
func (o *Owner) InTx(tx Tx) *Owner { return &Owner{o.Client.InTx(tx)} }

// Once is [Client.Once] for work that is given an owner.
func (o *Owner) Once(ctx context.Context, key IdempotencyKey, do func(context.Context, *Owner) (StoredResponse, error)) (answer StoredResponse, replayed bool, err error) {
	return o.Client.Once(ctx, key, func(ctx context.Context, c *Client) (StoredResponse, error) { return do(ctx, &Owner{c}) })
}

// TenantID returns the tenant that the client belongs to.
func (c *Client) TenantID() uuid.UUID { return c.caller.Tenant() }

// ApplicationID returns the application that the client acts as, or a zero id
// when it is the tenant itself.
func (c *Client) ApplicationID() uuid.UUID { return c.caller.ApplicationID() }

// AsUser returns a client with the rights of c that acts for a user of the
// embedding program: see [Owner.AsUser].
func (c *Client) AsUser(subject string) *Client { return c.as(c.caller.AsUser(subject)) }

// From returns a client whose log entries say where its calls come from, such as
// the address of a caller: [LogEntry.Origin], at most 45 characters. Package
// httpserver does this for every request. Clients that are made from c, and jobs
// that it starts, keep the origin.
func (c *Client) From(origin string) *Client { return c.as(c.caller.From(origin)) }

// Masked returns a client with the rights of c, but for data: it sees of a token
// what a mask shows at most, may use none, and may not search by data: such a
// query is ErrForbidden. It is for programs that show tokens to people.
func (c *Client) Masked() *Client { return c.as(c.caller.Masked()) }

// Tx is a transaction of the application, for [Client.InTx]. [*sql.Tx] is a Tx, and
// so is every type that embeds it, such as the transaction of sqlx. The module
// vaultpgx makes a Tx of a pgx.Tx.
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
// A transaction of pgx itself becomes a Tx through the module vaultpgx:
// c.InTx(vaultpgx.Tx(tx)). Clients of one transaction share what it has written.
//
// What the client does with tokens, sessions, applications, reactors, proxies and
// the log is part of the transaction, log entries included: nothing of it is
// there before the commit, nothing is left after a rollback, and its reads see
// what the transaction has written. Whatever else a client can do fails with
// [ErrInTx]: Once, React, InvokeProxy, RoundTripper, and what is about the tenant
// itself.
//
// The transaction must be on the vault's database, else the first operation fails
// with storage.ErrOtherDatabase, and it must be able to write. How durable its
// commit is depends on the application's connection. An operation that is refused
// leaves it usable; a conflict between transactions that the database reports is
// returned, and the application repeats its transaction.
//
// The entry of a read is part of the transaction too, so that a rollback takes it
// away although the program has seen the data. With Config.StrictReadLogs it is
// written on a connection of the vault's own, where the storage can do that:
// PostgreSQL can, SQLite cannot.
//
// What is changed is in force on every node, this one included, within a second
// of the commit. Until then a rotation of the tenant's keys waits.
//
// On SQLite an operation takes the write lock, so begin the transaction with
// _txlock=immediate. While it is open all other calls of the vault that write
// wait, and so do reads, because of their entries; after 30 seconds they fail with
// [ErrUnavailable]. That is also what happens to a call of another client than
// this one in the middle of the transaction.
//
// The client is safe for concurrent use; the transaction itself is the
// application's to use by one goroutine at a time.
func (c *Client) InTx(tx Tx) *Client { return c.with(c.caller.InTx(tx)) }

// HasPermission reports whether the client holds a permission on anything at all:
// nil, ErrForbidden, or ErrUnauthenticated when its key has died. Whether it
// extends to a certain token is found out by the operation.
func (c *Client) HasPermission(ctx context.Context, permission Permission) error {
	return runErr(ctx, c, &verbs.HasPermission, func(_ context.Context, op *core.Op) error {
		switch permission {
		case PermissionSessionCreate:
			return sessions.MayCreate(op)
		case PermissionSessionAuthorize:
			return sessions.MayAuthorize(op)
		default:
			return op.Require(string(permission))
		}
	})
}

// run carries out a verb for the client. Every operation of a client begins here,
// and its errors leave here.
func run[T any](ctx context.Context, c *Client, verb *core.Verb, do func(context.Context, *core.Op) (T, error)) (T, error) {
	out, err := core.Do(ctx, c.caller, verb, do)
	return out, public(err)
}

// runTo is run for a verb whose result has another type in its room.
func runTo[R, T any](ctx context.Context, c *Client, verb *core.Verb, show func(R) T, do func(context.Context, *core.Op) (R, error)) (out T, err error) {
	in, err := core.Do(ctx, c.caller, verb, do)
	if err != nil {
		return out, public(err)
	}
	return show(in), nil
}

// runErr is run for a verb that gives nothing but an error.
func runErr(ctx context.Context, c *Client, verb *core.Verb, do func(context.Context, *core.Op) error) error {
	return public(core.Run(ctx, c.caller, verb, do))
}

// Packages httpserver and cli reach these through the bridge.
func init() { //nolint:gochecknoinits // the bridge cannot import this package
	bridge.Caller = func(client any) core.Caller { return client.(*Client).caller }
	bridge.ProxyCaller = func(ctx context.Context, vault any, key string) (any, error) {
		v := vault.(*Vault)
		caller, err := v.relay.Stranger(ctx, key)
		return &Client{v, caller}, err
	}
	bridge.NameOfAnother = func(ctx context.Context, vault any, name string, tenant uuid.UUID) (bool, error) {
		return tenants.HadAnother(ctx, vault.(*Vault).core, name, tenant)
	}
	bridge.DecodeReplacement = func(data []byte, params json.Unmarshaler) error {
		_, isProxy := params.(*ProxyParams)
		return public(records.Form{Fields: fieldsOf, ApplicationID: isProxy}.Replace(data, params))
	}
}

// IdempotencyKey names a request that must be carried out at most once. The same key
// under another scope, or by another application, session or user, is another
// request.
type IdempotencyKey struct {
	// Scope says what kind of request it is, as a method and path do.
	Scope string
	// Key is chosen by the caller: 1 to 255 printable ASCII characters.
	Key string
	// Lease is for requests with effects outside of the database: the key is
	// claimed before the work and kept for this long if the process dies. It
	// must be longer than the work can take. Zero means that the work does
	// nothing but change the vault.
	Lease time.Duration
}

// Once carries out a request at most once for a key, across all nodes: do runs,
// and what it changed through the Client it is given is committed together with
// its answer. A later call with the same key gets the answer, and true. A
// request that fails leaves nothing, its claim included, so that it can be
// tried again. While one is under way, others get ErrInProgress.
//
// The answer of a reactor's run may hold the data of tokens. It is given again
// only while those who used the tokens could still see as much of them, else Once
// fails with ErrForbidden. The tokens, and a cvc that the run saw, must still
// exist, and nobody but the run may have changed the tokens; else Once fails with
// [ErrWithdrawn].
//
// Unless key.Lease is set, do should do nothing but call the Client: it may run
// again from the start when others changed what it read, and it may run in vain
// when another node has answered already. Its writes are held back until it
// returns, and reads within it do not see them.
func (c *Client) Once(ctx context.Context, key IdempotencyKey, do func(context.Context, *Client) (StoredResponse, error)) (answer StoredResponse, replayed bool, err error) {
	ctx, end := c.v.core.TellOnce(ctx)
	defer func() { end(err) }()
	answer, err = run(ctx, c, &verbs.Once, func(ctx context.Context, op *core.Op) (StoredResponse, error) {
		work := func(ctx context.Context, caller core.Caller) (once.Response, error) {
			a, err := do(ctx, c.with(caller))
			return once.Response(a), err
		}
		stored, again, err := c.v.requests.Do(ctx, op, once.Key(key), work)
		replayed = again
		return StoredResponse(stored), err
	})
	return answer, replayed, err
}

// StoredResponse is the outcome of a request, kept for later requests with the same key.
// Printed or logged it shows its status alone, except as JSON and in unexported
// fields: see the package comment.
type StoredResponse struct {
	Status int
	Header http.Header
	Body   []byte
}
