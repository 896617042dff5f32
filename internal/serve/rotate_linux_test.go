package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

func TestMain(m *testing.M) {
	keyring.Horizon = 0 // no server is running while a test rotates keys
	os.Exit(m.Run())
}

var rotatedLine = regexp.MustCompile(`^Rotated the keys of (tenant [0-9a-f-]{36}|all tenants \(1\)): [0-9]+ rows resealed in ([0-9]+m)?[0-9]+s\.\n$`)

// TestRotateKeys rotates on both databases, with and without a terminal. The old
// key is destroyed, all tokens stay readable, one line is printed, and the
// progress line is erased at the end.
func TestRotateKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		db, which string
		width     int // of the terminal; 0 without a terminal
	}{
		"one tenant":      {"", "", 0},
		"all tenants":     {pgtest.URL(t), everyTenant, 0},
		"terminal":        {"", everyTenant, 80},
		"narrow terminal": {"", "", 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.db == "" {
				c.db = filepath.Join(dir, "vault.db")
			}
			args := []string{"-db", c.db, "-key-file", filepath.Join(dir, "vault.key")}
			tenant := newTenantWithTokens(t, args)
			if c.which == "" {
				c.which = tenant.String()
			}
			var stdout, stderr bytes.Buffer
			if c.width == 0 {
				mainOf(t, append(args, "-rotate-keys", c.which), &stdout, &stderr)
			} else {
				d := terminaltest.New(t, c.width)
				mainOf(t, append(args, "-rotate-keys", c.which), &stdout, d.TTY)
				checkDrawn(t, d.Finish(), c.width)
			}
			if !rotatedLine.MatchString(stdout.String()) || stderr.Len() > 0 {
				t.Errorf("printed %q, and %q", stdout.String(), stderr.String())
			}
			checkRotated(t, args, tenant)
		})
	}
}

func mainOf(t *testing.T, args []string, stdout, stderr io.Writer) {
	t.Helper()
	must.Do(t, Main(t.Context(), args, OIDC{}, func(string) string { return "" }, stdout, stderr))
}

// opened opens the vault that args name.
func opened(t *testing.T, args []string) *vault.Vault {
	t.Helper()
	cfg := must.Get(parseFlags(args, io.Discard))(t)
	v, err := openVault(t.Context(), cfg, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	t.Cleanup(func() { _ = v.Close() })
	return v
}

// newTenantWithTokens creates a tenant with enough tokens for a rotation of
// several batches.
func newTenantWithTokens(t *testing.T, args []string) uuid.UUID {
	t.Helper()
	var line bytes.Buffer
	mainOf(t, append(args, "-new-tenant", "Acme"), &line, io.Discard)
	var made struct {
		TenantID uuid.UUID `json:"tenant_id"`
	}
	must.Do(t, json.Unmarshal(line.Bytes(), &made))
	values := make([]any, 2*200+1) // more than two batches of a rotation
	for i := range values {
		values[i] = i
	}
	must.Get(opened(t, args).Tenant(made.TenantID).Tokenize(t.Context(), values))(t)
	return made.TenantID
}

// checkRotated checks that the old key was destroyed, and that all tokens remain.
func checkRotated(t *testing.T, args []string, tenant uuid.UUID) {
	t.Helper()
	c := opened(t, args).Tenant(tenant)
	logs := must.Get(c.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "tenant"}))(t)
	destroyed := false
	for _, e := range logs.Data {
		destroyed = destroyed || e.Message == "Data keys before 2 destroyed"
	}
	if !destroyed {
		t.Error("the old key was not destroyed")
	}
	n := 0
	for token, err := range c.AllTokens(t.Context(), vault.ListTokensParams{}) {
		if err != nil || len(token.Data) == 0 {
			t.Fatalf("a token cannot be read: %v", err)
		}
		n++
	}
	must.Same(t, "tokens are left", 401, n)
}

// checkDrawn checks that progress was drawn within the width, and then erased.
func checkDrawn(t *testing.T, drawn string, width int) {
	t.Helper()
	must.Same(t, "left on the screen", "", terminaltest.Screen(drawn))
	seen := terminaltest.States(drawn)
	if len(seen) == 0 || !strings.HasPrefix(seen[0], "Rotating keys") {
		t.Errorf("drawn: %q", seen)
	}
	for _, state := range seen {
		if len(state) >= width {
			t.Errorf("%q is too long for %d columns", state, width)
		}
	}
}
