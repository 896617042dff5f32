package httpserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// getEvidence reads evidence, whose lines the OpenAPI document does not describe.
func (w *restVault) getEvidence(path string) *response {
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, path, nil)
	r.Header.Set("SVC-API-KEY", w.ManagementKey)
	return w.serve(r)
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	cfg := &vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example"}}
	w := restVaultOf(t, vaulttest.Open(t, ":memory:", cfg), nil)
	key := must.Get(w.EvidenceKey())(t)
	page := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{}))(t)
	id := page.Data[0].ID.String()
	document := theDocument(t)
	for _, tc := range []struct {
		path, kind string
		status     int
		good       func(body string) bool
	}{
		{"/logs/checkpoint", "text/plain; charset=utf-8", 200, func(b string) bool { return strings.HasPrefix(b, "vault.example\n") }},
		{"/logs/" + id + "/proof", "text/plain; charset=utf-8", 200, func(b string) bool { return evidence.VerifyProof([]byte(b), key) == nil }},
		{"/logs/evidence", "application/x-ndjson", 200, func(b string) bool {
			report, err := evidence.Verify(strings.NewReader(b), key, nil)
			return err == nil && report.OK()
		}},
		{"/logs/consistency?from=1", "application/json", 200, func(b string) bool { return strings.HasPrefix(b, `{"from":1,"to":4,"hashes":["`) }},
		{"/logs/consistency?from=99", "application/json", 400, func(b string) bool { return strings.Contains(b, `"from"`) }},
		{"/logs/consistency", "application/json", 400, func(b string) bool { return strings.Contains(b, `"from"`) }},
		{"/logs/no-id/proof", "application/json", 404, func(b string) bool { return strings.Contains(b, "Log entry not found.") }},
	} {
		res := w.getEvidence(tc.path).want(t, tc.status).headers(t, "Content-Type", tc.kind)
		if !tc.good(res.body) {
			t.Errorf("%s: %s", tc.path, res.body)
		}
		path, _, _ := strings.Cut(strings.Replace(tc.path, id, "{id}", 1), "?")
		kind, _, _ := strings.Cut(tc.kind, ";")
		if tc.status == http.StatusOK && document.Paths.Value(path).Get.Responses.Status(tc.status).Value.Content[kind] == nil {
			t.Errorf("the document does not describe %s as %s", path, kind)
		}
	}
}

// bounded fails if a part of the body is written without a time limit.
type bounded struct {
	*httptest.ResponseRecorder
	t     *testing.T
	until time.Time
}

func (b *bounded) SetWriteDeadline(until time.Time) error {
	b.until = until
	return nil
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.until.IsZero() {
		b.t.Error("a caller that stops reading holds the connection forever")
	}
	return b.ResponseRecorder.Write(p)
}

func TestEvidenceIsSentWithATimeLimit(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/logs/evidence", nil)
	r.Header.Set("SVC-API-KEY", v.ManagementKey)
	w := &bounded{ResponseRecorder: httptest.NewRecorder(), t: t}
	Handler(v.Vault, nil).ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.Len() == 0 || !w.until.IsZero() {
		t.Errorf("%d, %d bytes, then a deadline at %s", w.Code, w.Body.Len(), w.until)
	}
}

func TestEvidenceIsOff(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	for _, path := range []string{"/logs/checkpoint", "/logs/evidence", "/logs/consistency?from=1", "/logs/x/proof"} {
		w.do("GET", path, w.ManagementKey, "").want(t, 404).has(t, `"Evidence is off."`)
	}
}

// /readyz reports problems with the evidence. The vault still serves.
func TestReadinessAfterARestore(t *testing.T) {
	t.Parallel()
	anchor := vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	open := func() *restVault {
		cfg := &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Signer: signer, Anchors: []vault.Anchor{anchor}}}
		return restVaultOf(t, vaulttest.Open(t, ":memory:", cfg), nil)
	}
	before := open()
	same(t, "at first", before.do("GET", "/readyz", "", "").body, `{"status":"ok"}`)
	must.Get(before.Checkpoint(t.Context()))(t)
	must.Do(t, before.Close()) // the anchor has the note
	after := open()
	ready := func() *response { return after.do("GET", "/readyz", "", "").want(t, 200) }
	for range 2 { // the second response is after a checkpoint
		ready().has(t, `"evidence":"the database `, "restore")
		must.Match(t, "a checkpoint", must.Err(after.Checkpoint(t.Context())), vault.ErrUnavailable)
	}
	must.Do(t, after.AcceptRestore(t.Context(), "disk failure"))
	same(t, "accepted", ready().body, `{"status":"ok","evidence":"a restore may lack erasures, deletions and regenerated keys; apply them again"}`)
	for _, dry := range []bool{true, false} {
		ready().has(t, "erasures") // which were not applied again
		log := after.getEvidence("/logs/evidence").body
		must.Get(after.EraseAgain(t.Context(), vault.EraseAgainParams{Files: []io.ReadSeeker{strings.NewReader(log)}, DryRun: dry}))(t)
	}
	same(t, "erased again", ready().body, `{"status":"ok"}`)
}

// revealing is a signer that reveals its public key.
type revealing struct {
	note.Signer
	key string
}

func (r revealing) VerifierKey() string { return r.key }

// signer is a key that two vaults share.
var signer = func() note.Signer {
	key, public, err := note.GenerateKey(rand.Reader, "vault.example")
	if err != nil {
		panic(err)
	}
	s, err := note.NewSigner(key)
	if err != nil {
		panic(err)
	}
	return revealing{s, public}
}()

// skewed is a database whose clock is behind this machine's.
type skewed struct {
	*sqlite.Store
	behind time.Duration
}

func (s skewed) ClockAhead(context.Context) (time.Duration, error) { return s.behind, nil }

func TestReadinessReportsASkewedClock(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		20 * time.Second: `{"status":"ok"}`,
		time.Hour:        `{"status":"ok","clock":"the clock of this node is 1h0m0s ahead of the database's, so it deletes nothing that has expired"}`,
		-time.Hour:       `{"status":"ok","clock":"the clock of this node is 1h0m0s behind the database's, so it deletes nothing that has expired"}`,
	} {
		store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
		v := must.Get(vault.Open(t.Context(), skewed{store, ahead}, vault.NewKey(), &vault.Config{Logger: slog.New(slog.DiscardHandler)}))(t)
		defer v.Close()
		w := restVaultOf(t, &vaulttest.Vault{Vault: v}, nil)
		same(t, fmt.Sprint(ahead, " ahead"), w.do("GET", "/readyz", "", "").want(t, 200).body, want)
	}
}
