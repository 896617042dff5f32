package erase_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Ids of tokens that do not exist, or that the caller may not see, are not counted.
func TestEraseByID(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.jane(t, 3)
		must.Get(w.Owner.CreateToken(t.Context(), vault.TokenParams{ID: "secret-pii", Type: vault.TypeGeneric, Data: "x", Containers: []string{"/pii/high/"}}))(t)
		ids := []string{"jane-000", "jane-001", "jane-001", "nobody", "not\x00an id", "", "secret-pii"}
		for range 900 {
			ids = append(ids, uuid.NewString())
		}
		rule := func(priority int, container string, permissions ...vault.Permission) vault.AccessRule {
			return vault.AccessRule{Priority: priority, Container: container, Transform: vault.TransformMask, Permissions: permissions}
		}
		for _, step := range []struct {
			rules       []vault.AccessRule
			count, left int
		}{
			{[]vault.AccessRule{rule(1, "/general/", "token:delete")}, 2, 0}, // it does not see the other token
			{[]vault.AccessRule{rule(1, "/", "token:search"), rule(2, "/general/", "token:delete")}, 0, 1},
			{nil, 1, 0},
		} {
			c, _ := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, step.rules)
			done, err := c.EraseTokens(t.Context(), vault.EraseParams{IDs: ids, Reason: "case 4711"})
			if err != nil || done.Count != step.count || done.Left != step.left {
				t.Errorf("%d rules: %+v, %v", len(step.rules), done, err)
			}
		}
		must.Same(t, "tokens are left", 1, w.found(t, "metadata.person:jane"))
		if e := w.entries(t, vault.ListLogsParams{Operation: vault.OperationDelete}); len(e) != 3 || e[0].Message != "Token erased" {
			t.Errorf("entries: %+v", e)
		}
		c, _ := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{rule(1, "/", "token:search")})
		_, err := c.EraseTokens(t.Context(), vault.EraseParams{IDs: ids, Reason: "case"})
		must.Match(t, "without token:delete", err, vault.ErrForbidden)
	})
}

// An erasure in a transaction ends with it. After the commit, a sweep deletes the
// dependents.
func TestEraseInATransaction(t *testing.T) {
	t.Parallel()
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "v.db")))(t)
	db := must.Get(store.OpenDB())(t)
	defer func() { _ = db.Close() }()
	w := &world{inbox: httptest.NewServer(http.NotFoundHandler())}
	defer w.inbox.Close()
	w.Vault = vaulttest.OpenStorage(t, store, &vault.Config{
		Runtime: echo{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}, Evidence: &vault.EvidenceConfig{},
	})
	responses := w.dependents(t)
	before := w.found(t, janes.Query)
	for _, commits := range []bool{false, true} {
		tx := must.Get(db.BeginTx(t.Context(), nil))(t)
		done, err := w.Owner.InTx(tx).EraseTokens(t.Context(), janes)
		if err != nil || done.Count != before || done.Left != 0 {
			t.Fatalf("in the transaction: %+v, %v", done, err)
		}
		if end := tx.Rollback; !commits {
			if err := end(); err != nil || w.found(t, janes.Query) != before {
				t.Errorf("after the rollback %d tokens, %v", w.found(t, janes.Query), err)
			}
			continue
		}
		if err := tx.Commit(); err != nil || w.found(t, janes.Query) != 0 {
			t.Errorf("after the commit %d tokens, %v", w.found(t, janes.Query), err)
		}
		for range 2 {
			must.Get(w.Sweep(t.Context()))(t)
		}
		w.checkDependents(t, responses)
		var bundle bytes.Buffer
		if err := w.Owner.ExportEvidence(t.Context(), &bundle); err != nil || !hasErasure(t, bundle.Bytes(), done) {
			t.Errorf("the bundle has no event of the erasure: %v", err)
		}
		if report, err := w.VerifyLogs(t.Context(), nil); err != nil || !report.OK() {
			t.Errorf("the log: %+v, %v", report, err)
		}
	}
}
