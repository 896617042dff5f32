//go:build long

package faults

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestImportAndExportUseLittleMemory moves many large rows, which would soon fill the
// memory if they were kept.
func TestImportAndExportUseLittleMemory(t *testing.T) {
	v := vaulttest.Open(t, t.TempDir()+"/vault.db", nil)
	const rows, size = 2500, 64 << 10 // 160 MB
	text := strings.Repeat("x", size)
	var most uint64
	look := func(i int) {
		if i%200 == 199 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	source := func(yield func(vault.TokenParams, error) bool) {
		for i := range rows {
			p := vault.TokenParams{Type: vault.TypeGeneric, Data: fmt.Sprintf("%d %s", i, text), SearchIndexes: []string{}, FingerprintExpression: "{{ data | slice: 0, 9 }}"}
			if !yield(p, nil) {
				return
			}
			look(i)
		}
	}
	n := 0
	for r, err := range v.Owner.Import(t.Context(), source, nil) {
		if err != nil || r.Outcome != vault.ImportCreated {
			t.Fatalf("row %d: %v %v", r.Row, err, r.Err)
		}
		n++
	}
	if n != rows || most > 48<<20 {
		t.Errorf("%d rows in with up to %d MB of memory, want %d with 48", n, most>>20, rows)
	}
	n, most = 0, 0
	for _, err := range v.Owner.Export(t.Context(), nil) {
		must.Do(t, err)
		look(n)
		n++
	}
	if n != rows || most > 48<<20 {
		t.Errorf("%d rows out with up to %d MB of memory, want %d with 48", n, most>>20, rows)
	}
}
