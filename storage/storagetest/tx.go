package storagetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

func txRules() []txRule {
	rules := []txRule{
		{"a transaction that has ended is sql.ErrTxDone", txEnded},
		{"a transaction on another database is ErrOtherDatabase, and nothing is written", txOther},
		{"a context that has ended leaves the transaction usable", txContext},
		{"Hold: the record stays as it is until the transaction ends", txHold},
		{"others do not wait for a transaction, where the storage works beside it", txStrangers},
		{"what waits for a transaction is served after it", txWaits},
		{"several callers may share a transaction", txShared},
	}
	for seed := range uint64(3) {
		rules = append(rules, txRule{
			fmt.Sprintf("a history of transactions, what they see and what they leave agree with the model, seed %d", seed),
			func(w *txTest) { txHistory(w, seed) },
		})
	}
	return rules
}

type txRule struct {
	text  string
	holds func(w *txTest)
}

// txTest is a test whose database is shared with an application.
type txTest struct {
	*dbTest
	backend TxBackend
	beginTx Begin
}

func newTxTest(t *testing.T, b TxBackend) *txTest {
	t.Helper()
	w := &txTest{backend: b}
	w.dbTest = newDbTest(t, Backend{Volatile: b.Volatile, New: func(tb testing.TB) Opener {
		var open Opener
		open, w.beginTx = b.New(tb)
		return open
	}})
	return w
}

func (w *txTest) txStorage() storage.TxStorage {
	w.Helper()
	s, ok := w.store.(storage.TxStorage)
	if !ok {
		w.Fatal("the storage does not implement storage.TxStorage")
	}
	return s
}

// begin begins a transaction, which is rolled back at the end of the test.
func (w *txTest) begin() (storage.SQLTx, storage.Tx) {
	w.Helper()
	tx := must(w.beginTx(context.Background()))(w.dbTest, "begin")
	w.Cleanup(func() { _ = tx.Rollback() })
	in := must(w.txStorage().InTx(w.Context(), tx))(w.dbTest, "in tx")
	return tx, in
}

func (w *txTest) apply(in storage.Tx, c *storage.Change) {
	w.Helper()
	w.ok("write in the transaction", in.Write(w.Context(), c))
}

func (w *txTest) commit(tx storage.SQLTx) {
	w.Helper()
	w.ok("commit", tx.Commit())
}

func (w *txTest) rollback(tx storage.SQLTx) {
	w.Helper()
	w.ok("rollback", tx.Rollback())
}

func (w *txTest) exec(tx storage.SQLTx, statement string) {
	w.Helper()
	if _, err := tx.ExecContext(w.Context(), statement); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
}

// view returns a test that reads what a transaction sees.
func (w *txTest) view(in storage.Tx) *dbTest {
	v := *w.dbTest
	v.store = &txShim{Storage: w.store, open: in}
	return &v
}

// txHistory writes a history in transactions of the application. Some of them are
// rolled back, as a whole or to a savepoint, without telling the backend.
func txHistory(w *txTest, seed uint64) {
	m := w.mirrored().model
	g, rows := newGenerator(seed, m), m.store.(*model.Store)
	for range 10 {
		tenant, saved := pick(g, g.tenants), rows.Save()
		before := w.state(tenant)
		tx, in := w.begin()
		v := w.view(in)
		for range 1 + g.IntN(4) {
			if g.IntN(4) == 0 {
				w.exec(tx, "SAVEPOINT theirs")
				undo := rows.Save()
				agreeOnChange(v, m, g.change(tenant))
				w.exec(tx, "ROLLBACK TO SAVEPOINT theirs")
				undo()
			}
			agreeOnChange(v, m, g.change(tenant))
		}
		agreeOnRows(v, m, g, tenant)
		if w.txStorage().Beside() {
			w.same("state beside the transaction", w.state(tenant), before)
		}
		if g.IntN(3) == 0 {
			w.rollback(tx)
			saved()
		} else {
			w.commit(tx)
		}
		agreeOnChange(w.dbTest, m, g.change(tenant))
		w.agreeOnState(m, tenant)
	}
	for range 2 {
		w.agree(m, "more to sweep", now, func(w *dbTest) any { return w.sweepAt(now, 1000) })
		for _, tenant := range g.tenants {
			w.agreeOnState(m, tenant)
		}
	}
}

func txEnded(w *txTest) {
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

func txOther(w *txTest) {
	for name, begin := range w.backend.Others(w.T) {
		tx := must(begin(w.Context()))(w.dbTest, "begin")
		if _, err := w.txStorage().InTx(w.Context(), tx); !errors.Is(err, storage.ErrOtherDatabase) {
			w.Errorf("%s: got %v, want ErrOtherDatabase", name, err)
		}
		if _, err := tx.ExecContext(w.Context(), "SELECT 1"); err != nil {
			w.Errorf("%s: the transaction is no longer usable: %v", name, err)
		}
		w.rollback(tx)
	}
}

func txContext(w *txTest) {
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

func txHold(w *txTest) {
	tenant, token, ring := w.id(), w.token("mine"), w.record("ring", "")
	w.write(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{ring}})
	c := insert(tenant, token)
	c.Hold = &storage.Hold{Kind: ring.Kind, ID: ring.ID, Rev: ring.Rev}
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
