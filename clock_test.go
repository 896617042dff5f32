package vault_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// skewed is a database whose clock differs from this machine's.
type skewed struct {
	storage.Storage
	ahead time.Duration
}

func (s skewed) ClockAhead(context.Context) (time.Duration, error) { return s.ahead, nil }

func sqliteAt(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSkewedClockDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead time.Duration
		now   func() time.Time
		keeps bool
	}{
		"right":                    {ahead: 20 * time.Second},
		"ahead":                    {ahead: time.Hour, keeps: true},
		"behind":                   {ahead: -time.Hour, keeps: true},
		"a clock of the program's": {ahead: time.Hour, now: time.Now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, key := filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
			past := openVault(t, sqliteAt(t, path), key, vaulttest.NewClock(time.Now().Add(-2*time.Hour)))
			tenant, err := past.CreateTenant(t.Context(), "Acme")
			if err != nil {
				t.Fatal(err)
			}
			token := vault.TokenParams{ID: "expired-token", Type: vault.TypeGeneric, Data: "x", ExpiresAt: time.Now().Add(-time.Hour)}
			create(t, past.Tenant(tenant.ID).Client, token)

			var log strings.Builder
			v, err := vault.Open(t.Context(), skewed{sqliteAt(t, path), test.ahead}, key, &vault.Config{
				Now: test.now, SweepEvery: -1, WorkEvery: -1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			if warned := strings.Contains(log.String(), "clock"); warned != test.keeps {
				t.Errorf("the log is %q", log.String())
			}
			if got := v.ClockAhead(); test.now == nil && got != test.ahead {
				t.Errorf("ClockAhead is %v, want %v", got, test.ahead)
			}
			swept, err := v.Sweep(t.Context())
			if errors.Is(err, vault.ErrUnavailable) != test.keeps || (swept.Tokens == 0) != test.keeps {
				t.Errorf("swept %+v, %v", swept, err)
			}
			token.ExpiresAt = time.Time{}
			if _, err := v.Tenant(tenant.ID).CreateToken(t.Context(), token); errors.Is(err, vault.ErrUnavailable) != test.keeps {
				t.Errorf("a create in the place of the expired token: %v", err)
			}
		})
	}
}
