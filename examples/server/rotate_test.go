package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

const noTenant = "7f1a6f56-7a0e-4b5a-9c62-2f6a2b1f0c11"

func TestRotateKeysOfATenantThatIsNotThere(t *testing.T) {
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

// TestRotateKeysMakesNothing starts where the database, the key or the tenants
// are missing, as after a mistyped flag.
func TestRotateKeysMakesNothing(t *testing.T) {
	t.Parallel()
	key := vault.NewKey().Text()
	for name, c := range map[string]struct {
		files         []string // that are there, and empty but for the key
		masterKey, db string
		which, says   string
	}{
		"no database, all":        {[]string{"vault.key"}, "", "vautl.db", everyTenant, "vautl.db"},
		"no database, one":        {[]string{"vault.key"}, "", "vautl.db", noTenant, "vautl.db"},
		"no database but the key": {nil, key, "vautl.db", everyTenant, "vautl.db"},
		"neither":                 {nil, "", "vault.db", everyTenant, "vault.db"},
		"in memory":               {nil, key, ":memory:", everyTenant, "needs an existing database"},
		"no key":                  {[]string{"vault.db"}, "", "vault.db", everyTenant, "read the master key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for _, file := range c.files {
				content := ""
				if file == "vault.key" {
					content = key
				}
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), private); err != nil {
					t.Fatal(err)
				}
			}
			out, err := command(folder, c.masterKey, "-db", c.db, "-rotate-keys", c.which).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "Rotated") {
				t.Errorf("%v\n%s", err, out)
			}
			var left []string
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				left = append(left, entry.Name())
			}
			if diff := cmp.Diff(c.files, left); diff != "" {
				t.Errorf("files were made: %s", diff)
			}
		})
	}
}

func TestRotateKeysOfNoTenants(t *testing.T) {
	t.Parallel()
	if _, err := tenantsToRotate(t.Context(), newVault(t), everyTenant); err == nil || !strings.Contains(err.Error(), "no tenants") {
		t.Errorf("%v", err)
	}
}

func TestATenantThatIsDeletedMeanwhileIsNoFailure(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	gone, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.DeleteTenant(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	for all, fails := range map[bool]bool{true: false, false: true} {
		r := &rotation{bar: newProgress(io.Discard), all: all, done: make([]int, 1)}
		if err := r.run(t.Context(), v, []uuid.UUID{gone.ID}); (err != nil) != fails {
			t.Errorf("all is %v: %v", all, err)
		}
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text        string
		done, total int
		width       int
		want        string
	}{
		{"Rotating keys", 250, 1000, 80, "Rotating keys  [=======                       ]  250 of 1000  3s"},
		{"Rotating keys", 1000, 1000, 52, "Rotating keys  [================]  1000 of 1000  3s"},
		{"Rotating keys", 1200, 1000, 0, "Rotating keys  [==============================]  1000 of 1000  3s"},
		{"Rotating keys", 250, 1000, 40, "Rotating keys  250 of 1000  3s"},
		{"Rotating keys", 250, 1000, 20, "Rotating keys  250 "},
		{"Rotating keys", 0, 0, 80, "Rotating keys  3s"},
		{"Rotating keys", 0, 0, 1, ""},
	} {
		p := &progress{text: c.text, done: c.done, total: c.total}
		if got := p.line(c.width, 3*time.Second); got != c.want {
			t.Errorf("%d columns: %q, want %q", c.width, got, c.want)
		}
	}
}
