package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// With the flag, the server works through PgBouncer in transaction mode.
// Without it, the error names the flag.
func TestPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.Pooler(t, pgtest.URL(t))
	folder := t.TempDir()
	if strings.Contains(db, pgtest.PoolerPort) {
		out, err := command(folder, "", "-addr", "127.0.0.1:0", "-db", db, "-key-file", filepath.Join(folder, "other.key")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "-pooler") {
			t.Errorf("without the flag: %v %s", err, out)
		}
	}
	p := start(t, folder, "-db", db, "-pooler")
	c := p.credentials()
	wants(t, 201, "POST", c.BaseURL+"/tokens", c.PublicKey, genericToken)
	wants(t, 200, "GET", c.BaseURL+"/tokens/a-token", c.PrivateKey, "")
	wants(t, 200, "GET", c.BaseURL+"/readyz", "", "")
	p.stop()
}
