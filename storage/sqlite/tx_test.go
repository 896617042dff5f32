package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

func TestTxStorage(t *testing.T) {
	t.Parallel()
	storagetest.RunTx(t, storagetest.TxBackend{New: func(tb testing.TB) (storagetest.Opener, storagetest.Begin) {
		path := newVault(tb)
		open := func(ctx context.Context) (storage.Storage, error) { return sqlite.Open(ctx, path) }
		return open, storagetest.BeginOn(application(tb, path))
	}, Others: others})
}

// others returns databases that are not the vault's.
func others(tb testing.TB) map[string]storagetest.Begin {
	tb.Helper()
	empty, another := filepath.Join(tb.TempDir(), "empty.db"), filepath.Join(tb.TempDir(), "another.db")
	s := must.Get(sqlite.Open(tb.Context(), another))(tb)
	tb.Cleanup(func() { _ = s.Close() })
	return map[string]storagetest.Begin{
		"empty":         storagetest.BeginOn(application(tb, empty)),
		"another vault": storagetest.BeginOn(application(tb, another)),
	}
}

// TestTxOnACopyIsRejected checks that a copy of the file, which has the same id, counts
// as another database, and a link to the file as the same.
func TestTxOnACopyIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, copied, link := filepath.Join(dir, "vault.db"), filepath.Join(dir, "copy.db"), filepath.Join(dir, "link.db")
	if s, err := sqlite.Open(t.Context(), path); err != nil || s.Close() != nil {
		t.Fatal(err)
	}
	content := must.Get(os.ReadFile(path))(t)
	must.Do(t, os.WriteFile(copied, content, 0o600))
	must.Do(t, os.Symlink(path, link))
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	defer s.Close()
	for file, want := range map[string]error{copied: storage.ErrOtherDatabase, link: nil, path: nil} {
		tx := must.Get(application(t, file).Begin())(t)
		must.Fail(s.InTx(t.Context(), tx))(t, filepath.Base(file), want)
		must.Do(t, tx.Rollback())
	}
}

// TestReadOnlyTxIsRejected covers the two ways in which an application's
// connection cannot write.
func TestReadOnlyTxIsRejected(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vault.db")
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	defer s.Close()
	for name, dsn := range map[string]string{"query_only": "file:" + path + "?_pragma=query_only(1)", "mode=ro": "file:" + path + "?mode=ro"} {
		db := must.Get(sql.Open("sqlite", dsn))(t)
		tx := must.Get(db.Begin())(t)
		must.Fail(s.InTx(t.Context(), tx))(t, name, storage.ErrReadOnly)
		_ = tx.Rollback()
		must.Do(t, db.Close())
	}
}

// TestTxTakesTheLockLateIfItCan begins transactions as database/sql does by
// default. One takes the lock when it needs it. The other has read before a
// write of the vault, and cannot get the lock any more.
func TestTxTakesTheLockLateIfItCan(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vault.db")
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	defer s.Close()
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	defer db.Close()
	for name, want := range map[string]error{"begun": nil, "has read": storage.ErrUnavailable} {
		tx := must.Get(db.Begin())(t)
		if want != nil {
			var n int
			must.Do(t, tx.QueryRow(`SELECT count(*) FROM vault_tokens`).Scan(&n))
			must.Do(t, s.Write(t.Context(), logOnly(1)))
		}
		in, err := s.InTx(t.Context(), tx)
		must.Match(t, name, err, want)
		if err == nil {
			err = in.Write(t.Context(), logOnly(2))
		}
		if want == nil && err != nil {
			t.Errorf("%s: a write: %v", name, err)
		}
		must.Do(t, tx.Rollback())
	}
}

// TestWritesGiveUpBesideATransaction checks that writes beside an open transaction
// of the application give up, and that none of them blocks a write after the
// transaction.
func TestWritesGiveUpBesideATransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "vault.db")
	s := must.Get(sqlite.OpenOptions(t.Context(), path, &sqlite.Options{WriteWait: 200 * time.Millisecond}))(t)
	defer s.Close()
	tx := must.Get(application(t, path).Begin())(t)
	defer func() { _ = tx.Rollback() }()
	in := must.Get(s.InTx(t.Context(), tx))(t)
	must.Do(t, in.Write(t.Context(), logOnly(1)))
	for i := range 3 {
		err := s.Write(t.Context(), logOnly(byte(2+i)))
		must.Match(t, "a write beside the transaction", err, storage.ErrUnavailable)
		must.Contain(t, "its likely cause", err.Error(), "use a client of InTx")
	}
	must.Do(t, tx.Commit())
	must.Match(t, "a write after the transaction", s.Write(t.Context(), logOnly(9)), nil)
}

// logOnly returns a change with one log entry.
func logOnly(n byte) *storage.Change {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return &storage.Change{Tenant: storage.ID{1}, Now: now, Logs: []storage.Log{{
		ID: storage.ID{n}, ActorType: "user", EntityType: "token", EntityID: "x", Operation: "read", Message: "Token read", CreatedAt: now,
	}}}
}

// application opens a file as an application does.
func application(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)"))(tb)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
