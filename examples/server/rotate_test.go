package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const noTenant = "7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11"

func TestRotateKeysOfAMissingTenant(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if out, err := command(folder, "", "-new-tenant", "Acme").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := command(folder, "", "-rotate-keys", noTenant).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "tenant "+noTenant+": ") || strings.Contains(string(out), "Rotated") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRotateKeysCreatesNothing runs without the database, the key or the
// tenants, as after a mistyped flag.
func TestRotateKeysCreatesNothing(t *testing.T) {
	t.Parallel()
	key := vault.NewKey().Text()
	for name, c := range map[string]struct {
		files         []string // existing files, which are empty except for the key
		masterKey, db string
		which, says   string
	}{
		"no database, all":        {[]string{"vault.key"}, "", "vautl.db", "all", "vautl.db"},
		"no database, one":        {[]string{"vault.key"}, "", "vautl.db", noTenant, "vautl.db"},
		"no database but the key": {nil, key, "vautl.db", "all", "vautl.db"},
		"neither":                 {nil, "", "vault.db", "all", "vault.db"},
		"in memory":               {nil, key, ":memory:", "all", "needs an existing database"},
		"no key":                  {[]string{"vault.db"}, "", "vault.db", "all", "read the master key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, file := range c.files {
				content := ""
				if file == "vault.key" {
					content = key
				}
				must.Do(t, os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600))
			}
			out, err := command(folder, c.masterKey, "-db", c.db, "-rotate-keys", c.which).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "Rotated") {
				t.Errorf("%v\n%s", err, out)
			}
			var left []string
			entries := must.Get(os.ReadDir(folder))(t)
			for _, entry := range entries {
				left = append(left, entry.Name())
			}
			must.Same(t, "files were created", c.files, left)
		})
	}
}
