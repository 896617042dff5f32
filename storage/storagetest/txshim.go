package storagetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// TxBackend tells the suite how to create and open databases that an
// application shares.
type TxBackend struct {
	// New creates an empty database, like the New of [Backend]. It returns
	// functions that open the database and begin the application's transactions
	// on it. These transactions can write, and wait for each other.
	New func(tb testing.TB) (Opener, Begin)

	// Others begins transactions on databases that New has not created: one
	// without a vault, and one with another vault.
	Others func(tb testing.TB) map[string]Begin

	// Volatile has the same meaning as in [Backend].
	Volatile bool

	// Chapters names the chapters of the contract to check in transactions. If
	// empty, all are checked. The rules about transactions themselves are
	// always checked.
	Chapters []string
}

// Begin begins a transaction of the application. The context is for the call
// alone: the transaction stays open after the context ends.
type Begin func(ctx context.Context) (storage.SQLTx, error)

// BeginOn begins transactions on a pool of [database/sql].
func BeginOn(db *sql.DB) Begin {
	return func(ctx context.Context) (storage.SQLTx, error) { return db.BeginTx(context.WithoutCancel(ctx), nil) }
}

// RunTx checks every rule of [storage.TxStorage]. It also checks that changes
// and reads in transactions of the application follow the same rules as
// elsewhere.
func RunTx(t *testing.T, b TxBackend) {
	t.Helper()
	t.Run("Transactions", func(t *testing.T) {
		t.Parallel()
		for _, r := range txRules() {
			t.Run(r.text, func(t *testing.T) {
				t.Parallel()
				r.holds(newTxTest(t, b))
			})
		}
	})
	inTx := Backend{Volatile: b.Volatile, Chapters: b.Chapters, New: func(tb testing.TB) Opener {
		open, begin := b.New(tb)
		return func(ctx context.Context) (storage.Storage, error) {
			s, err := open(ctx)
			if err != nil {
				return nil, err
			}
			return &txShim{Storage: s, begin: begin}, nil
		}
	}}
	run(t, inTx, func(c chapter) bool { return c.inTx })
}

// txShim is a storage that does every read and write in a separate transaction
// on a connection of an application. It also commits after a rejected write,
// which must have left nothing to commit.
type txShim struct {
	storage.Storage
	begin Begin
	open  storage.Tx // if not nil, used instead of separate transactions
}

func within[T any](ctx context.Context, s *txShim, do func(storage.Tx) (T, error)) (T, error) {
	if s.open != nil {
		return do(s.open)
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	tx, err := s.begin(ctx)
	if err != nil {
		return none, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	in, err := s.Storage.(storage.TxStorage).InTx(ctx, tx)
	if err != nil {
		return none, err
	}
	out, failed := do(in)
	if err := tx.Commit(); err != nil {
		return none, err
	}
	return out, failed
}

func (s *txShim) Write(ctx context.Context, c *storage.Change) error {
	_, err := within(ctx, s, func(tx storage.Tx) (struct{}, error) { return struct{}{}, tx.Write(ctx, c) })
	return err
}

func (s *txShim) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	return within(ctx, s, func(tx storage.Tx) ([]storage.Token, error) { return tx.Tokens(ctx, tenant, ids) })
}

func (s *txShim) Duplicate(ctx context.Context, tenant storage.ID, d storage.Duplicate) (*storage.Token, error) {
	return within(ctx, s, func(tx storage.Tx) (*storage.Token, error) { return tx.Duplicate(ctx, tenant, d) })
}

// listWithin is like within, for a list with its total.
func listWithin[T any](ctx context.Context, s *txShim, do func(storage.Tx) ([]T, int, error)) (rows []T, total int, err error) {
	rows, err = within(ctx, s, func(tx storage.Tx) (rows []T, err error) {
		rows, total, err = do(tx)
		return rows, err
	})
	return rows, total, err
}

func (s *txShim) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	return listWithin(ctx, s, func(tx storage.Tx) ([]storage.Token, int, error) { return tx.ListTokens(ctx, f) })
}

func (s *txShim) ContainerSets(ctx context.Context, tenant storage.ID) ([]storage.ContainerSet, error) {
	return within(ctx, s, func(tx storage.Tx) ([]storage.ContainerSet, error) { return tx.ContainerSets(ctx, tenant) })
}

func (s *txShim) Expired(ctx context.Context, f storage.ExpiredFilter) (storage.Expired, error) {
	return within(ctx, s, func(tx storage.Tx) (storage.Expired, error) { return tx.Expired(ctx, f) })
}

func (s *txShim) ListLogs(ctx context.Context, f storage.LogFilter) ([]storage.Log, int, error) {
	return listWithin(ctx, s, func(tx storage.Tx) ([]storage.Log, int, error) { return tx.ListLogs(ctx, f) })
}

func (s *txShim) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	return within(ctx, s, func(tx storage.Tx) ([]storage.Record, error) { return tx.Records(ctx, tenant, kind, ids) })
}

func (s *txShim) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	return within(ctx, s, func(tx storage.Tx) (storage.Record, error) { return tx.Lookup(ctx, key) })
}

func (s *txShim) ListRecords(ctx context.Context, f storage.RecordFilter) ([]storage.Record, int, error) {
	return listWithin(ctx, s, func(tx storage.Tx) ([]storage.Record, int, error) { return tx.ListRecords(ctx, f) })
}

func txStrangers(w *txTest) {
	if !w.txStorage().Beside() {
		return
	}
	tenant, mine := w.id(), w.token("mine")
	tx, in := w.begin()
	w.apply(in, insert(tenant, mine))
	alike := w.tokenSeries("alike", 30)
	errs := try(len(alike), func(i int) error {
		t := alike[i]
		t.Type, t.Set, t.Containers = mine.Type, mine.Set, mine.Containers
		alike[i] = t
		of := tenant
		if i%3 == 0 {
			of = storage.ID{0xff}
		}
		return w.store.Write(w.Context(), insert(of, t))
	})
	w.ok("write beside the transaction", errors.Join(errs...)) // writes that wait for it give up
	w.commit(tx)
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), 21)
}

func txWaits(w *txTest) {
	tenant, mine := w.id(), w.token("mine")
	tx, in := w.begin()
	w.apply(in, insert(tenant, mine))
	sent := make(chan struct{}, 4)
	done := make(chan []error, 1)
	go func() {
		done <- try(4, func(i int) error {
			sent <- struct{}{}
			if i == 0 {
				return w.store.Write(w.Context(), insert(tenant, w.token("mine"))) // the same id
			}
			return w.store.Write(w.Context(), insert(tenant, w.token("other"+string(rune('a'+i)))))
		})
	}()
	for range 4 {
		<-sent
	}
	w.apply(in, insert(tenant, w.token("more")))
	w.commit(tx)
	errs := <-done
	w.isConflict(errs[0], storage.TokenIDTaken, 0)
	w.ok("write after the transaction", errors.Join(errs[1:]...))
	w.same("total", w.count(storage.TokenFilter{Tenant: tenant}), 5)
}

func txShared(w *txTest) {
	tenant, tokens := w.id(), w.tokenSeries("t", 12)
	tx, in := w.begin()
	errs := try(len(tokens), func(i int) error {
		if i%4 == 3 { // rejected, between others that are accepted
			_ = in.Write(w.Context(), &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(tokens[i])}})
		}
		if _, err := in.Tokens(w.Context(), tenant, []string{tokens[i].ID}); err != nil {
			return err
		}
		return in.Write(w.Context(), insert(tenant, tokens[i]))
	})
	w.ok("share a transaction", errors.Join(errs...))
	w.commit(tx)
	w.hasTokens(tenant, tokens...)
}
