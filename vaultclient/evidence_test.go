package vaultclient_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestEvidence(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}})
	server := httptest.NewServer(httpserver.Handler(v.Vault, nil))
	defer server.Close()
	c := must.Get(vaultclient.New(server.URL, v.ManagementKey, nil))(t)
	key := must.Get(v.EvidenceKey())(t)
	ctx := t.Context()
	since := must.Get(c.LogCheckpoint(ctx))(t)
	page := must.Get(c.ListLogs(ctx, vault.ListLogsParams{}))(t)
	proof, err := c.LogProof(ctx, page.Data[0].ID)
	if err != nil || evidence.VerifyProof(proof, key) != nil {
		t.Errorf("%v, %v", err, evidence.VerifyProof(proof, key))
	}
	if _, err := c.LogProof(ctx, uuid.New()); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("the proof of no entry: %v", err)
	}
	if p, err := c.LogConsistency(ctx, 1); err != nil || p.From != 1 || len(p.Hashes) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	var bundle bytes.Buffer
	must.Do(t, c.ExportEvidence(ctx, &bundle))
	if report, err := evidence.Verify(&bundle, key, since); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
	if err := c.ExportEvidence(ctx, full{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
	private := must.Get(vaultclient.New(server.URL, v.PrivateKey, nil))(t)
	if err := private.ExportEvidence(ctx, io.Discard); !errors.Is(err, vault.ErrForbidden) {
		t.Errorf("without log:read: %v", err)
	}
}
