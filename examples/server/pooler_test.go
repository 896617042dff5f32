package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/pgtest"
)

// The server works through PgBouncer in transaction mode, when it is told so, and
// otherwise says what to do.
func TestPooler(t *testing.T) {
	t.Parallel()
	db := pgtest.Pooled(t)
	folder := t.TempDir()
	if strings.Contains(db, pgtest.PoolerPort) {
		args := []string{"-addr", "127.0.0.1:0", "-db", db, "-key-file", filepath.Join(folder, "other.key")}
		if err := run(t.Context(), args, "", io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "-pooler") {
			t.Errorf("without the flag: %v", err)
		}
	}
	p := start(t, folder, "-db", db, "-pooler")
	c := p.credentials()
	if status, body := call(t, "POST", c.BaseURL+"/tokens", c.PublicKey, genericToken); status != 201 {
		t.Errorf("create: %d %s", status, body)
	}
	if status, body := call(t, "GET", c.BaseURL+"/tokens/a-token", c.PrivateKey, ""); status != 200 {
		t.Errorf("get: %d %s", status, body)
	}
	if status, body := call(t, "GET", c.BaseURL+"/readyz", "", ""); status != 200 {
		t.Errorf("readyz: %d %s", status, body)
	}
	p.stop()
	if _, err := parseFlags([]string{"-pooler"}, io.Discard); err == nil {
		t.Error("-pooler without PostgreSQL is accepted")
	}
}
