package erase_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// restored is a database on disk that is opened again and again. It has one of each
// kind that can be withdrawn.
type restored struct {
	*vault.Vault
	store  *sqlite.Store
	t      *testing.T
	path   string
	key    *vault.Key
	anchor vault.Anchor
	clock  *vaulttest.Clock
	tenant uuid.UUID

	deleted, rekeyed, kept *vault.Application
	second                 *vault.ApplicationKey // of kept
	session                *vault.Session
	newKey                 string
}

func (r *restored) open() {
	r.t.Helper()
	store := must.Get(sqlite.Open(context.Background(), r.path))(r.t)
	r.store = store
	r.Vault = must.Get(vault.Open(r.t.Context(), store, r.key, &vault.Config{
		Now: r.clock.Now, SweepEvery: -1, WorkEvery: -1,
		Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{r.anchor}},
	}))(r.t)
}

func (r *restored) close() {
	r.t.Helper()
	must.Do(r.t, r.Close())
}

func (r *restored) owner() *vault.Owner { return r.Tenant(r.tenant) }

func (r *restored) create(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.clock.Advance(time.Second)
		must.Get(r.owner().CreateToken(r.t.Context(), vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x"}))(r.t)
	}
}

func (r *restored) erase(ids ...string) (last *vault.Erasure) {
	r.t.Helper()
	for _, id := range ids {
		r.clock.Advance(time.Second)
		done, err := r.owner().EraseTokens(r.t.Context(), vault.EraseParams{Query: "id:" + id, Reason: "case 4711"})
		if err != nil || done.Count != 1 {
			r.t.Fatal(done, err)
		}
		last = done
	}
	return last
}

// there returns the ids of all tokens.
func (r *restored) there() (ids []string) {
	r.t.Helper()
	for tok, err := range r.owner().AllTokens(r.t.Context(), vault.ListTokensParams{}) {
		must.Do(r.t, err)
		ids = append(ids, tok.ID)
	}
	return ids
}

// bundle exports the evidence of the tenant.
func (r *restored) bundle() []byte {
	r.t.Helper()
	var b bytes.Buffer
	must.Do(r.t, r.owner().ExportEvidence(r.t.Context(), &b))
	return b.Bytes()
}

// log is the audit log as JSON lines.
func (r *restored) log() []byte {
	r.t.Helper()
	var b bytes.Buffer
	for e, err := range r.owner().AllLogs(r.t.Context(), vault.ListLogsParams{}) {
		if err == nil {
			err = json.NewEncoder(&b).Encode(e)
		}
		must.Do(r.t, err)
	}
	return b.Bytes()
}

// newRestored returns a vault that withdrew one of each kind after a backup, closed and
// with the backup in place, and what was kept of its log.
func newRestored(t *testing.T) (r *restored, bundle, log []byte) {
	t.Helper()
	folder := t.TempDir()
	r = &restored{
		t: t, path: filepath.Join(folder, "vault.db"), key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start),
		anchor: vault.AnchorFile(filepath.Join(folder, "notes")),
	}
	r.open()
	tenant := must.Get(r.CreateTenant(t.Context(), "Acme"))(t)
	r.tenant = tenant.ID
	r.create("erased", "erased-by-id", "erased-in-tx", "deleted", "kept")
	r.erase("kept")
	r.create("kept") // another token with the id
	r.authorize()
	r.close()
	backup := must.Get(os.ReadFile(r.path))(t)
	r.open()
	r.withdraw()
	must.Same(t, "before the restore", withdrawn, r.working())
	bundle, log = r.bundle(), r.log()
	r.close()
	must.Do(t, os.WriteFile(r.path, backup, 0o600))
	return r, bundle, log
}

func files(contents ...[]byte) (all []io.ReadSeeker) {
	for _, c := range contents {
		all = append(all, bytes.NewReader(c))
	}
	return all
}

// An empty or altered file erases nothing.
func TestEraseAgainRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	r, bundle, log := newRestored(t)
	r.open()
	defer r.close()
	must.Do(t, r.AcceptRestore(t.Context(), "disk failure"))
	for name, file := range map[string][]byte{
		"an altered bundle":  bytes.ReplaceAll(bundle, []byte(`"entity_id":"erased"`), []byte(`"entity_id":"kept"`)),
		"a part of a bundle": bundle[:len(bundle)/2],
		"no JSON":            []byte("vault-abc/1\n12\n"),
		"other JSON":         []byte(`{"id":1}`),
		"a part of a log":    log[:len(log)-20],
	} {
		must.Fail(r.EraseAgain(t.Context(), vault.EraseAgainParams{Files: files(file)}))(t, name, vault.ErrInvalid)
	}
	must.Same(t, "tokens that are left", 5, len(r.there()))
}

// With evidence, an erasure is an event that the vault signs, and entries whose
// proofs hold.
func TestAnErasureIsASignedEvent(t *testing.T) {
	t.Parallel()
	r, _, _ := newRestored(t)
	r.anchor = vault.AnchorFile(filepath.Join(t.TempDir(), "notes")) // there was no restore
	r.open()
	defer r.close()
	done := r.erase("erased")
	public := must.Get(r.EvidenceKey())(t)
	bundle := r.bundle()
	if report, err := evidence.Verify(bytes.NewReader(bundle), public, nil); err != nil || !report.OK() {
		t.Fatalf("%+v, %v", report, err)
	}
	if !hasErasure(t, bundle, done) {
		t.Error("the bundle has no event of the erasure")
	}
	proven := 0
	for e, err := range r.owner().AllLogs(t.Context(), vault.ListLogsParams{}) {
		must.Do(t, err)
		if e.EntityID != done.ID.String() && e.EntityID != "erased" {
			continue
		}
		proof, err := r.owner().LogProof(t.Context(), e.ID)
		if err == nil {
			err = evidence.VerifyProof(proof, public)
		}
		if err != nil {
			t.Errorf("%s: %v", e.Message, err)
		}
		proven++
	}
	if proven != 3 { // created, erased, and the erasure
		t.Errorf("%d entries are proven", proven)
	}
}

// hasErasure reports whether the events of a bundle have an erasure.
func hasErasure(t *testing.T, bundle []byte, want *vault.Erasure) bool {
	t.Helper()
	for text := range strings.Lines(string(bundle)) {
		var line struct{ Event *evidence.Proven }
		must.Do(t, json.Unmarshal([]byte(text), &line))
		if line.Event == nil {
			continue
		}
		e := must.Get(evidence.ParseEvent([]byte(line.Event.Body)))(t)
		if e.Kind == evidence.EventErasure && e.ID == want.ID && e.Count == int64(want.Count) && e.Reason == want.Reason {
			return true
		}
	}
	return false
}
