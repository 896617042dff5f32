package erase_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// withdrawing is a vault with one of each kind that can be withdrawn.
type withdrawing struct {
	*restored
	deleted, rekeyed, kept *vault.Application
	public                 *vault.Client
	session                *vault.Session
	newKey                 string
}

func newWithdrawing(t *testing.T) *withdrawing {
	t.Helper()
	folder := t.TempDir()
	w := &withdrawing{restored: &restored{
		t: t, path: filepath.Join(folder, "vault.db"), key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start),
		anchor: vault.AnchorFile(filepath.Join(folder, "notes")),
	}}
	w.open()
	tenant, err := w.CreateTenant(t.Context(), "Acme")
	must.Do(t, err)
	w.tenant = tenant.ID
	w.create("erased", "erased-by-id", "erased-in-tx", "deleted", "kept")
	w.deleted, w.rekeyed, w.kept = w.application("Deleted", vault.ApplicationPrivate), w.application("Rekeyed", vault.ApplicationPrivate), w.application("Kept", vault.ApplicationPrivate)
	w.public, err = w.Authenticate(t.Context(), w.application("Public", vault.ApplicationPublic).Key)
	must.Do(t, err)
	w.session = must.Get(w.public.CreateSession(t.Context()))(t)
	err = w.owner().AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: w.session.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: w.clock.Now().Add(24 * time.Hour)})
	must.Do(t, err)
	return w
}

func (w *withdrawing) application(name string, typ vault.ApplicationType) *vault.Application {
	w.t.Helper()
	return must.Get(w.owner().CreateApplication(w.t.Context(), vault.ApplicationParams{Name: name, Type: typ, Permissions: []vault.Permission{"token:create"}}))(w.t)
}

// withdraw withdraws one of each kind.
func (w *withdrawing) withdraw() {
	w.t.Helper()
	ctx := w.t.Context()
	w.clock.Advance(time.Minute)
	w.erase("erased")
	_, byID := w.owner().EraseTokens(ctx, vault.EraseParams{IDs: []string{"erased-by-id"}, Reason: "case 4711"})
	regenerated, key := w.owner().RegenerateKey(ctx, w.rekeyed.ID)
	sessions, listed := w.owner().ListSessions(ctx, vault.PageParams{})
	err := errors.Join(byID, key, listed, w.eraseInTx("erased-in-tx"), w.owner().DeleteToken(ctx, "deleted"), w.owner().DeleteApplication(ctx, w.deleted.ID))
	if err != nil || len(sessions.Data) != 1 {
		w.t.Fatal(sessions, err)
	}
	w.newKey = regenerated.Key
	must.Do(w.t, w.owner().DeleteSession(ctx, sessions.Data[0].ID))
}

// eraseInTx erases a token in a transaction on the database.
func (w *withdrawing) eraseInTx(id string) error {
	db, err := w.store.OpenDB()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(w.t.Context(), nil)
	if err != nil {
		return err
	}
	_, err = w.owner().InTx(tx).EraseTokens(w.t.Context(), vault.EraseParams{IDs: []string{id}, Reason: "case 4711"})
	return errors.Join(err, tx.Commit())
}

// working returns which keys work.
func (w *withdrawing) working() map[string]bool {
	w.t.Helper()
	works := map[string]bool{}
	for name, key := range map[string]string{
		"deleted": w.deleted.Key, "rekeyed": w.rekeyed.Key, "kept": w.kept.Key, "session": w.session.SessionKey,
	} {
		_, err := w.Authenticate(w.t.Context(), key)
		if err != nil && !errors.Is(err, vault.ErrUnauthenticated) {
			w.t.Errorf("%s: %v", name, err)
		}
		works[name] = err == nil
	}
	return works
}

// After a restore, one of each kind that was withdrawn is withdrawn again.
func TestWithdrawalsAreAppliedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bundle", "log"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWithdrawing(t)
			w.close()
			backup := must.Get(os.ReadFile(w.path))(t)
			w.open()
			w.withdraw()
			want := map[string]bool{"deleted": false, "rekeyed": false, "kept": true, "session": false}
			must.Same(t, "before the restore", want, w.working())
			file := map[string][]byte{"bundle": w.bundle(), "log": w.log()}[name]
			w.close()
			must.Do(t, os.WriteFile(w.path, backup, 0o600))
			w.open()
			defer func() { w.close() }()
			must.Do(t, w.AcceptRestore(t.Context(), "disk failure"))
			w.close()
			w.open()
			if diff := cmp.Diff(map[string]bool{"deleted": true, "rekeyed": true, "kept": true, "session": true}, w.working()); diff != "" || len(w.there()) != 5 {
				t.Fatalf("the restore brought back %q and (-want +got):\n%s", w.there(), diff)
			}
			w.checkAgain(vault.ErasedAgain{Erased: 4, Count: 4, Applications: 1, Keys: 1, Sessions: 1}, file, true)
			if s, err := w.EvidenceStatus(); err != nil || !s.LacksErasures {
				t.Errorf("after the dry run: %+v, %v", s, err)
			}
			w.checkAgain(vault.ErasedAgain{Erased: 4, Count: 4, Applications: 1, Keys: 1, Sessions: 1}, file, false)
			must.Same(t, "at the end", want, w.working())
			must.Same(t, "tokens", []string{"kept"}, w.there())
			w.checkOwnKey(file)
			if s, err := w.EvidenceStatus(); err != nil || s.LacksErasures {
				t.Errorf("at the end: %+v, %v", s, err)
			}
			if report, err := w.VerifyLogs(t.Context(), nil); err != nil || !report.OK() {
				t.Errorf("the log: %+v, %v", report, err)
			}
		})
	}
}

// checkAgain compares the outcome of withdrawing again.
func (w *withdrawing) checkAgain(want vault.ErasedAgain, file []byte, dry bool) {
	w.t.Helper()
	done := must.Get(w.EraseAgain(w.t.Context(), vault.EraseAgainParams{Files: files(file), DryRun: dry}))(w.t)
	must.Same(w.t, "withdrawn again", &want, done)
}

// checkOwnKey checks that the owner of an application can make a new key, and that
// withdrawing once more leaves it.
func (w *withdrawing) checkOwnKey(file []byte) {
	w.t.Helper()
	must.Fail(w.Authenticate(w.t.Context(), w.newKey))(w.t, "the key that the restore lost", vault.ErrUnauthenticated)
	app := must.Get(w.owner().RegenerateKey(w.t.Context(), w.rekeyed.ID))(w.t)
	w.checkAgain(vault.ErasedAgain{Erased: 4}, file, false)
	must.Get(w.Authenticate(w.t.Context(), app.Key))(w.t)
}
