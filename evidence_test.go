package vault_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// somethingLogged leaves entries of several kinds of writers, and returns the newest.
func somethingLogged(t *testing.T, v *vaulttest.Vault) uuid.UUID {
	t.Helper()
	ctx := t.Context()
	soon := vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: v.Clock.Now().Add(time.Minute)}
	tok, err := v.Private.CreateToken(ctx, soon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Private.GetToken(ctx, tok.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Owner.RotateWebhookSecret(ctx); err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(2 * time.Minute)
	if _, err := v.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	page, err := v.Owner.ListLogs(ctx, vault.ListLogsParams{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Data[0].ID
}

// settled signs a checkpoint over everything that is committed, and verifies the log
// in place. On PostgreSQL a transaction of another test may hold entries back.
func settled(t *testing.T, v *vaulttest.Vault) *evidence.Report {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := v.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		report, err := v.VerifyLogs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool { return f.Verdict == evidence.Unsequenced }) {
			return report
		}
		<-tick.C
	}
}

// checkEvidence verifies a log in place, by its bundle, and by a proof.
func checkEvidence(t *testing.T, v *vaulttest.Vault, entry uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	if report := settled(t, v); len(report.Findings) > 0 {
		t.Fatalf("in place: %+v", report)
	}
	key, err := v.EvidenceKey()
	if err != nil {
		t.Fatal(err)
	}
	var bundle bytes.Buffer
	if err := v.Owner.ExportEvidence(ctx, &bundle); err != nil {
		t.Fatal(err)
	}
	report, err := evidence.Verify(&bundle, key, nil)
	if err != nil || !report.OK() {
		t.Fatalf("bundle: %v, %+v", err, report)
	}
	proof, err := v.Owner.LogProof(ctx, entry)
	if err != nil {
		t.Fatal(err)
	}
	if err := evidence.VerifyProof(proof, key); err != nil {
		t.Error(err)
	}
	if _, err := v.Owner.LogProof(ctx, uuid.New()); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("the proof of no entry: %v", err)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}})
	checkEvidence(t, v, somethingLogged(t, v))

	if _, err := v.DB.ExecContext(t.Context(), `UPDATE vault_logs SET operation = 'read' WHERE operation = 'expire'`); err != nil {
		t.Fatal(err)
	}
	if _, err := v.DB.ExecContext(t.Context(), `DELETE FROM vault_logs WHERE operation = 'create' AND entity_type = 'token'`); err != nil {
		t.Fatal(err)
	}
	report, err := v.VerifyLogs(t.Context(), &vault.VerifyOptions{Tenants: []uuid.UUID{v.Acme.ID}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[evidence.Verdict]int{}
	for _, f := range report.Findings {
		found[f.Verdict]++
	}
	if report.OK() || found[evidence.Altered] != 1 || found[evidence.Missing] != 1 {
		t.Errorf("findings %+v", report.Findings)
	}
}

func TestEvidenceOnPostgres(t *testing.T) {
	t.Parallel()
	store, err := postgres.Open(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	v := vaulttest.OpenStorage(t, store, &vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example/log"}})
	checkEvidence(t, v, somethingLogged(t, v))
}

// Deleted tenants, and entries past their retention, are no tampering.
func TestEvidenceAfterDeletions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}, LogRetention: 24 * time.Hour})
	other, _ := v.NewTenant(t, "Other")
	if _, err := v.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if err := v.DeleteTenant(ctx, other.ID); err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(48 * time.Hour)
	entry := somethingLogged(t, v)
	if swept, err := v.Sweep(ctx); err != nil || swept.Logs != 0 {
		t.Fatalf("a second sweep: %+v, %v", swept, err)
	}
	page, err := v.Owner.ListLogs(ctx, vault.ListLogsParams{})
	if err != nil || page.Data[len(page.Data)-1].CreatedAt.Before(vaulttest.Start.Add(24*time.Hour)) {
		t.Fatalf("old entries are still there: %v", err)
	}
	if _, err := v.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	report, err := v.VerifyLogs(ctx, nil)
	if err != nil || !report.OK() {
		t.Errorf("%v, %+v", err, report)
	}
	if _, err := v.Owner.LogProof(ctx, entry); err != nil {
		t.Error(err)
	}
}

// plainStorage hides what a storage can do besides.
type plainStorage struct{ vault.Storage }

func TestEvidenceIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg   vault.EvidenceConfig
		plain bool
		want  string
	}{
		"a storage without trees": {vault.EvidenceConfig{}, true, "storage.TreeStorage"},
		"no name":                 {vault.EvidenceConfig{Origin: "a b"}, false, "Origin"},
		"another's signer":        {vault.EvidenceConfig{Origin: "a", Signer: newSigner(t, "b")}, false, "Signer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := onDisk(t, ":memory:")
			if tc.plain {
				store = plainStorage{store}
			}
			v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Evidence: &tc.cfg})
			if err == nil {
				_ = v.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error about %s", err, tc.want)
			}
		})
	}
	v := vaulttest.New(t)
	_, err := v.Owner.LogProof(t.Context(), uuid.New())
	if !errors.Is(err, vault.ErrNotFound) || err.Error() != "vault: evidence is off" {
		t.Errorf("without evidence: %v", err)
	}
}

func newSigner(t *testing.T, name string) note.Signer {
	t.Helper()
	key, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Closing a vault hands its last note to the anchors. The key and the origin outlive
// the process.
func TestEvidenceOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	ctx := context.WithoutCancel(t.Context())
	path, anchor := filepath.Join(t.TempDir(), "vault.db"), vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	key, signer := vault.NewKey(), newSigner(t, "vault.example/log")
	for range 2 {
		v, err := vault.Open(ctx, onDisk(t, path), key, &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Signer: signer, Anchors: []vault.Anchor{anchor}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.CreateTenant(ctx, "Acme"); err != nil {
			t.Fatal(err)
		}
		if report, err := v.VerifyLogs(ctx, nil); err != nil || !report.OK() {
			t.Errorf("%v, %+v", err, report)
		}
		if err := v.AcceptRestore(ctx, "none"); err == nil {
			t.Error("a restore was accepted that did not happen")
		}
		before, err := anchor.Latest(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.CreateTenant(ctx, "Other"); err != nil {
			t.Fatal(err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := anchor.Latest(ctx)
		if err != nil || bytes.Equal(before, after) || !bytes.HasPrefix(after, []byte("vault.example/log\n")) {
			t.Errorf("%v: note %q, before %q", err, after, before)
		}
	}
}

// onDisk opens a SQLite database, which the vault closes.
func onDisk(t *testing.T, path string) vault.Storage {
	t.Helper()
	store, err := sqlite.Open(context.WithoutCancel(t.Context()), path)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// An origin stays with what is made from a client, and every entry has a mac,
// whoever writes it.
func TestOriginAndMac(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	long := strings.Repeat("2001:db8::", 5)
	app, err := v.Owner.From(long+"\n").As(t.Context(), v.Private.ApplicationID())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := app.AsUser("jane").Masked().CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Owner.GetToken(t.Context(), tok.ID); err != nil {
		t.Fatal(err)
	}
	page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 2 || page.Data[0].Origin != "" || page.Data[1].Origin != long[:45] {
		t.Errorf("entries %+v", page.Data)
	}
	var n, macs int
	if err := v.DB.QueryRowContext(t.Context(), `SELECT count(*), count(mac) FROM vault_logs`).Scan(&n, &macs); err != nil {
		t.Fatal(err)
	}
	if n != macs || n < 6 {
		t.Errorf("%d of %d entries have a mac", macs, n)
	}
}

// ungated is a database on which rotations of keys do not wait.
type ungated struct {
	*sqlite.Store
	keyring.Gate
}

func (u *ungated) Write(ctx context.Context, ch *storage.Change) error {
	return u.Gate.Write(ctx, u.Store, ch)
}

// A database writer restores an older row while no node runs. No node has seen the
// newer one, but the log has.
func TestRowsBehindTheirLogAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *vault.Vault, *vault.Owner, *vault.Application)
		row    string
	}{
		"key regenerated": {func(t *testing.T, _ *vault.Vault, o *vault.Owner, app *vault.Application) {
			if _, err := o.RegenerateKey(t.Context(), app.ID); err != nil {
				t.Fatal(err)
			}
		}, "application"},
		"application deleted": {func(t *testing.T, _ *vault.Vault, o *vault.Owner, app *vault.Application) {
			if err := o.DeleteApplication(t.Context(), app.ID); err != nil {
				t.Fatal(err)
			}
		}, "application"},
		"data key rotated": {func(t *testing.T, v *vault.Vault, o *vault.Owner, _ *vault.Application) {
			if err := v.RotateDataKeys(t.Context(), o.TenantID(), nil); err != nil {
				t.Fatal(err)
			}
		}, "key ring"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
			open := func() *vault.Vault {
				store := &ungated{Store: onDisk(t, path).(*sqlite.Store)}
				v, err := vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, KeyAge: time.Nanosecond, Evidence: &vault.EvidenceConfig{Every: -1}})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			v := open()
			tenant, err := v.CreateTenant(t.Context(), "Acme")
			if err != nil {
				t.Fatal(err)
			}
			o := v.Tenant(tenant.ID)
			app, err := o.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			restore := copyRows(func(query string, args ...any) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
					t.Fatal(err)
				}
			})
			test.change(t, v, o, app)
			if report, err := v.VerifyLogs(t.Context(), nil); err != nil || !report.OK() {
				t.Fatalf("before: %+v, %v", report, err)
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			restore()

			v = open()
			defer v.Close()
			report, err := v.VerifyLogs(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK() || len(report.Findings) != 1 || report.Findings[0].Verdict != evidence.Altered || !strings.HasPrefix(report.Findings[0].Row, test.row) {
				t.Errorf("findings: %+v", report.Findings)
			}
			bundle := &bytes.Buffer{}
			if err := v.Tenant(tenant.ID).ExportEvidence(t.Context(), bundle); err != nil {
				t.Fatal(err)
			}
			public, err := v.EvidenceKey()
			if err != nil {
				t.Fatal(err)
			}
			if report, err := evidence.Verify(bundle, public, nil); err != nil || !report.OK() {
				t.Errorf("the log itself: %+v, %v", report, err)
			}
		})
	}
}

// overtaken is a store on which another node works after the first look for the signing key.
type overtaken struct {
	*sqlite.Store
	once  sync.Once
	other func()
}

func (s *overtaken) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	recs, err := s.Store.Records(ctx, tenant, kind, ids)
	if kind == "evidence" {
		s.once.Do(s.other)
	}
	return recs, err
}

func TestNodesThatStartTogetherShareASigningKey(t *testing.T) {
	t.Parallel()
	path, key := filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
	open := func(wrap func(*sqlite.Store) vault.Storage) *vault.Vault {
		store, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(t.Context(), wrap(store), key, &vault.Config{Evidence: &vault.EvidenceConfig{}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.Close() })
		return v
	}
	var fast *vault.Vault
	slow := open(func(s *sqlite.Store) vault.Storage {
		return &overtaken{Store: s, other: func() {
			fast = open(func(s *sqlite.Store) vault.Storage { return s })
			if _, err := fast.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
		}}
	})
	want, err := fast.EvidenceKey()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := slow.EvidenceKey(); err != nil || got != want {
		t.Errorf("the slower node signs with %q (%v), the faster one with %q", got, err, want)
	}
}
