//go:build long

package ledger

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestYearOfHeads writes the bundle of a tenant that got a head with one entry every
// minute, beside another tenant that did the same. VAULT_HEADS changes the number of
// heads from two weeks'; a year has 525,600.
func TestYearOfHeads(t *testing.T) {
	t.Parallel()
	heads, most := 14*24*60, 500
	if text := os.Getenv("VAULT_HEADS"); text != "" {
		heads = must.Get(strconv.Atoi(text))(t)
	}
	r := newRig(t)
	l := r.open()
	tenant, other := r.id(), r.id()
	for range heads {
		r.write(l, tenant, 1)
		r.write(l, other, 1)
		r.advance(time.Minute)
		must.Get(l.Checkpoint(t.Context()))(t)
	}
	var bundle bytes.Buffer
	must.Do(t, l.Export(t.Context(), tenant, &bundle))
	all, entries := bundle.Len(), 0
	for line := range bytes.Lines(bundle.Bytes()) {
		if bytes.HasPrefix(line, []byte(`{"n":`)) {
			entries += len(line)
		}
	}
	t.Logf("a bundle with %d heads has %d bytes, %d of them for an entry of each head", heads, all, entries)
	began := time.Now()
	report, err := evidence.Verify(&bundle, r.vkey, nil)
	if err != nil || !report.OK() || report.Entries != int64(heads) {
		t.Fatalf("%+v, %v", report, err)
	}
	t.Logf("verified in %s", time.Since(began))
	if perHead := (all - entries) / heads; perHead > most {
		t.Errorf("%d bytes per head, want at most %d", perHead, most)
	}
}
