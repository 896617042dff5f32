//go:build !race

package tampering

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A log of schema 1005, whose heads do not name the ones before and whose trees have
// no begun event, keeps its notes and verifies. It has entries without a mac, of kind
// old, and a deleted tenant.
func TestLogOfAnEarlierVersionVerifies(t *testing.T) {
	t.Parallel()
	script := must.Get(os.ReadFile(filepath.Join("testdata", "1005.sql")))(t)
	since := must.Get(os.ReadFile(filepath.Join("testdata", "1005.note")))(t)
	path := filepath.Join(t.TempDir(), "vault.db")
	db := must.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), string(script)))(t)
	key := must.Get(vault.ParseKey(seal.KeyText(bytes.Repeat([]byte{5}, 32))))(t)
	clock := vaulttest.NewClock(vaulttest.Start.Add(48 * time.Hour))
	for range 2 { // the second start finds what the first has written
		v := must.Get(vault.Open(t.Context(), onDisk(t, path), key, &vault.Config{
			Now: clock.Now, SweepEvery: -1, WorkEvery: -1, Evidence: &vault.EvidenceConfig{Every: -1},
		}))(t)
		unpaced(v)
		report, err := v.VerifyLogs(t.Context(), &vault.VerifyOptions{Since: [][]byte{since}})
		if err != nil || len(report.Findings) > 0 || report.Entries < 20 || report.Tenants != 2 {
			t.Errorf("in place: %+v, %v", report, err)
		}
		vkey := must.Get(v.EvidenceKey())(t)
		var kinds []string
		for tenant, err := range v.AllTenants(t.Context()) {
			must.Do(t, err)
			o := v.Tenant(tenant.ID)
			create(t, o.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			is := bundle(t, o)
			if r, err := evidence.Verify(bytes.NewReader(is), vkey, since); err != nil || len(r.Findings) > 0 {
				t.Errorf("bundle: %+v, %v", r, err)
			}
			wantAgreement(t, []audit{{"an earlier version", vkey, is, since}})
			for _, kind := range []string{"old", "imported", "entry", "unsigned"} {
				if bytes.Contains(is, []byte(`"kind":"`+kind+`"`)) {
					kinds = append(kinds, kind)
				}
			}
		}
		slices.Sort(kinds)
		if got := slices.Compact(kinds); !slices.Equal(got, []string{"entry", "imported", "old"}) {
			t.Errorf("kinds of leaves: %v", got)
		}
		must.Do(t, v.Close())
	}
}
