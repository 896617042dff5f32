package auditlog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// somethingLogged writes log entries in several ways, and returns the newest.
func somethingLogged(t *testing.T, v *vaulttest.Vault) uuid.UUID {
	t.Helper()
	ctx := t.Context()
	soon := vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: v.Clock.Now().Add(time.Minute)}
	tok := must.Get(v.Private.CreateToken(ctx, soon))(t)
	must.Get(v.Private.GetToken(ctx, tok.ID))(t)
	must.Get(v.Owner.RotateWebhookSecret(ctx))(t)
	v.Clock.Advance(2 * time.Minute)
	must.Get(v.Sweep(ctx))(t)
	page := must.Get(v.Owner.ListLogs(ctx, vault.ListLogsParams{}))(t)
	return page.Data[0].ID
}

// settled signs a checkpoint over everything that is committed, and verifies the log
// in place. On PostgreSQL a transaction of another test may hold entries back, so
// that neither the tree nor the verification sees them yet.
func settled(t testing.TB, v *vault.Vault) *evidence.Report {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		must.Get(v.Checkpoint(t.Context()))(t)
		status := must.Get(v.EvidenceStatus())(t)
		report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
		if status.Pending == 0 && !slices.ContainsFunc(report.Findings, func(f evidence.Finding) bool { return f.Verdict == evidence.Unsequenced }) {
			return report
		}
		<-tick.C
	}
}

// checkEvidence verifies a log in place, by its bundle, and by a proof.
func checkEvidence(t *testing.T, v *vaulttest.Vault, entry uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	if report := settled(t, v.Vault); len(report.Findings) > 0 {
		t.Fatalf("in place: %+v", report)
	}
	key := must.Get(v.EvidenceKey())(t)
	var bundle bytes.Buffer
	must.Do(t, v.Owner.ExportEvidence(ctx, &bundle))
	given.Intact(t, "bundle")(evidence.Verify(&bundle, key, nil))
	proof := must.Get(v.Owner.LogProof(ctx, entry))(t)
	must.Do(t, evidence.VerifyProof(proof, key))
	must.Match(t, "the proof of no entry", must.Err(v.Owner.LogProof(ctx, uuid.New())), vault.ErrNotFound)
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}})
	checkEvidence(t, v, somethingLogged(t, v))

	must.Get(v.DB.ExecContext(t.Context(), `UPDATE vault_logs SET operation = 'read' WHERE operation = 'expire'`))(t)
	must.Get(v.DB.ExecContext(t.Context(), `DELETE FROM vault_logs WHERE operation = 'create' AND entity_type = 'token'`))(t)
	report := must.Get(v.VerifyLogs(t.Context(), &vault.VerifyOptions{Tenants: []uuid.UUID{v.Acme.ID}}))(t)
	found := map[evidence.Verdict]int{}
	for _, f := range report.Findings {
		found[f.Verdict]++
	}
	if report.OK() || found[evidence.Altered] != 1 || found[evidence.Missing] != 1 {
		t.Errorf("findings %+v", report.Findings)
	}
}

// A process without evidence records its deletions in the trees that another
// process keeps. Without the signer it deletes nothing.
func TestDeletionsWithoutEvidence(t *testing.T) {
	t.Parallel()
	for name, signer := range map[string]note.Signer{"a stored key": nil, "the program's signer": newSigner(t, "vault.example")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, path, key, clock := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
			cfg := vault.Config{Now: clock.Now, LogRetention: 24 * time.Hour}
			plain := given.Open(t, given.SQLite(t, path), key, cfg)
			cfg.Evidence = &vault.EvidenceConfig{Every: -1, Signer: signer}
			v := given.Open(t, given.SQLite(t, path), key, cfg)
			given.TenantOf(t, v)
			gone := given.TenantOf(t, v)
			must.Get(v.Checkpoint(ctx))(t)
			clock.Advance(48 * time.Hour)
			swept, err := plain.Sweep(ctx)
			if deleted := plain.DeleteTenant(ctx, gone.TenantID()); (err != nil) != (signer != nil) || (deleted != nil) != (signer != nil) {
				t.Fatal(err, deleted)
			}
			given.Same(t, fmt.Sprintf("%d entries are deleted", swept.Logs), swept.Logs > 0, signer == nil)
			must.Get(v.Checkpoint(ctx))(t)
			given.Intact(t, "the log")(v.VerifyLogs(ctx, nil))
		})
	}
}

// Entries from before evidence began are in the trees too, in their state at that
// time.
func TestEvidenceOfAnExistingLog(t *testing.T) {
	t.Parallel()
	ctx, path, key, clock := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	plain := given.Open(t, given.SQLite(t, path), key, vault.Config{Now: clock.Now})
	tenant := given.TenantOf(t, plain).TenantID()
	given.Create(t, plain.Tenant(tenant).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
	clock.Advance(time.Hour)
	v := given.Open(t, given.SQLite(t, path), key, vault.Config{Now: clock.Now, Evidence: &vault.EvidenceConfig{Every: -1}})
	settled(t, v)
	given.Create(t, v.Tenant(tenant).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "y"})
	if report := settled(t, v); len(report.Findings) > 0 || report.Entries != 3 {
		t.Errorf("%+v", report)
	}
	var bundle bytes.Buffer
	must.Do(t, v.Tenant(tenant).ExportEvidence(ctx, &bundle))
	if text := bundle.String(); strings.Count(text, `"kind":"imported"`) != 2 || strings.Count(text, `"kind":"entry"`) != 1 {
		t.Errorf("the bundle is %s", text)
	}
}

// plainStorage hides the optional methods of a storage.
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
			var store vault.Storage = given.SQLite(t, ":memory:")
			if tc.plain {
				store = plainStorage{store}
			}
			v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Evidence: &tc.cfg})
			if err == nil {
				_ = v.Close()
			}
			must.Match(t, name, err, must.Text(tc.want))
		})
	}
	v := vaulttest.New(t)
	_, err := v.Owner.LogProof(t.Context(), uuid.New())
	must.Match(t, "without evidence", err, vault.ErrNotFound)
	given.Same(t, "the error without evidence", err.Error(), "vault: evidence is off")
}

func newSigner(t *testing.T, name string) note.Signer {
	t.Helper()
	key, _, err := note.GenerateKey(rand.Reader, name)
	must.Do(t, err)
	return must.Get(note.NewSigner(key))(t)
}

// Closing a vault passes its last note to the anchors. The key and the origin
// survive the process.
func TestEvidenceOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	ctx := context.WithoutCancel(t.Context())
	path, anchor := filepath.Join(t.TempDir(), "vault.db"), vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	key, signer := vault.NewKey(), newSigner(t, "vault.example/log")
	for range 2 {
		v := must.Get(vault.Open(ctx, given.SQLite(t, path), key, &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Signer: signer, Anchors: []vault.Anchor{anchor}}}))(t)
		must.Get(v.CreateTenant(ctx, "Acme"))(t)
		given.Intact(t, "the log")(v.VerifyLogs(ctx, nil))
		must.Match(t, "a restore was accepted that did not happen", v.AcceptRestore(ctx, "none"), vault.ErrConflict)
		before := must.Get(anchor.Latest(ctx))(t)
		must.Get(v.CreateTenant(ctx, "Other"))(t)
		must.Do(t, v.Close())
		after, err := anchor.Latest(ctx)
		if err != nil || bytes.Equal(before, after) || !bytes.HasPrefix(after, []byte("vault.example/log\n")) {
			t.Errorf("%v: note %q, before %q", err, after, before)
		}
	}
}

// telling is a signer that publishes its public key.
type telling struct {
	note.Signer
	key string
}

func (s telling) VerifierKey() string { return s.key }

func newTelling(t *testing.T, name string) telling {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	must.Do(t, err)
	s := must.Get(note.NewSigner(private))(t)
	return telling{s, public}
}

// signedBy reports which of two keys have signed a note.
func signedBy(t *testing.T, msg []byte, keys ...string) (signed []bool) {
	t.Helper()
	for _, key := range keys {
		v := must.Get(note.NewVerifier(key))(t)
		_, err := note.Open(msg, note.VerifierList(v))
		signed = append(signed, err == nil)
	}
	return signed
}

// After a change of the key both keys sign for a day, on every node, and notes of
// the former key stay valid.
func TestEvidenceKeyIsRotated(t *testing.T) {
	t.Parallel()
	ctx, path, key, clock := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vaulttest.NewClock(vaulttest.Start)
	var nodes [2]*vault.Vault
	for i := range nodes {
		nodes[i] = given.Open(t, given.SQLite(t, path), key, vault.Config{Now: clock.Now, Evidence: &vault.EvidenceConfig{Every: -1}})
	}
	a, b := nodes[0], nodes[1]
	owner := a.Tenant(given.TenantOf(t, a).TenantID())
	first := must.Get(a.EvidenceKey())(t)
	begin := must.Get(a.Checkpoint(ctx))(t)
	second := must.Get(a.RotateEvidenceKey(ctx))(t)
	checkBoth := func(want ...bool) {
		t.Helper()
		for _, v := range nodes {
			must.Get(owner.RotateWebhookSecret(ctx))(t)
			msg := must.Get(v.Checkpoint(ctx))(t)
			given.Same(t, "signatures", signedBy(t, msg, first, second), want)
			given.Same(t, "the key", must.Get(v.EvidenceKey())(t), second)
			given.Intact(t, "the log")(v.VerifyLogs(ctx, nil))
		}
	}
	checkBoth(true, true)
	clock.Advance(25 * time.Hour)
	if _, err := b.Checkpoint(ctx); err != nil { // the first round forgets the key
		t.Fatal(err)
	}
	checkBoth(false, true)
	var bundle bytes.Buffer
	must.Do(t, owner.ExportEvidence(ctx, &bundle))
	given.Intact(t, "since a note of the former key")(evidence.Verify(&bundle, second, begin))
}

// A program changes its signer. The public key of the former signer is known.
func TestSignerIsChanged(t *testing.T) {
	t.Parallel()
	ctx, path, key := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
	first, second := newTelling(t, "vault.example"), newTelling(t, "vault.example")
	for _, e := range []vault.EvidenceConfig{{Signer: first}, {Signer: second, Previous: first}, {Signer: second}} {
		e.Every = -1
		v := must.Get(vault.Open(ctx, given.SQLite(t, path), key, &vault.Config{Evidence: &e}))(t)
		must.Get(v.CreateTenant(ctx, "Acme"))(t)
		msg := must.Get(v.Checkpoint(ctx))(t)
		given.Same(t, "signatures", signedBy(t, msg, first.key, second.key), []bool{e.Signer == first || e.Previous == first, e.Signer == second})
		given.Intact(t, "the log")(v.VerifyLogs(ctx, nil))
		must.Match(t, "rotation of the program's key", must.Err(v.RotateEvidenceKey(ctx)), vault.ErrConflict)
		must.Do(t, v.Close())
	}
	for name, e := range map[string]vault.EvidenceConfig{
		"without the signer": {}, "another name": {Signer: newTelling(t, "other.example")}, "another origin": {Origin: "other.example"},
	} {
		v, err := vault.Open(ctx, given.SQLite(t, path), key, &vault.Config{Evidence: &e})
		if err == nil {
			_ = v.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// deadAnchor is an unreachable anchor.
type deadAnchor struct{ vault.Anchor }

func (deadAnchor) Latest(context.Context) ([]byte, error) { return nil, given.ErrDown }
func (deadAnchor) Put(context.Context, []byte) error      { return given.ErrDown }

// All logs are verified again after VerifyEvery, and by default after 12 hours.
func TestVerifyEvery(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: time.Millisecond, VerifyEvery: time.Hour}})
	verified := func(what string) {
		given.Eventually(t, what, func() bool {
			s, err := v.EvidenceStatus()
			return err == nil && s.VerifiedAt.Equal(v.Clock.Now())
		})
	}
	verified("the first verification")
	v.Clock.Advance(time.Hour)
	verified("the verification after an hour")
}

func TestEvidenceStatus(t *testing.T) {
	t.Parallel()
	good := vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{good, deadAnchor{}}}})
	for range 2 {
		must.Get(v.Owner.RotateWebhookSecret(t.Context()))(t)
		must.Get(v.Checkpoint(t.Context()))(t)
	}
	given.Intact(t, "the log")(v.VerifyLogs(t.Context(), nil))
	var s *vault.EvidenceStatus
	given.Eventually(t, "the anchor has the note", func() bool {
		var err error
		s, err = v.EvidenceStatus()
		return err == nil && s.Anchors[0].Size == s.Size && s.Anchors[1].Failures > 0
	})
	if s.Size == 0 || !s.SignedAt.Equal(v.Clock.Now()) || s.VerifiedAt.IsZero() || !s.VerifiedOK || s.Pending != 0 || s.Suspended != "" {
		t.Errorf("status %+v", s)
	}
	if a := s.Anchors; a[0].Err != nil || a[0].GoodAt.IsZero() || !errors.Is(a[1].Err, given.ErrDown) || !a[1].GoodAt.IsZero() {
		t.Errorf("anchors %+v", a)
	}
	if s.Raised[vault.AlarmAnchor] != 1 || len(s.Alarms) != 1 || s.Wrong() == "" {
		t.Errorf("alarms %+v, %v", s.Raised, s.Alarms)
	}
}

// Clients made from a client keep its origin, and every log entry has a MAC,
// whatever its writer.
func TestOriginAndMac(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	long := strings.Repeat("2001:db8::", 5)
	app := must.Get(v.Owner.From(long+"\n").As(t.Context(), v.Private.ApplicationID()))(t)
	tok := must.Get(app.AsUser("jane").Masked().CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Get(v.Owner.GetToken(t.Context(), tok.ID))(t)
	page := must.Get(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token"}))(t)
	if len(page.Data) != 2 || page.Data[0].Origin != "" || page.Data[1].Origin != long[:45] {
		t.Errorf("entries %+v", page.Data)
	}
	var n, macs int
	must.Do(t, v.DB.QueryRowContext(t.Context(), `SELECT count(*), count(mac) FROM vault_logs`).Scan(&n, &macs))
	if n != macs || n < 6 {
		t.Errorf("%d of %d entries have a mac", macs, n)
	}
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
			must.Get(o.RegenerateKey(t.Context(), app.ID))(t)
		}, "application"},
		"application deleted": {func(t *testing.T, _ *vault.Vault, o *vault.Owner, app *vault.Application) {
			must.Do(t, o.DeleteApplication(t.Context(), app.ID))
		}, "application"},
		"settings changed": {func(t *testing.T, _ *vault.Vault, o *vault.Owner, _ *vault.Application) {
			must.Get(o.PatchTenant(t.Context(), vault.JSON(`{"name":"Globex"}`)))(t)
		}, "tenant"},
		"data key rotated": {func(t *testing.T, v *vault.Vault, o *vault.Owner, _ *vault.Application) {
			must.Do(t, v.RotateDataKeys(t.Context(), o.TenantID(), nil))
		}, "key ring"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
			open := func() *vault.Vault {
				store := &given.Gated{Store: given.SQLite(t, path), Gate: &keygate.Gate{}}
				return given.Open(t, store, key, vault.Config{KeyAge: time.Nanosecond, Evidence: &vault.EvidenceConfig{Every: -1}})
			}
			v := open()
			tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
			o := v.Tenant(tenant.ID)
			app := must.Get(o.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(t)
			db := must.Get(sql.Open("sqlite", path))(t)
			defer db.Close()
			restore := copyRows(func(query string, args ...any) {
				t.Helper()
				must.Get(db.ExecContext(t.Context(), query, args...))(t)
			})
			test.change(t, v, o, app)
			given.Intact(t, "before")(v.VerifyLogs(t.Context(), nil))
			must.Do(t, v.Close())
			restore()

			v = open()
			report := must.Get(v.VerifyLogs(t.Context(), nil))(t)
			if report.OK() || len(report.Findings) != 1 || report.Findings[0].Verdict != evidence.Altered || !strings.HasPrefix(report.Findings[0].Row, test.row) {
				t.Errorf("findings: %+v", report.Findings)
			}
			bundle := &bytes.Buffer{}
			must.Do(t, v.Tenant(tenant.ID).ExportEvidence(t.Context(), bundle))
			public := must.Get(v.EvidenceKey())(t)
			given.Intact(t, "the log itself")(evidence.Verify(bundle, public, nil))
		})
	}
}

// overtaken is a store where another node acts after the first query for the
// signing key.
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
		return given.Open(t, wrap(given.SQLite(t, path)), key, vault.Config{Evidence: &vault.EvidenceConfig{}})
	}
	var fast *vault.Vault
	slow := open(func(s *sqlite.Store) vault.Storage {
		return &overtaken{Store: s, other: func() {
			fast = open(func(s *sqlite.Store) vault.Storage { return s })
			must.Get(fast.Checkpoint(t.Context()))(t)
		}}
	})
	want := must.Get(fast.EvidenceKey())(t)
	given.Same(t, "the slower node signs with", must.Get(slow.EvidenceKey())(t), want)
}

// alarms is an observer that records the names of alarms.
type alarms struct {
	mu    sync.Mutex
	names []string
}

func (a *alarms) Start(ctx context.Context, e vault.Event) (context.Context, func(error)) {
	if e.Kind == vault.EventAlarm {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.names = append(a.names, e.Name)
	}
	return ctx, func(error) {}
}

// take returns the alarms since the last call.
func (a *alarms) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.names
	a.names = nil
	return names
}

// alarmed returns a vault, a function that runs SQL on its database, and its
// alarms.
func alarmed(t testing.TB, cfg vault.Config) (*vaulttest.Vault, func(sql string, args ...any), *alarms) {
	t.Helper()
	heard := &alarms{}
	cfg.Observer = heard
	v := vaulttest.Open(t, ":memory:", &cfg)
	return v, func(sql string, args ...any) {
		t.Helper()
		must.Get(v.DB.ExecContext(t.Context(), sql, args...))(t)
	}, heard
}

// A database writer swaps the fingerprints of two tokens, so that deduplication
// finds the other one. That is an error and an alarm, and never a result.
func TestSwappedFingerprintsAreAnAlarm(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	yes := true
	number := func(id, number string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeCardNumber, Data: number, DeduplicateToken: &yes}
	}
	prints := map[string]string{}
	for id, data := range map[string]string{"aaa": given.Visa, "bbb": "4111111111111111"} {
		given.Create(t, v.Owner.Client, number(id, data))
		var print string
		must.Do(t, v.DB.QueryRowContext(t.Context(), `SELECT fingerprint FROM vault_tokens WHERE id = ?`, id).Scan(&print))
		prints[id] = print
	}
	fingerprint := given.Get(t, v.Owner.Client, "aaa").Fingerprint
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'aaa'`, []byte(prints["bbb"]))
	exec(`UPDATE vault_tokens SET fingerprint = ? WHERE id = 'bbb'`, []byte(prints["aaa"]))
	wantAlarm := func(what string, err error) {
		t.Helper()
		must.Match(t, what, err, fault.ErrAltered)
		given.Same(t, what+": alarms", heard.take(), []string{"altered"})
	}
	wantAlarm("a duplicate", must.Err(v.Owner.CreateToken(t.Context(), number("", given.Visa))))
	wantAlarm("a duplicate in a document", must.Err(v.Owner.Tokenize(t.Context(), []any{number("", given.Visa)})))
	for r, err := range v.Owner.Import(t.Context(), given.Rows(number("", given.Visa)), nil) {
		wantAlarm("a duplicate in an import: "+string(r.Outcome), err)
	}
	for r, err := range v.Owner.Import(t.Context(), given.Rows(number("bbb", given.Visa)), &vault.ImportOptions{Resumed: true}) {
		wantAlarm("a row that was imported before: "+string(r.Outcome), err)
	}
	wantAlarm("the token", must.Err(v.Owner.GetToken(t.Context(), "aaa")))
	page := must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "fingerprint:" + fingerprint}))(t)
	given.Same(t, "a search by fingerprint", len(page.Data), 0)
	wantAlarm("a search by fingerprint", fault.ErrAltered)
}

// The columns that a body is sealed with cannot be changed beside it.
func TestColumnsAreSealedWithTheBody(t *testing.T) {
	t.Parallel()
	for _, column := range []string{
		"fingerprint = randomblob(32)", "expression = randomblob(16)", "dedup = randomblob(16)", "set_id = randomblob(16)",
		"created_by = randomblob(16)", "modified_by = randomblob(16)", "created_at = created_at + 1", "modified_at = 1",
	} {
		v, exec, heard := alarmed(t, vault.Config{})
		given.Create(t, v.Owner.Client, given.Text("aaa", "x"))
		exec(`UPDATE vault_tokens SET ` + column)
		must.Match(t, column, must.Err(v.Owner.GetToken(t.Context(), "aaa")), fault.ErrAltered)
		given.Same(t, column+": alarms", heard.take(), []string{"altered"})
	}
}

// A database writer moves the hash of a search index to another token. The search
// does not find that token.
func TestMovedSearchHashesFindNothing(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	ssn := func(id, number, owner string) vault.TokenParams {
		return vault.TokenParams{ID: id, Type: vault.TypeSocialSecurityNumber, Data: number, Metadata: map[string]string{"owner": owner}}
	}
	given.Create(t, v.Owner.Client, ssn("aaa", "123-45-6789", "jane"))
	given.Create(t, v.Owner.Client, ssn("bbb", "987-65-4321", "joe"))
	exec(`UPDATE vault_token_hashes SET ord = (SELECT ord FROM vault_tokens WHERE id = 'bbb') WHERE ord = (SELECT ord FROM vault_tokens WHERE id = 'aaa')`)
	for _, query := range []string{`data:"123-45-6789"`, `metadata.owner:"jane"`, `NOT type:card AND data:"123-45-6789"`} {
		page := must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query}))(t)
		given.Same(t, query+" finds", len(page.Data), 0)
		given.Same(t, query+": alarms", heard.take(), []string{"altered"})
	}
	page, err := v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: `data:"987-65-4321" OR metadata.owner:"joe"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "bbb" {
		t.Errorf("a search for existing tokens finds %+v, %v", page, err)
	}
}

// tables are what a database writer copies and restores.
var tables = []string{"vault_records", "vault_lookups"}

// copyRows keeps copies of rows, and returns a function that brings them back.
func copyRows(exec func(string, ...any)) (restore func()) {
	for _, table := range tables {
		exec(`DROP TABLE IF EXISTS old_` + table)
		exec(`CREATE TABLE old_` + table + ` AS SELECT * FROM ` + table)
	}
	return func() {
		for _, table := range tables {
			exec(`INSERT OR REPLACE INTO ` + table + ` SELECT * FROM old_` + table)
		}
	}
}

// A database writer restores an older row of an application: one whose key was
// regenerated, whose rights were cut, or that was deleted. A node that has seen the
// newer row refuses it, with an alarm.
func TestApplicationsAreNotRolledBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *vaulttest.Vault, *vault.Application){
		"key regenerated": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			must.Get(v.Owner.RegenerateKey(t.Context(), app.ID))(t)
		},
		"rights cut": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			must.Get(v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions": ["token:create"]}`)))(t)
		},
		"deleted": func(t *testing.T, v *vaulttest.Vault, app *vault.Application) {
			must.Do(t, v.Owner.DeleteApplication(t.Context(), app.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, exec, heard := alarmed(t, vault.Config{})
			app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read", "token:create"}}))(t)
			given.Create(t, v.Owner.Client, given.Text("secret", "x"))
			c := must.Get(v.Authenticate(t.Context(), app.Key))(t)
			given.Get(t, c, "secret")
			restore := copyRows(exec)
			change(t, v, app)
			restore()
			if c, err := v.Authenticate(t.Context(), app.Key); err == nil {
				_, err = c.GetToken(t.Context(), "secret")
				t.Errorf("the old key works: %v", err)
			}
			must.Match(t, "the old application can be read", must.Err(v.Owner.GetApplication(t.Context(), app.ID)), must.Text("the database was altered"))
			if alarms := heard.take(); len(alarms) == 0 || alarms[0] != "rolled_back" {
				t.Errorf("alarms: %q", alarms)
			}
			tx := must.Get(v.DB.BeginTx(t.Context(), nil))(t)
			defer func() { _ = tx.Rollback() }()
			_, err := v.Owner.InTx(tx).PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"b"}`)) // with a newer revision
			must.Match(t, "change the old application in a transaction", err, fault.ErrAltered)
			given.Same(t, "in a transaction: alarms", heard.take(), []string{"rolled_back"})
		})
	}
}

// A record cannot claim to be older than its sealed document.
func TestRevisionsAreSealed(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	for range 2 {
		must.Get(v.Owner.PatchTenant(t.Context(), vault.JSON(`{"name":"Acme"}`)))(t)
	}
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(t)
	must.Get(v.Owner.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"b"}`)))(t)
	exec(`UPDATE vault_records SET rev = 0 WHERE kind = 'application'`)
	must.Match(t, "a lower revision", must.Err(v.Owner.GetApplication(t.Context(), app.ID)), fault.ErrAltered)
	given.Same(t, "alarms", heard.take(), []string{"rolled_back"})
}

// A change that was rolled back with the application's transaction does not make
// the stored row outdated.
func TestRolledBackTransactionsAreForgotten(t *testing.T) {
	t.Parallel()
	v, _, heard := alarmed(t, vault.Config{})
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}}))(t)
	for _, change := range []func(*vault.Owner) error{
		func(c *vault.Owner) error {
			return must.Err(c.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"b"}`)))
		},
		func(c *vault.Owner) error { return c.DeleteApplication(t.Context(), app.ID) },
	} {
		tx := must.Get(v.DB.BeginTx(t.Context(), nil))(t)
		must.Do(t, change(v.Owner.InTx(tx)))
		must.Do(t, tx.Rollback())
		must.Match(t, "after a rollback", must.Err(v.Authenticate(t.Context(), app.Key)), nil)
	}
	given.Same(t, "alarms", len(heard.take()), 0)
}

// A database writer restores the key ring from before a rotation, with the key
// that was destroyed, or the keys of a deleted tenant. A node that has used the
// newer ring refuses it.
func TestKeyRingsAreNotRolledBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, *vaulttest.Vault){
		"rotated": func(t *testing.T, v *vaulttest.Vault) {
			must.Do(t, v.RotateDataKeys(t.Context(), v.Acme.ID, nil))
		},
		"deleted": func(t *testing.T, v *vaulttest.Vault) {
			must.Do(t, v.DeleteTenant(t.Context(), v.Acme.ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, exec, heard := alarmed(t, vault.Config{KeyAge: time.Nanosecond})
			given.Create(t, v.Owner.Client, given.Text("aaa", "x"))
			restore := copyRows(exec)
			change(t, v)
			restore()
			if tok, err := v.Owner.CreateToken(t.Context(), given.Text("bbb", "x")); err == nil {
				t.Errorf("a token was created under old keys: %+v", tok)
			}
			if alarms := heard.take(); len(alarms) == 0 || alarms[0] != "rolled_back" {
				t.Errorf("alarms: %q", alarms)
			}
		})
	}
}

// One row that does not open does not hide the others of its page.
func TestUnreadableRowsStayInTheirList(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	for _, id := range []string{"aaa", "bad", "ccc"} {
		given.Create(t, v.Owner.Client, given.Text(id, "x"))
	}
	want := []vault.Token{
		{ID: "aaa"}, {ID: "bad", TenantID: v.Acme.ID, Type: vault.TypeGeneric, CreatedAt: given.Get(t, v.Owner.Client, "bad").CreatedAt, Unreadable: true}, {ID: "ccc"},
	}
	exec(`UPDATE vault_tokens SET body = randomblob(100) WHERE id = 'bad'`)
	check := func(how string, got []vault.Token) {
		t.Helper()
		for i := range got {
			if !got[i].Unreadable {
				got[i] = vault.Token{ID: got[i].ID}
			}
		}
		byID := cmpopts.SortSlices(func(a, b vault.Token) bool { return a.ID < b.ID })
		must.Same(t, how, want, got, byID)
		given.Same(t, how+": alarms", heard.take(), []string{"unreadable"})
	}
	page := must.Get(v.Owner.ListTokens(t.Context(), vault.ListTokensParams{}))(t)
	check("list", page.Data)
	page = must.Get(v.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "type:token"}))(t)
	check("search", page.Data)
	var all []vault.Token
	for tok, err := range v.Owner.AllTokens(t.Context(), vault.ListTokensParams{}) {
		must.Do(t, err)
		all = append(all, *tok)
	}
	check("all", all)
	must.Match(t, "the row itself can be read", must.Err(v.Owner.GetToken(t.Context(), "bad")), must.Text("seal: cannot decrypt"))
	if diff := cmp.Diff([]string{"create", "read"}, given.Operations(t, v, "bad")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff) // it was read once, before
	}
}

// One application, reactor, proxy or session that does not open does not hide the
// others of its page.
func TestUnreadableRecordsStayInTheirList(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	_, key := v.NewApplication(t, v.Owner, vault.ApplicationPublic, nil)
	public := given.Authenticated(t, v.Vault, key)
	for range 2 {
		given.Private(t, v)
		must.Get(v.Owner.CreateReactor(t.Context(), given.ReactorParams("r")))(t)
		must.Get(v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com"}))(t)
		must.Get(public.CreateSession(t.Context()))(t)
	}
	tenant := `"tenant_id":"` + v.Acme.ID.String() + `",`
	for _, kind := range []struct {
		name, columns, more string
		total               int
		list, all           func() (any, error)
	}{
		{"session", "", "", 2, aPage(v.Owner.ListSessions, vault.PageParams{}), aWalk(v.Owner.AllSessions(t.Context()))},
		{"application", tenant, "", 6, aPage(v.Owner.ListApplications, vault.ListApplicationsParams{}), aWalk(v.Owner.AllApplications(t.Context(), vault.ListApplicationsParams{}))},
		{"reactor", tenant, "", 2, aPage(v.Owner.ListReactors, vault.ListParams{}), aWalk(v.Owner.AllReactors(t.Context(), vault.ListParams{}))},
		{"proxy", tenant, `"require_auth":true,`, 2, aPage(v.Owner.ListProxies, vault.ListParams{}), aWalk(v.Owner.AllProxies(t.Context(), vault.ListParams{}))},
	} {
		var id []byte
		must.Do(t, v.DB.QueryRowContext(t.Context(), `SELECT max(id) FROM vault_records WHERE kind = ?`, kind.name).Scan(&id))
		exec(`UPDATE vault_records SET body = randomblob(100) WHERE kind = ? AND id = ?`, kind.name, id)
		bad := uuid.UUID(id)
		for how, ask := range map[string]func() (any, error){"list": kind.list, "all": kind.all} {
			got, err := ask()
			if err != nil {
				t.Errorf("%s of %s: %v", how, kind.name, err)
				continue
			}
			text, _ := json.Marshal(got)
			want := `{"id":"` + bad.String() + `",` + kind.columns + kind.more + `"created_at":"` + v.Acme.CreatedAt.Format(time.RFC3339Nano) + `","unreadable":true}`
			if !strings.Contains(string(text), want) || strings.Count(string(text), `"unreadable":true`) != 1 || strings.Count(string(text), `{"id"`) != kind.total {
				t.Errorf("%s of %s: %s, want %s", how, kind.name, text, want)
			}
			given.Same(t, how+" of "+kind.name+": alarms", heard.take(), []string{"unreadable"})
		}
		given.Same(t, "log of "+kind.name, given.Operations(t, v, bad.String()), []string{"create"})
	}
	page, err := v.Owner.ListApplications(t.Context(), vault.ListApplicationsParams{Types: []vault.ApplicationType{vault.ApplicationPrivate}})
	if err != nil || len(page.Data) != 2 || page.Data[0].Unreadable {
		t.Errorf("applications of a type: %+v, %v", page, err)
	}
	list := must.Get(v.Owner.ListSessions(t.Context(), vault.PageParams{}))(t)
	exec(`UPDATE vault_records SET body = randomblob(100) WHERE kind = 'application'`)
	for _, s := range list.Data { // a session of an unreadable application can be ended
		given.Same(t, "delete an unreadable session", v.Owner.DeleteSession(t.Context(), s.ID) != nil, s.Unreadable)
	}
}

// aPage and aWalk return functions that list entities.
func aPage[P, T any](list func(context.Context, P) (*vault.Page[T], error), p P) func() (any, error) {
	return func() (any, error) {
		page, err := list(context.Background(), p)
		if err != nil {
			return nil, err
		}
		return page.Data, nil
	}
}

func aWalk[T any](items iter.Seq2[*T, error]) func() (any, error) {
	return func() (any, error) {
		var all []*T
		for item, err := range items {
			if err != nil {
				return nil, err
			}
			all = append(all, item)
		}
		return all, nil
	}
}

// revoking deletes an application while it receives the evidence.
type revoking struct {
	revoke func() error
	lines  int
}

func (r *revoking) Write(p []byte) (int, error) {
	if r.lines++; r.lines == 1 {
		if err := r.revoke(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// An export of evidence ends when the caller's key is revoked.
func TestExportOfEvidenceEndsWithTheKey(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1}})
	many := make([]any, 2000)
	for i := range many {
		many[i] = i
	}
	must.Get(v.Owner.Tokenize(t.Context(), many))(t)
	app, c := given.NewApplication(t, v, vault.ApplicationParams{Name: "auditor", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}})
	to := &revoking{revoke: func() error { return v.Owner.DeleteApplication(t.Context(), app.ID) }}
	must.Match(t, "the export", c.ExportEvidence(t.Context(), to), vault.ErrUnauthenticated)
	if to.lines > 1000 {
		t.Errorf("%d lines were written after the key was revoked", to.lines)
	}
}

func TestWrongNamesEveryAlarm(t *testing.T) {
	t.Parallel()
	alarms := func(n int) (all []vault.Alarm) {
		for i := range n {
			all = append(all, vault.Alarm{Text: fmt.Sprint("alarm ", i)})
		}
		return all
	}
	for want, s := range map[string]vault.EvidenceStatus{
		"":                  {},
		"restored":          {Suspended: "restored", Alarms: []vault.Alarm{{Text: "restored"}}},
		"restored; alarm 0": {Suspended: "restored", Alarms: alarms(1)},
		"alarm 0; alarm 1":  {Alarms: alarms(2), LacksErasures: true},
		"alarm 0; alarm 1; alarm 2; alarm 3; alarm 4; and 2 more": {Alarms: alarms(7)},
	} {
		given.Same(t, "what is wrong", s.Wrong(), want)
	}
}
