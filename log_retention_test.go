package vault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const year = 365 * 24 * time.Hour

func TestLogRetentionIsChecked(t *testing.T) {
	t.Parallel()
	for retention, ok := range map[time.Duration]bool{
		0: true, 24 * time.Hour: true, year: true,
		-1: false, -year: false, 1: false, 24*time.Hour - 1: false,
	} {
		store, err := sqlite.Open(t.Context(), ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{LogRetention: retention, SweepEvery: -1, WorkEvery: -1})
		switch {
		case ok && err == nil:
			err = v.Close()
			fallthrough
		case ok:
			if err != nil {
				t.Errorf("%s: %v", retention, err)
			}
		case err == nil:
			_ = v.Close()
			t.Errorf("%s was accepted", retention)
		case !strings.Contains(err.Error(), "Config.LogRetention") || !strings.Contains(err.Error(), "24h0m0s"):
			t.Errorf("%s: the error %q names neither the setting nor its bound", retention, err)
		}
	}
}

// logTotal counts a tenant's entries by one filter, with a page that does not
// show how many there are.
func logTotal(t testing.TB, c *vault.Client, p vault.ListLogsParams) int {
	t.Helper()
	p.Size = 1
	page, err := c.ListLogs(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return page.Pagination.TotalItems
}

// A sweep deletes the entries that are older than the retention, of all
// tenants, in several pieces, and nothing but entries.
func TestSweepDeletesOldLogs(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{LogRetention: year})
	_, other := v.NewTenant(t, "Other")
	start := v.Clock.Now()
	setUp := logTotal(t, v.Tenant, vault.ListLogsParams{}) // the tenant and its applications
	const cards = 450                                      // more than two writes of a sweep delete
	for i := range cards {
		create(t, v.Tenant, vault.TokenParams{ID: fmt.Sprintf("card%d", i), Type: vault.Card, Data: vault.CardData{Number: visa}})
	}
	create(t, other, vault.TokenParams{ID: "theirs", Type: vault.Generic, Data: "x"})
	v.Clock.Advance(time.Microsecond)
	later := v.Clock.Now()
	create(t, v.Tenant, vault.TokenParams{ID: "later", Type: vault.Card, Data: vault.CardData{Number: visa}})

	v.Clock.Advance(year - time.Microsecond) // the first entries are exactly a year old
	same(t, "at the end of the retention", sweep(t, v.Vault), vault.Swept{})
	same(t, "entries", logTotal(t, v.Tenant, vault.ListLogsParams{}), setUp+cards+1)
	v.Clock.Advance(time.Microsecond)
	same(t, "a microsecond later", sweep(t, v.Vault), vault.Swept{Logs: setUp + cards + 2})
	same(t, "again", sweep(t, v.Vault), vault.Swept{})

	for name, tt := range map[string]struct {
		p    vault.ListLogsParams
		want int
	}{
		"all": {vault.ListLogsParams{}, 1}, "cards": {vault.ListLogsParams{EntityType: "card"}, 1},
		"applications": {vault.ListLogsParams{EntityType: "application"}, 0},
		"deleted":      {vault.ListLogsParams{EntityID: "card7"}, 0}, "kept": {vault.ListLogsParams{EntityID: "later"}, 1},
		"until then": {vault.ListLogsParams{EndDate: later}, 0}, "from then on": {vault.ListLogsParams{StartDate: later}, 1},
		"of the day": {vault.ListLogsParams{StartDate: start.Truncate(24 * time.Hour), EndDate: start.Add(24 * time.Hour)}, 1},
	} {
		same(t, name, logTotal(t, v.Tenant, tt.p), tt.want)
	}
	same(t, "entries of the other tenant", logTotal(t, other, vault.ListLogsParams{}), 0)
	_, total := list(t, v.Tenant, vault.ListTokensParams{}) // the tokens are still there
	same(t, "tokens", total, cards+1)
}

// Without a retention entries stay, however old they are.
func TestLogIsKeptForEverByDefault(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	all := logTotal(t, v.Tenant, vault.ListLogsParams{})
	v.Clock.Advance(100 * year)
	same(t, "swept", sweep(t, v.Vault), vault.Swept{})
	same(t, "entries", logTotal(t, v.Tenant, vault.ListLogsParams{}), all)
}

// logsStay is a database that cannot delete the log entries of one tenant.
type logsStay struct {
	storage.Storage
	of uuid.UUID
}

func (s *logsStay) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	if tenant == storage.ID(s.of) {
		return 0, errDown
	}
	return s.Storage.DeleteLogs(ctx, tenant, before, limit)
}

// What fails for one tenant is reported, and the others' entries are deleted.
func TestSweepOfLogsGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	s := &logsStay{Storage: store}
	v := vaulttest.OpenStorage(t, s, &vault.Config{LogRetention: year})
	_, other := v.NewTenant(t, "Other")
	s.of = v.Acme.ID
	v.Clock.Advance(year + time.Second)
	swept, err := v.Sweep(t.Context())
	wantError(t, "a tenant whose entries stay", err, errDown)
	if !strings.Contains(err.Error(), v.Acme.ID.String()) {
		t.Errorf("the error %q does not name the tenant", err)
	}
	same(t, "swept of the other", swept, vault.Swept{Logs: 1})
	same(t, "entries of the other", logTotal(t, other, vault.ListLogsParams{}), 0)
}

// endlessLogs is a database whose log has no end of old entries, or fails for
// every tenant.
type endlessLogs struct {
	storage.Storage
	err     error
	tenants []storage.ID
	calls   int
}

func (s *endlessLogs) LogTenants(_ context.Context, _ time.Time, after storage.ID, _ int) ([]storage.ID, error) {
	if !after.IsZero() {
		return nil, nil
	}
	return s.tenants, nil
}

func (s *endlessLogs) DeleteLogs(_ context.Context, _ storage.ID, _ time.Time, limit int) (int, error) {
	s.calls++
	if s.err != nil {
		return 0, s.err
	}
	return limit, nil
}

// A sweep ends, however long the log is and however many tenants it fails for.
func TestSweepOfLogsIsBounded(t *testing.T) {
	t.Parallel()
	many := make([]storage.ID, 100)
	for i := range many {
		many[i] = storage.ID{byte(i + 1)}
	}
	for name, test := range map[string]struct {
		err   error
		calls int
	}{"a backlog": {nil, 10_000}, "a database that is down": {errDown, 10}} {
		store, err := sqlite.Open(t.Context(), ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		s := &endlessLogs{Storage: store, err: test.err, tenants: many}
		v := vaulttest.OpenStorage(t, s, &vault.Config{LogRetention: year})
		if _, err := v.Sweep(t.Context()); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name+": pieces", s.calls, test.calls)
	}
}

// The vault deletes old entries by itself.
func TestVaultDeletesOldLogsByItself(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	clock := vaulttest.NewClock(vaulttest.Start)
	v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Now: clock.Now, SweepEvery: time.Millisecond, LogRetention: year})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant := tenantOf(t, v)
	same(t, "entries", logTotal(t, tenant, vault.ListLogsParams{}), 1)
	clock.Advance(year + time.Second)
	eventually(t, 20*time.Second, "the entry is deleted", func() bool { return logTotal(t, tenant, vault.ListLogsParams{}) == 0 })
}
