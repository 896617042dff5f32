package erase_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// What was sealed of an erased token, and its hashes, leave SQLite's files at the next
// sweep: the database and its log.
func TestErasedTokensLeaveTheFiles(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "vault.db"), t.Context()
	clock := vaulttest.NewClock(vaulttest.Start)
	v := must.Get(vault.Open(ctx, must.Get(sqlite.Open(ctx, path))(t), vault.NewKey(), &vault.Config{Now: clock.Now, SweepEvery: -1, WorkEvery: -1}))(t)
	t.Cleanup(func() { _ = v.Close() })
	o := v.Tenant(must.Get(v.CreateTenant(ctx, "Acme"))(t).ID)
	var ids []string
	for range 50 {
		tok := must.Get(o.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("secret ", 300), Metadata: map[string]string{"owner": "jane"}}))(t)
		ids = append(ids, tok.ID)
	}
	db := must.Get(sql.Open("sqlite", path))(t)
	var sought [][]byte
	look := func(query string) {
		rows := must.Get(db.QueryContext(ctx, query))(t)
		defer rows.Close()
		for rows.Next() {
			var b []byte
			must.Do(t, rows.Scan(&b))
			sought = append(sought, b[:16], b[len(b)-16:]) // a large value is on several pages
		}
		must.Do(t, rows.Err())
	}
	for _, query := range []string{"SELECT body FROM vault_tokens", "SELECT fingerprint FROM vault_tokens", "SELECT hash FROM vault_token_hashes"} {
		look(query)
	}
	must.Do(t, db.Close())
	remains := func() (n int) {
		files := must.Get(filepath.Glob(path + "*"))(t)
		for _, name := range files {
			content := must.Get(os.ReadFile(name))(t)
			for _, part := range sought {
				if bytes.Contains(content, part) {
					n++
				}
			}
		}
		return n
	}
	if n := remains(); n < len(ids) {
		t.Fatalf("before the erasure %d parts are found", n)
	}
	must.Get(o.EraseTokens(ctx, vault.EraseParams{IDs: ids, Reason: "case 9"}))(t)
	must.Get(v.Sweep(ctx))(t)
	must.Same(t, "parts that remain", remains(), 0)
}
