package erase_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// authorize creates applications and a session with rights.
func (r *restored) authorize() {
	r.t.Helper()
	ctx := r.t.Context()
	r.deleted, r.rekeyed, r.kept = r.application("Deleted", vault.ApplicationPrivate), r.application("Rekeyed", vault.ApplicationPrivate), r.application("Kept", vault.ApplicationPrivate)
	r.second = must.Get(r.owner().CreateApplicationKey(ctx, r.kept.ID, vault.ApplicationKeyParams{}))(r.t)
	public := must.Get(r.Authenticate(ctx, r.application("Public", vault.ApplicationPublic).Key))(r.t)
	r.session = must.Get(public.CreateSession(ctx))(r.t)
	must.Do(r.t, r.owner().AuthorizeSession(ctx, vault.SessionGrant{
		Nonce: r.session.Nonce, Permissions: []vault.Permission{"token:create"}, ExpiresAt: r.clock.Now().Add(24 * time.Hour),
	}))
}

func (r *restored) application(name string, typ vault.ApplicationType) *vault.Application {
	r.t.Helper()
	return must.Get(r.owner().CreateApplication(r.t.Context(), vault.ApplicationParams{Name: name, Type: typ, Permissions: []vault.Permission{"token:create"}}))(r.t)
}

// withdraw withdraws one of each kind.
func (r *restored) withdraw() {
	r.t.Helper()
	ctx := r.t.Context()
	r.clock.Advance(time.Minute)
	r.erase("erased")
	_, byID := r.owner().EraseTokens(ctx, vault.EraseParams{IDs: []string{"erased-by-id"}, Reason: "case 4711"})
	regenerated, key := r.owner().RegenerateKey(ctx, r.rekeyed.ID)
	sessions, listed := r.owner().ListSessions(ctx, vault.PageParams{})
	err := errors.Join(byID, key, listed, r.eraseInTx("erased-in-tx"), r.owner().DeleteToken(ctx, "deleted"), r.owner().DeleteApplication(ctx, r.deleted.ID),
		r.owner().DeleteApplicationKey(ctx, r.kept.ID, r.second.ID))
	if err != nil || len(sessions.Data) != 1 {
		r.t.Fatal(sessions, err)
	}
	r.newKey = regenerated.Key
	must.Do(r.t, r.owner().DeleteSession(ctx, sessions.Data[0].ID))
}

// eraseInTx erases a token in a transaction on the database.
func (r *restored) eraseInTx(id string) error {
	db, err := r.store.OpenDB()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(r.t.Context(), nil)
	if err != nil {
		return err
	}
	_, err = r.owner().InTx(tx).EraseTokens(r.t.Context(), vault.EraseParams{IDs: []string{id}, Reason: "case 4711"})
	return errors.Join(err, tx.Commit())
}

// working returns which keys work.
func (r *restored) working() map[string]bool {
	r.t.Helper()
	works := map[string]bool{}
	for name, key := range map[string]string{
		"deleted": r.deleted.Key, "rekeyed": r.rekeyed.Key, "kept": r.kept.Key, "second": r.second.Key, "session": r.session.SessionKey,
	} {
		_, err := r.Authenticate(r.t.Context(), key)
		if err != nil && !errors.Is(err, vault.ErrUnauthenticated) {
			r.t.Errorf("%s: %v", name, err)
		}
		works[name] = err == nil
	}
	return works
}

// withdrawn maps each key to whether it works at the end.
var withdrawn = map[string]bool{"deleted": false, "rekeyed": false, "kept": true, "second": false, "session": false}

// After a restore, one of each kind that was withdrawn since the backup is withdrawn
// again.
func TestWithdrawalsAreAppliedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bundle", "log"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, bundle, log := newRestored(t)
			file := map[string][]byte{"bundle": bundle, "log": log}[name]
			r.open()
			defer func() { r.close() }()
			_, err := r.EraseAgain(t.Context(), vault.EraseAgainParams{Files: files(file)})
			must.Match(t, "before the restore is accepted", err, vault.ErrConflict)
			must.Do(t, r.AcceptRestore(t.Context(), "disk failure"))
			r.close()
			r.open()
			if s, err := r.EvidenceStatus(); err != nil || !s.LacksErasures || !strings.Contains(s.Wrong(), "erasures") {
				t.Errorf("after the restore: %+v, %v", s, err)
			}
			all := vault.ErasedAgain{Erased: 5, Count: 4, Applications: 1, Keys: 2, Sessions: 1}
			r.checkAgain(all, file, true)
			if diff := cmp.Diff(map[string]bool{"deleted": true, "rekeyed": true, "kept": true, "second": true, "session": true}, r.working()); diff != "" || len(r.there()) != 5 {
				t.Fatalf("the restore and a dry run brought back %q and (-want +got):\n%s", r.there(), diff)
			}
			if s, err := r.EvidenceStatus(); err != nil || !s.LacksErasures {
				t.Errorf("after the dry run: %+v, %v", s, err)
			}
			r.checkAgain(all, file, false)
			must.Same(t, "at the end", withdrawn, r.working())
			must.Same(t, "tokens", []string{"kept"}, r.there())
			r.checkOwnKey(file)
			if s, err := r.EvidenceStatus(); err != nil || s.LacksErasures {
				t.Errorf("at the end: %+v, %v", s, err)
			}
			if report, err := r.VerifyLogs(t.Context(), nil); err != nil || !report.OK() {
				t.Errorf("the log: %+v, %v", report, err)
			}
		})
	}
}

// checkAgain compares the outcome of withdrawing again.
func (r *restored) checkAgain(want vault.ErasedAgain, file []byte, dry bool) {
	r.t.Helper()
	done := must.Get(r.EraseAgain(r.t.Context(), vault.EraseAgainParams{Files: files(file), DryRun: dry}))(r.t)
	must.Same(r.t, "withdrawn again", &want, done)
}

// checkOwnKey checks that the owner of an application can make a new key, and that
// withdrawing once more leaves it.
func (r *restored) checkOwnKey(file []byte) {
	r.t.Helper()
	must.Fail(r.Authenticate(r.t.Context(), r.newKey))(r.t, "the key that the restore lost", vault.ErrUnauthenticated)
	app := must.Get(r.owner().RegenerateKey(r.t.Context(), r.rekeyed.ID))(r.t)
	r.checkAgain(vault.ErasedAgain{Erased: 5}, file, false)
	must.Get(r.Authenticate(r.t.Context(), app.Key))(r.t)
}
