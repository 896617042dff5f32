package vault_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func stats(t testing.TB, c *vault.Client) *vault.Stats {
	t.Helper()
	s, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStats(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		before := stats(t, s.Owner)
		create(t, s.Owner, aCard("one"))
		create(t, s.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/a/", "/b/"}})
		create(t, s.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/a/"}})
		create(t, s.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: s.Clock.Now().Add(time.Minute)})
		if _, err := s.Public.CreateSession(t.Context()); err != nil {
			t.Fatal(err)
		}
		made := s.Clock.Now()
		s.Clock.Advance(2 * time.Minute)
		want := &vault.Stats{
			Tokens:            3,
			TokensByType:      map[vault.TokenType]int{"card_number": 1, "token": 2},
			TokensByContainer: map[string]int{"/pci/high/": 1, "/a/": 2, "/b/": 1},
			LogEntries:        before.LogEntries + 5,
			Sessions:          1,
			Keys:              []vault.KeyStats{{Version: 1, State: vault.KeyPrimary, CreatedAt: made}},
		}
		if diff := cmp.Diff(want, stats(t, s.Owner)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		s.Clock.Advance(2 * time.Minute)
		if got := stats(t, s.Owner); got.Sessions != 0 {
			t.Errorf("%d sessions are alive, want none", got.Sessions)
		}
		_, err := s.Management.Stats(t.Context())
		wantError(t, "an application", err, vault.ErrForbidden)
	})
}

func TestStatsOfKeys(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	made := v.Clock.Now()
	v.Clock.Advance(time.Hour)
	rotated := v.Clock.Now()
	if err := v.RotateKeys(t.Context(), v.Owner.TenantID(), nil); err != nil {
		t.Fatal(err)
	}
	got := stats(t, v.Owner)
	want := []vault.KeyStats{{Version: 1, State: vault.KeyDestroyed, CreatedAt: made}, {Version: 2, State: vault.KeyPrimary, CreatedAt: rotated}}
	if diff := cmp.Diff(want, got.Keys); diff != "" || !got.RotatedAt.Equal(rotated) {
		t.Errorf("rotated %s, keys (-want +got):\n%s", got.RotatedAt, diff)
	}
}
