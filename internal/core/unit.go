package core

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/storage"
)

// Unit is the unit of work that an operation belongs to: a transaction of the
// application, or Once, where writes are held back. The operation of a zero Unit
// commits on its own, on the vault's connections.
type Unit struct {
	tx      *txWork
	pending *Pending
}

// InsideTx reports whether the unit is a transaction of the application.
func (u Unit) InsideTx() bool { return u.tx != nil }

// Pending returns the writes that are held back, or nil outside Once.
func (u Unit) Pending() *Pending { return u.pending }

// InTx returns the caller in a transaction of the application.
func (c Caller) InTx(tx storage.SQLTx) Caller {
	c.tx = c.Vault.txs.of(c.Vault, tx)
	return c
}

// Collecting returns the caller with its writes held back. Inside another Once,
// both responses depend on what the work sees.
func (c Caller) Collecting(writes *Pending) Caller {
	writes.Uses.by = c.Identity
	if c.pending != nil {
		writes.Uses.outer = &c.pending.Uses
	}
	c.pending = writes
	return c
}

// Reader is the part of a database that operations read.
type Reader interface {
	storage.TokenReader
	storage.RecordReader
}

// DB returns the database as the unit of work sees it.
func (c Caller) DB() Reader {
	if c.tx != nil {
		return c.tx.store
	}
	return c.Vault.Store
}

// writer returns where the unit of work is written.
func (c Caller) writer() writer {
	if c.tx != nil {
		return c.tx.store
	}
	return c.Vault.Store
}

// keys returns the keys of a tenant. If again is true it reads them again.
//
// If the vault cannot read beside a transaction, it reads them in the transaction.
// They are committed then, because the transaction has the only lock, and no client
// of a transaction changes keys.
func (c Caller) keys(ctx context.Context, tenant uuid.UUID, again bool) (*State, error) {
	switch {
	case c.tx != nil && !c.tx.beside():
		return c.Vault.Tenants.Read(ctx, c.tx.store, tenant, again)
	case again:
		return c.Vault.Tenants.Reload(ctx, tenant)
	default:
		return c.Vault.Tenants.Get(ctx, tenant)
	}
}

// txWork is a transaction of the application, shared by the callers that work in
// it.
type txWork struct {
	v  *Vault
	tx storage.SQLTx

	mu    sync.Mutex
	store storage.Tx          // nil until the first operation
	wrote map[storage.ID]bool // records that the transaction has written or deleted
}

// txWorks maps transactions to their work, so that all callers in one transaction
// share a lock. The references are weak, because the vault does not learn when the
// application ends a transaction. The key of a pointer is its address, because a
// weak pointer needs a type, and a transaction can have any type.
type txWorks struct {
	mu  sync.Mutex
	all map[any]weak.Pointer[txWork]
}

func (w *txWorks) of(v *Vault, tx storage.SQLTx) *txWork {
	t := &txWork{v: v, tx: tx}
	key, ok := keyOf(tx)
	if !ok {
		return t
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.all[key].Value(); known != nil {
		return known
	}
	if w.all == nil {
		w.all = map[any]weak.Pointer[txWork]{}
	}
	w.all[key] = weak.Make(t)
	runtime.AddCleanup(t, w.forget, key)
	return t
}

// address identifies a transaction that is a pointer. It includes the type,
// because a struct and its first field have the same address.
type address struct {
	of reflect.Type
	at weak.Pointer[byte]
}

// keyOf returns a key for a transaction, if it can have one: its address, or its
// value if it is not a pointer.
func keyOf(tx storage.SQLTx) (any, bool) {
	switch v := reflect.ValueOf(tx); {
	case noTx(tx):
		return nil, false
	case v.Kind() == reflect.Pointer:
		return address{v.Type(), weak.Make((*byte)(v.UnsafePointer()))}, true
	default:
		return tx, v.Comparable()
	}
}

// noTx reports whether the program passed a nil interface or a nil pointer.
func noTx(tx storage.SQLTx) bool {
	v := reflect.ValueOf(tx)
	return tx == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// forget removes an entry whose work was garbage collected.
func (w *txWorks) forget(key any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all[key].Value() == nil {
		delete(w.all, key)
	}
}

// bind ensures that the transaction is on the vault's database. It may wait for a
// lock, and ends the turn before that.
func (t *txWork) bind(ctx context.Context) error {
	admission.Of(ctx).Rest()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.store != nil {
		return nil
	}
	store, ok := t.v.Store.(storage.TxStorage)
	switch {
	case noTx(t.tx):
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

// beside reports whether the vault can work on its own connections while the
// transaction is open.
func (t *txWork) beside() bool {
	store, ok := t.v.Store.(storage.TxStorage)
	return ok && store.Beside()
}

// noteWrote records that the transaction has written or deleted a record.
func (t *txWork) noteWrote(id storage.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrote == nil {
		t.wrote = map[storage.ID]bool{}
	}
	t.wrote[id] = true
}

// hasWritten reports whether the transaction has written any of these records.
func (t *txWork) hasWritten(ids ...uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(ids, func(id uuid.UUID) bool { return t.wrote[storage.ID(id)] })
}

// forIdentity returns the operation that reads an application or a session. The
// snapshot of a transaction may be older than a change of rights, so they are read
// outside the transaction. Records that the transaction has written itself are
// read in it, because no other session can change them before it ends. If the
// vault cannot read beside the transaction, the transaction has the only lock and
// nothing else can change.
func (op *Op) forIdentity(ids ...uuid.UUID) *Op {
	if op.tx == nil || !op.tx.beside() || op.tx.hasWritten(ids...) {
		return op
	}
	outside := *op
	outside.tx = nil
	return &outside
}

// Apply writes a change that seals nothing. It writes at once, even inside Once.
func (op *Op) Apply(ctx context.Context, ch *storage.Change) error {
	admission.Of(ctx).Rest()
	return op.commit(ctx, op.writer(), ch)
}
