package vault_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// fullAudit runs a test on both databases.
func fullAudit(t *testing.T, test func(*testing.T, *vaulttest.Vault)) {
	t.Helper()
	cfg := vault.Config{FullAudit: true, Evidence: &vault.EvidenceConfig{}}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, vaulttest.Open(t, ":memory:", &cfg))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		store, err := postgres.Open(t.Context(), pgtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		test(t, vaulttest.OpenStorage(t, store, &cfg))
	})
}

// about returns the messages of entries, oldest first.
func about(t *testing.T, v *vaulttest.Vault, f vault.LogFilter) []string {
	t.Helper()
	all := []string{}
	for e, err := range v.Owner.AllLogs(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Message)
	}
	slices.Reverse(all)
	return all
}

func TestDeniedCalls(t *testing.T) {
	t.Parallel()
	fullAudit(t, func(t *testing.T, v *vaulttest.Vault) {
		ctx, denied := t.Context(), vault.LogFilter{Operation: vault.OperationDenied}
		reader := holding(t, v, "token:create").From("192.0.2.7")
		for range 3 {
			if _, err := reader.GetToken(ctx, "x"); !errors.Is(err, vault.ErrForbidden) {
				t.Fatal(err)
			}
		}
		_ = reader.HasPermission(ctx, "token:update") // a question
		if err := reader.DeleteToken(ctx, "x"); !errors.Is(err, vault.ErrForbidden) {
			t.Fatal(err)
		}
		if _, err := v.Owner.GetToken(ctx, "x"); !errors.Is(err, vault.ErrNotFound) {
			t.Fatal(err)
		}
		want := []string{"Denied: GetToken (token:read)", "Denied: DeleteToken (token:delete)"}
		same(t, "entries", about(t, v, denied), want)

		v.Clock.Advance(time.Second)
		for range 2 {
			_, _ = reader.GetToken(ctx, "x")
		}
		want = append(want, "Denied 3 times: GetToken (token:read)")
		same(t, "entries after a second", about(t, v, denied), want)
		page, err := v.Owner.ListLogs(ctx, vault.ListLogsParams{Operation: vault.OperationDenied})
		if err != nil {
			t.Fatal(err)
		}
		app := reader.ApplicationID()
		if e := page.Data[0]; e.ActorID != app || e.EntityType != "application" || e.EntityID != app.String() || e.Origin != "192.0.2.7" {
			t.Errorf("the entry is %+v", e)
		}
		checkEvidence(t, v, page.Data[0].ID)
	})
}

// A rollback does not take away that a call was denied, where the database has a
// connection beside the transaction.
func TestDeniedInATransaction(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	store, err := postgres.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.OpenStorage(t, store, &vault.Config{FullAudit: true})
	db, err := sql.Open("postgres", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := holding(t, v, "token:create").InTx(tx).DeleteToken(t.Context(), "x"); !errors.Is(err, vault.ErrForbidden) {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	same(t, "entries", about(t, v, vault.LogFilter{Operation: vault.OperationDenied}), []string{"Denied: DeleteToken (token:delete)"})
}

func TestRefusedRowsAndReadsOfTheLog(t *testing.T) {
	t.Parallel()
	fullAudit(t, func(t *testing.T, v *vaulttest.Vault) {
		ctx := t.Context()
		rows := func(yield func(vault.TokenParams, error) bool) {
			for i, number := range []string{visa, "1234", mastercard, "4321"} {
				if !yield(vault.TokenParams{ID: fmt.Sprint("card-", i), Type: vault.TypeCardNumber, Data: number}, nil) {
					return
				}
			}
		}
		for _, err := range revealing(t, v).Import(ctx, rows, nil) {
			if err != nil {
				t.Fatal(err)
			}
		}
		same(t, "rows", about(t, v, vault.LogFilter{Operation: vault.OperationImport}),
			[]string{"Import: of 4 rows 2 refused, 0 skipped", "Import: row 2 refused", "Import: row 4 refused"})

		reads := vault.LogFilter{EntityType: "log", Operation: vault.OperationRead}
		before := len(about(t, v, reads)) // it is a read too, which the next one sees
		if _, err := v.Management.ListLogs(ctx, vault.ListLogsParams{}); err != nil {
			t.Fatal(err)
		}
		batch, err := v.Management.NextLogs(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // goes on, and does not find itself
			if batch, err = v.Management.NextLogs(ctx, batch.Cursor, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range v.Management.FollowLogs(ctx, batch.Cursor) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if err := v.Management.ExportEvidence(ctx, new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
		if got := about(t, v, reads); len(got) != before+5 || got[0] != "Log read" {
			t.Errorf("%d reads of the log after %d: %q", len(got), before, got)
		}
		types, err := v.Management.ListEntityTypes(ctx)
		if err != nil || !slices.Contains(types, vault.EntityType{DisplayName: "Log", Value: "log"}) {
			t.Errorf("%v: %v", err, types)
		}
		page, err := v.Owner.ListLogs(ctx, vault.ListLogsParams{EntityType: "log"})
		if err != nil || page.Pagination.TotalItems != len(page.Data) || page.Data[0].EntityID != v.Acme.ID.String() {
			t.Errorf("%v: %+v", err, page)
		}
	})
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	ctx, path, key := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
	clock := vaulttest.NewClock(vaulttest.Start)
	cfg := &vault.Config{FullAudit: true, Now: clock.Now, SweepEvery: -1, WorkEvery: -1}
	var acme *vault.Tenant
	for range 2 {
		v, err := vault.Open(ctx, onDisk(t, path), key, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if acme, err = v.EnsureTenant(ctx, "Acme"); err != nil {
			t.Fatal(err)
		}
		app, err := v.Tenant(acme.ID).CreateApplication(ctx, vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}})
		if err != nil {
			t.Fatal(err)
		}
		c := authenticated(t, v, app.Key)
		for range 3 {
			_ = c.DeleteToken(ctx, "x")
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Minute)
	}
	cfg.FullAudit = false
	v, err := vault.Open(ctx, onDisk(t, path), key, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var got []string
	for e, err := range v.Tenant(acme.ID).AllLogs(ctx, vault.LogFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Operation != vault.OperationCreate && e.EntityType != "tenant" {
			got = append(got, string(e.Operation)+" "+e.EntityType+": "+e.Message)
		}
	}
	slices.Reverse(got)
	once := []string{
		"denied application: Denied: DeleteToken (token:delete)", "denied application: Denied 2 times: DeleteToken (token:delete)", "stop log: Vault stopped",
	}
	same(t, "entries", got, slices.Concat(once, []string{"start log: Vault started"}, once))
}
