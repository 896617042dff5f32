package vaultclient_test

import (
	"bytes"
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
	must.Match(t, "the proof of no entry", must.Err(c.LogProof(ctx, uuid.New())), vault.ErrNotFound)
	if p, err := c.LogConsistency(ctx, 1); err != nil || p.From != 1 || len(p.Hashes) == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	var bundle bytes.Buffer
	must.Do(t, c.ExportEvidence(ctx, &bundle))
	if report, err := evidence.Verify(&bundle, key, since); err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
	must.Match(t, "a full disk", c.ExportEvidence(ctx, full{}), io.ErrShortWrite)
	private := must.Get(vaultclient.New(server.URL, v.PrivateKey, nil))(t)
	must.Match(t, "without log:read", private.ExportEvidence(ctx, io.Discard), vault.ErrForbidden)
}
