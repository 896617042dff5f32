package storagetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func txRules() []txRule {
	return []txRule{
		{"nothing is there before the commit, and everything after it", txCommit},
		{"a rollback leaves nothing", txRollback},
		{"a rollback to a savepoint of the application leaves nothing", txSavepoint},
		{"reads see what the transaction has written", txReads},
		{"a change that is refused leaves the transaction usable", txRefused},
		{"counts are exact after commits and rollbacks, and after a sweep", txCounts},
		{"a transaction that has ended is sql.ErrTxDone", txEnded},
		{"a transaction on another database is ErrOtherDatabase, and nothing is written", txOther},
		{"a context that has ended leaves the transaction usable", txContext},
		{"Hold: the record stays as it is until the transaction ends", txHold},
		{"others do not wait for a transaction, where the storage works beside it", txStrangers},
		{"what waits for a transaction is served after it", txWaits},
		{"several callers may share a transaction", txShared},
	}
}

type txRule struct {
	text  string
	holds func(w *txWorld)
}

// txWorld is a world whose database is shared with an application.
type txWorld struct {
	*world
	backend TxBackend
	beginTx Begin
}

func newTxWorld(t *testing.T, b TxBackend) *txWorld {
	t.Helper()
	w := &txWorld{backend: b}
	w.world = newWorld(t, Backend{Volatile: b.Volatile, New: func(tb testing.TB) Opener {
		var open Opener
		open, w.beginTx = b.New(tb)
		return open
	}})
	return w
}

func (w *txWorld) txStorage() storage.TxStorage {
	w.Helper()
	s, ok := w.store.(storage.TxStorage)
	if !ok {
		w.Fatal("the storage does not implement storage.TxStorage")
	}
	return s
}

// begin begins a transaction, which is rolled back at the end of the test.
func (w *txWorld) begin() (storage.SQLTx, storage.Tx) {
	w.Helper()
	tx := must(w.beginTx(context.Background()))(w.world, "begin")
	w.Cleanup(func() { _ = tx.Rollback() })
	in := must(w.txStorage().InTx(w.Context(), tx))(w.world, "in tx")
	return tx, in
}

func (w *txWorld) apply(in storage.Tx, c *storage.Change) {
	w.Helper()
	w.ok("write in the transaction", in.Write(w.Context(), c))
}

func (w *txWorld) commit(tx storage.SQLTx) {
	w.Helper()
	w.ok("commit", tx.Commit())
}

func (w *txWorld) rollback(tx storage.SQLTx) {
	w.Helper()
	w.ok("rollback", tx.Rollback())
}

func txCommit(w *txWorld) {
	tenant, e := w.id(), w.example("mine")
	tx, in := w.begin()
	w.apply(in, e.insert(tenant))
	if w.txStorage().Beside() {
		w.same("tokens before the commit", w.tokens(tenant, "mine"), []storage.Token(nil))
	}
	w.commit(tx)
	got := w.state(tenant)
	if got.rows() == 0 {
		w.Error("the commit stored nothing")
	}
	w.hasTokens(tenant, e.insert(tenant).InsertTokens...)
}

func txRollback(w *txWorld) {
	tenant, e := w.id(), w.example("mine")
	w.unchanged(tenant, func() {
		tx, in := w.begin()
		w.apply(in, e.insert(tenant))
		w.rollback(tx)
	})
	w.same("container sets", w.containers(tenant), []string(nil))
	w.write(e.insert(tenant)) // all of its keys are free
	w.hasTokens(tenant, e.insert(tenant).InsertTokens...)
}

// txSavepoint lets the application undo a part of its transaction without
// telling the backend.
func txSavepoint(w *txWorld) {
	tenant, kept, undone := w.id(), w.token("kept"), w.token("undone")
	tx, in := w.begin()
	w.exec(tx, "SAVEPOINT theirs")
	w.apply(in, insert(tenant, undone))
	w.exec(tx, "ROLLBACK TO SAVEPOINT theirs")
	w.apply(in, insert(tenant, kept))
	w.commit(tx)
	w.hasTokens(tenant, kept)
	w.same("number of container sets", len(w.containers(tenant)), 1)
}

func (w *txWorld) exec(tx storage.SQLTx, statement string) {
	w.Helper()
	if _, err := tx.ExecContext(w.Context(), statement); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
}

// view returns the world as a transaction sees it.
func (w *txWorld) view(in storage.Tx) *world {
	v := *w.world
	v.store = &txShim{Storage: w.store, open: in}
	return &v
}

func txReads(w *txWorld) {
	tenant, e := w.id(), w.example("mine")
	_, in := w.begin()
	v := w.view(in)
	v.write(&storage.Change{
		Tenant: tenant, InsertTokens: []storage.Token{e.token}, InsertRecords: []storage.Record{e.record}, Logs: []storage.Log{e.log},
	})
	v.hasTokens(tenant, e.token)
	e.token.Tenant, e.record.Tenant = tenant, tenant
	v.same("tokens", v.tokens(tenant, "mine", "missing"), []storage.Token{e.token})
	v.same("tokens of a set", v.found(tenant, storage.SetIn{e.token.Set}), []string{"mine"})
	v.same("duplicate", v.duplicate(tenant, storage.Duplicate{Fingerprint: e.token.Fingerprint, Expression: e.token.Expression}), &e.token)
	v.same("number of container sets", len(v.containers(tenant)), 1)
	v.same("lookup", v.lookup(e.record.Key), &e.record)
	v.same("records by id", v.recordsByID(tenant, e.record.Kind, []storage.ID{e.record.ID}), []storage.Record{e.record})
	records, n := v.records(storage.RecordFilter{Tenant: tenant, Kind: e.record.Kind, Limit: 5})
	v.same("records", records, []storage.Record{e.record})
	v.same("number of records", n, 1)
	logs, n := v.logs(storage.LogFilter{Tenant: tenant, Limit: 5})
	v.same("log", logs, []storage.Log{e.log})
	v.same("number of entries", n, 1)
}

// txRefused breaks a guard of each kind in one transaction and continues.
func txRefused(w *txWorld) {
	tenant, old := w.id(), w.token("old")
	old.Dedup = w.hash()
	record := w.record("application", "Old")
	first := insert(tenant, old)
	first.InsertRecords = []storage.Record{record}
	w.write(first)

	sameID, duplicate, stale, sameKey := w.token("old"), w.token("other"), old, w.record("application", "New")
	duplicate.Dedup, sameKey.Key = old.Dedup, record.Key
	stale.Rev += 5
	tx, in := w.begin()
	v := w.view(in)
	for _, refused := range []struct {
		kind   storage.ConflictKind
		change *storage.Change
	}{
		{storage.TokenIDTaken, insert(tenant, sameID)},
		{storage.DuplicateTaken, insert(tenant, duplicate)},
		{storage.TokenStale, &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(stale)}}},
		{storage.KeyTaken, &storage.Change{Tenant: tenant, InsertRecords: []storage.Record{sameKey}}},
		{storage.RecordStale, &storage.Change{Tenant: tenant, DeleteRecords: []storage.RecordDelete{{Kind: record.Kind, ID: record.ID, Rev: record.Rev + 1}}}},
	} {
		v.refused(refused.change, refused.kind, 0)
	}
	next := w.token("next")
	v.write(insert(tenant, next))
	v.refused(insert(tenant, w.token("next")), storage.TokenIDTaken, 0)
	w.commit(tx)
	w.hasTokens(tenant, old, next)
}

func txCounts(w *txWorld) {
	tenant, m := w.id(), w.mirrored()
	for i := range 8 {
		made := insert(tenant, w.mixed(6)...)
		gone := &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(made.InsertTokens[0])}}
		tx, in := w.begin()
		w.apply(in, made)
		w.apply(in, gone)
		if i%2 == 1 {
			w.rollback(tx)
		} else {
			w.commit(tx)
			m.model.write(made)
			m.model.write(gone)
		}
		m.write(insert(tenant, w.mixed(1)...))
		m.agree([]*storage.Change{made})
	}
	for range 2 {
		w.sweepAt(now, 10)
		m.agree([]*storage.Change{{Tenant: tenant}})
	}
}

// mixed returns tokens of several types and sets, with different ids.
func (w *txWorld) mixed(n int) []storage.Token {
	tokens := w.tokenSeries("t", n)
	for i := range tokens {
		t := &tokens[i]
		t.ID, t.Type, t.Set, t.Containers = fmt.Sprintf("%x", t.Ord), types[i%3], sets[i%2].Set, sets[i%2].Containers
		t.ExpiresAt = []time.Time{{}, earlier, now, later}[i%4]
	}
	return tokens
}

func txEnded(w *txWorld) {
	tenant := w.id()
	for name, end := range map[string]func(storage.SQLTx) error{"commit": storage.SQLTx.Commit, "rollback": storage.SQLTx.Rollback} {
		tx, in := w.begin()
		w.ok(name, end(tx))
		if err := in.Write(w.Context(), insert(tenant, w.token(name))); !errors.Is(err, sql.ErrTxDone) {
			w.Errorf("a write after the %s: got %v", name, err)
		}
		if _, err := in.Tokens(w.Context(), tenant, []string{"a"}); !errors.Is(err, sql.ErrTxDone) {
			w.Errorf("a read after the %s: got %v", name, err)
		}
		if _, err := w.txStorage().InTx(w.Context(), tx); !errors.Is(err, sql.ErrTxDone) {
			w.Errorf("InTx after the %s: got %v", name, err)
		}
	}
	w.hasTokens(tenant)
}

func txOther(w *txWorld) {
	for name, begin := range w.backend.Others(w.T) {
		tx := must(begin(w.Context()))(w.world, "begin")
		if _, err := w.txStorage().InTx(w.Context(), tx); !errors.Is(err, storage.ErrOtherDatabase) {
			w.Errorf("%s: got %v, want ErrOtherDatabase", name, err)
		}
		if _, err := tx.ExecContext(w.Context(), "SELECT 1"); err != nil {
			w.Errorf("%s: the transaction is no longer usable: %v", name, err)
		}
		w.rollback(tx)
	}
}

func txContext(w *txWorld) {
	tenant, token := w.id(), w.token("mine")
	tx, in := w.begin()
	gone, cancel := context.WithCancel(w.Context())
	cancel()
	if err := in.Write(gone, insert(tenant, w.token("gone"))); !errors.Is(err, context.Canceled) {
		w.Errorf("a write: got %v", err)
	}
	if _, err := in.Tokens(gone, tenant, []string{"a"}); !errors.Is(err, context.Canceled) {
		w.Errorf("a read: got %v", err)
	}
	w.apply(in, insert(tenant, token))
	w.commit(tx)
	w.hasTokens(tenant, token)
}

// ring inserts a record that changes can hold.
func (w *txWorld) ring(tenant storage.ID) (storage.Record, *storage.Hold) {
	w.Helper()
	r := w.record("ring", "")
	w.write(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{r}})
	return r, &storage.Hold{Kind: r.Kind, ID: r.ID, Rev: r.Rev}
}

func txHold(w *txWorld) {
	tenant, token := w.id(), w.token("mine")
	ring, held := w.ring(tenant)
	c := insert(tenant, token)
	c.Hold = held
	tx, in := w.begin()
	w.apply(in, c)
	var committed atomic.Bool
	changed, early := make(chan error, 1), make(chan bool, 1)
	go func() {
		err := w.store.Write(w.Context(), &storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{{Rev: ring.Rev, Record: ring}}})
		early <- !committed.Load()
		changed <- err
	}()
	for i := range 20 {
		w.apply(in, insert(tenant, w.token("more"+string(rune('a'+i)))))
	}
	committed.Store(true)
	w.commit(tx)
	if <-early {
		w.Error("the record was changed before the transaction ended")
	}
	if err := <-changed; err != nil {
		w.Errorf("after the commit the record could not be changed: %v", err)
	}
}
