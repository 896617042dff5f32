package vault_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
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

// telling is a signer that tells its public key.
type telling struct {
	note.Signer
	key string
}

func (s telling) VerifierKey() string { return s.key }

func newTelling(t *testing.T, name string) telling {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return telling{s, public}
}

// signedBy reports which of two keys have signed a note.
func signedBy(t *testing.T, msg []byte, keys ...string) (signed []bool) {
	t.Helper()
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = note.Open(msg, note.VerifierList(v))
		signed = append(signed, err == nil)
	}
	return signed
}

// After a change of the key both sign for a day, on every node, and notes of the
// former key stay good.
func TestEvidenceKeyIsRotated(t *testing.T) {
	t.Parallel()
	ctx, path, key, clock := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	cfg := &vault.Config{Now: clock.Now, SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1}}
	var nodes [2]*vault.Vault
	for i := range nodes {
		v, err := vault.Open(ctx, onDisk(t, path), key, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		nodes[i] = v
	}
	a, b := nodes[0], nodes[1]
	owner := a.Tenant(tenantOf(t, a).TenantID())
	first, err := a.EvidenceKey()
	if err != nil {
		t.Fatal(err)
	}
	begin, err := a.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := a.RotateEvidenceKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	checkBoth := func(want ...bool) {
		t.Helper()
		for _, v := range nodes {
			if _, err := owner.RotateWebhookSecret(ctx); err != nil {
				t.Fatal(err)
			}
			msg, err := v.Checkpoint(ctx)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "signatures", signedBy(t, msg, first, second), want)
			if now, err := v.EvidenceKey(); err != nil || now != second {
				t.Errorf("the key is %s, %v", now, err)
			}
			if report, err := v.VerifyLogs(ctx, nil); err != nil || !report.OK() {
				t.Errorf("%v, %+v", err, report)
			}
		}
	}
	checkBoth(true, true)
	clock.Advance(25 * time.Hour)
	if _, err := b.Checkpoint(ctx); err != nil { // the first round forgets the key
		t.Fatal(err)
	}
	checkBoth(false, true)
	var bundle bytes.Buffer
	if err := owner.ExportEvidence(ctx, &bundle); err != nil {
		t.Fatal(err)
	}
	if report, err := evidence.Verify(&bundle, second, begin); err != nil || !report.OK() {
		t.Errorf("since a note of the former key: %v, %+v", err, report)
	}
}

// A program changes its signer. The public key of the former one is known.
func TestSignerIsChanged(t *testing.T) {
	t.Parallel()
	ctx, path, key := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
	first, second := newTelling(t, "vault.example"), newTelling(t, "vault.example")
	for _, e := range []vault.EvidenceConfig{{Signer: first}, {Signer: second, Previous: first}, {Signer: second}} {
		e.Every = -1
		v, err := vault.Open(ctx, onDisk(t, path), key, &vault.Config{Evidence: &e})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.CreateTenant(ctx, "Acme"); err != nil {
			t.Fatal(err)
		}
		msg, err := v.Checkpoint(ctx)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "signatures", signedBy(t, msg, first.key, second.key), []bool{e.Signer == first || e.Previous == first, e.Signer == second})
		if report, err := v.VerifyLogs(ctx, nil); err != nil || !report.OK() {
			t.Errorf("%v, %+v", err, report)
		}
		if _, err := v.RotateEvidenceKey(ctx); !errors.Is(err, vault.ErrConflict) {
			t.Errorf("the program's key was rotated: %v", err)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, e := range map[string]vault.EvidenceConfig{
		"without the signer": {}, "another name": {Signer: newTelling(t, "other.example")}, "another origin": {Origin: "other.example"},
	} {
		v, err := vault.Open(ctx, onDisk(t, path), key, &vault.Config{Evidence: &e})
		if err == nil {
			_ = v.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// deadAnchor is an anchor that is out of reach.
type deadAnchor struct{ vault.Anchor }

func (deadAnchor) Latest(context.Context) ([]byte, error) { return nil, errDown }
func (deadAnchor) Put(context.Context, []byte) error      { return errDown }

func TestEvidenceStatus(t *testing.T) {
	t.Parallel()
	good := vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{good, deadAnchor{}}}})
	for range 2 {
		if _, err := v.Owner.RotateWebhookSecret(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := v.VerifyLogs(t.Context(), nil); err != nil || !report.OK() {
		t.Fatalf("%v, %+v", err, report)
	}
	var s *vault.EvidenceStatus
	eventually(t, "the anchor has the note", func() bool {
		var err error
		s, err = v.EvidenceStatus()
		return err == nil && s.Anchors[0].Size == s.Size && s.Anchors[1].Failures > 0
	})
	if s.Size == 0 || !s.SignedAt.Equal(v.Clock.Now()) || s.VerifiedAt.IsZero() || !s.VerifiedOK || s.Pending != 0 || s.Suspended != "" {
		t.Errorf("status %+v", s)
	}
	if a := s.Anchors; a[0].Err != nil || a[0].GoodAt.IsZero() || !errors.Is(a[1].Err, errDown) || !a[1].GoodAt.IsZero() {
		t.Errorf("anchors %+v", a)
	}
	if s.Raised[vault.AlarmAnchor] != 1 || len(s.Alarms) != 1 || s.Wrong() == "" {
		t.Errorf("alarms %+v, %v", s.Raised, s.Alarms)
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
