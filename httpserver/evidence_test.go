package httpserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
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
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func getEvidence(t *testing.T, v *vaulttest.Vault, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("SVC-API-KEY", v.ManagementKey)
	w := httptest.NewRecorder()
	httpserver.Handler(v.Vault, nil).ServeHTTP(w, r)
	return w
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example"}})
	key := must.Get(v.EvidenceKey())(t)
	page := must.Get(v.Owner.ListLogs(t.Context(), vault.ListLogsParams{}))(t)
	id := page.Data[0].ID.String()
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
		w := getEvidence(t, v, tc.path)
		if w.Code != tc.status || w.Header().Get("Content-Type") != tc.kind || !tc.good(w.Body.String()) {
			t.Errorf("%s: %d %s\n%s", tc.path, w.Code, w.Header().Get("Content-Type"), w.Body)
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
	httpserver.Handler(v.Vault, nil).ServeHTTP(w, r)
	if w.Code != http.StatusOK || w.Body.Len() == 0 || !w.until.IsZero() {
		t.Errorf("%d, %d bytes, then a deadline at %s", w.Code, w.Body.Len(), w.until)
	}
}

func TestEvidenceIsOff(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, path := range []string{"/logs/checkpoint", "/logs/evidence", "/logs/consistency?from=1", "/logs/x/proof"} {
		w := getEvidence(t, v, path)
		must.Same(t, path+": status", http.StatusNotFound, w.Code)
		must.Contain(t, path+": body", w.Body.String(), `"Evidence is off."`)
	}
}

// /readyz reports problems with the evidence. The vault still serves.
func TestReadinessAfterARestore(t *testing.T) {
	t.Parallel()
	anchor := vault.AnchorFile(filepath.Join(t.TempDir(), "notes"))
	cfg := func() *vault.Config {
		return &vault.Config{Evidence: &vault.EvidenceConfig{Every: -1, Signer: signer, Anchors: []vault.Anchor{anchor}}}
	}
	before := vaulttest.Open(t, ":memory:", cfg())
	must.Same(t, "at first", `{"status":"ok"}`, getEvidence(t, before, "/readyz").Body.String())
	must.Get(before.Checkpoint(t.Context()))(t)
	if err := before.Close(); err != nil { // the anchor has the note
		t.Fatal(err)
	}
	after := vaulttest.Open(t, ":memory:", cfg())
	for _, when := range []string{"the first response", "after a checkpoint"} {
		w := getEvidence(t, after, "/readyz")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"evidence":"the database `) || !strings.Contains(w.Body.String(), "restore") {
			t.Errorf("%s: %d %s", when, w.Code, w.Body)
		}
		if _, err := after.Checkpoint(t.Context()); !errors.Is(err, vault.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	must.Do(t, after.AcceptRestore(t.Context(), "disk failure"))
	if w := getEvidence(t, after, "/readyz"); w.Body.String() != `{"status":"ok","evidence":"a restore may lack erasures, deletions and regenerated keys; apply them again"}` {
		t.Errorf("accepted: %d %s", w.Code, w.Body)
	}
	for _, dry := range []bool{true, false} {
		w := getEvidence(t, after, "/readyz")
		must.Contain(t, fmt.Sprint("before the erasures were applied again: ", w.Code), w.Body.String(), "erasures")
		log := getEvidence(t, after, "/logs/evidence").Body
		must.Get(after.EraseAgain(t.Context(), vault.EraseAgainParams{Files: []io.ReadSeeker{bytes.NewReader(log.Bytes())}, DryRun: dry}))(t)
	}
	must.Same(t, "erased again", `{"status":"ok"}`, getEvidence(t, after, "/readyz").Body.String())
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
		w := httptest.NewRecorder()
		httpserver.Handler(v, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		must.Same(t, fmt.Sprint(ahead, " ahead: status"), http.StatusOK, w.Code)
		must.Same(t, fmt.Sprint(ahead, " ahead: body"), want, w.Body.String())
	}
}
