package vault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/storage"
)

// InTx returns a client that works in a transaction of the application, on a
// connection that the application has opened to the vault's database:
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	card, err := c.InTx(tx).CreateToken(ctx, params)
//	_, err = tx.ExecContext(ctx, `INSERT INTO orders (card) VALUES ($1)`, card.ID)
//	err = tx.Commit()
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
func (c *Client) InTx(tx *sql.Tx) *Client {
	in := *c
	in.tx = c.v.txs.of(c.v, tx)
	return &in
}

// ErrInTx means that an operation cannot be part of a transaction of the
// application: see [Client.InTx].
var ErrInTx = errors.New("vault: this cannot be done in a transaction of the application")

// outsideTx refuses what cannot be part of a transaction.
func (c *Client) outsideTx(operation string) error {
	if c.tx == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; call it on the client that InTx was called on", ErrInTx, operation)
}

// byItself refuses what can be part neither of a transaction nor of Once, because
// it writes piece by piece.
func (c *Client) byItself(operation string) error {
	if c.pending != nil {
		return fmt.Errorf("vault: %s cannot be part of Once: it writes piece by piece", operation)
	}
	return c.outsideTx(operation)
}

// txWork is a transaction of the application, shared by the clients that work in
// it.
type txWork struct {
	v  *Vault
	tx *sql.Tx

	mu    sync.Mutex
	store storage.Tx // nil until the first operation
}

// txWorks finds the work of a transaction, so that all clients of one share what
// keeps their statements apart. It keeps neither alive.
type txWorks struct {
	mu  sync.Mutex
	all map[weak.Pointer[sql.Tx]]weak.Pointer[txWork]
}

func (w *txWorks) of(v *Vault, tx *sql.Tx) *txWork {
	key := weak.Make(tx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.all[key].Value(); known != nil {
		return known
	}
	t := &txWork{v: v, tx: tx}
	if w.all == nil {
		w.all = map[weak.Pointer[sql.Tx]]weak.Pointer[txWork]{}
	}
	w.all[key] = weak.Make(t)
	runtime.AddCleanup(t, w.forget, key)
	return t
}

// forget drops an entry whose work is gone.
func (w *txWorks) forget(key weak.Pointer[sql.Tx]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key].Value() == nil {
		delete(w.all, key)
	}
}

// bind makes sure that the transaction is on the vault's database. It may wait for
// a lock, and ends the turn before that.
func (t *txWork) bind(ctx context.Context) error {
	admission.Of(ctx).Rest()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store != nil {
		return nil
	}
	store, ok := t.v.store.(storage.TxStorage)
	switch {
	case t.tx == nil:
		return errors.New("vault: InTx was given no transaction")
	case !ok:
		return errors.New("vault: InTx needs a storage that can work in a transaction of the application (storage.TxStorage)")
	}
	in, err := store.InTx(ctx, t.tx)
	if err == nil {
		t.store = in
	}
	return err
}

// beside reports whether the vault can work on connections of its own while the
// transaction is open.
func (t *txWork) beside() bool {
	store, ok := t.v.store.(storage.TxStorage)
	return ok && store.Beside()
}

// state returns the keys of a tenant. Where the vault cannot read beside the
// transaction they are read in it: it has the only lock, so they are what is
// committed, and no client of a transaction changes them.
func (t *txWork) state(ctx context.Context, tenant uuid.UUID, again bool) (*keyring.State[tenantDoc], error) {
	if t.beside() {
		if again {
			return t.v.tenants.Reload(ctx, tenant)
		}
		return t.v.tenants.Get(ctx, tenant)
	}
	return t.v.tenants.Read(ctx, t.store, tenant, again)
}

// bindTx makes sure that an operation can be part of its transaction.
func (op *operation) bindTx(ctx context.Context) error {
	if op.pending != nil {
		return fmt.Errorf("%w: Once, whose work is to be done with the client that it gives", ErrInTx)
	}
	return op.tx.bind(ctx)
}

// at returns another client at work in the transaction of this one, if it is in
// one.
func (c *Client) at(other *Client) *Client {
	if c.tx == nil {
		return other
	}
	in := *other
	in.tx = c.tx
	return &in
}

// reader is what operations read.
type reader interface {
	storage.TokenReader
	storage.RecordReader
}

// db is the database as the client sees it.
func (c *Client) db() reader {
	if c.tx != nil {
		return c.tx.store
	}
	return c.v.store
}

// keys returns the keys of the client's tenant, read again if that is asked for.
func (c *Client) keys(ctx context.Context, again bool) (*keyring.State[tenantDoc], error) {
	switch {
	case c.tx != nil:
		return c.tx.state(ctx, c.tenant, again)
	case again:
		return c.v.tenants.Reload(ctx, c.tenant)
	default:
		return c.v.tenants.Get(ctx, c.tenant)
	}
}

// writeInTx applies a change in the transaction. What it seals is only written
// under keys that stay until the transaction ends: if they have been replaced
// meanwhile, it is sealed again.
//
// It ends the tenant's turn, because it may wait for another transaction of the
// application, which may need a turn to come to its end. For the same reason it
// takes no turn to write.
func (op *operation) writeInTx(ctx context.Context, ch *storage.Change) error {
	admission.Of(ctx).Rest()
	if ch.Relaxed && op.v.cfg.StrictReadLogs && op.tx.beside() {
		ch.Relaxed = false
		return op.v.store.Write(ctx, ch)
	}
	for range maxAttempts {
		if op.state != nil && sealed.Any(ch) {
			ch.Hold = &storage.Hold{Kind: kindRing, ID: op.tenantID(), Rev: op.state.RingRev}
		}
		err := op.tx.store.Write(ctx, ch)
		if !errors.Is(err, storage.ErrLate) {
			return err
		}
		from := op.state.Ring
		if op.state, err = op.keys(ctx, true); err != nil {
			return err
		}
		if err := op.reseal(ch, from); err != nil {
			return err
		}
	}
	return errFaster
}

// expire deletes rows that have expired and are in the way of the operation,
// with a log entry each.
func (op *operation) expire(ctx context.Context, expired []storage.Token) error {
	admission.Of(ctx).Rest()
	write := op.v.store.Write
	if op.tx != nil {
		write = op.tx.store.Write
	}
	return op.v.expireTokens(ctx, expired, write)
}
