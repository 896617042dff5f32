package vault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// A sweep deletes what has expired and nothing else, in all tenants.
func TestSweepDeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	soon := vaulttest.Start.Add(30 * time.Minute)
	const chunk = 250 // more than one change holds
	for i := range chunk {
		create(t, v.Owner, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: i, ExpiresAt: soon})
	}
	create(t, other, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}, ExpiresAt: soon})
	create(t, other, vault.TokenParams{ID: "kept", Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
	session(t, v, vault.Grant{Permissions: everything})
	same(t, "nothing is due", sweep(t, v.Vault), vault.Swept{})
	v.Clock.Advance(30 * time.Minute)
	same(t, "after half an hour", sweep(t, v.Vault), vault.Swept{Tokens: chunk + 1, Sessions: 1})
	v.Clock.Advance(30 * time.Minute)
	same(t, "after an hour", sweep(t, v.Vault), vault.Swept{CVCs: 1})
	same(t, "again", sweep(t, v.Vault), vault.Swept{})
	found, _ := list(t, other, vault.ListTokensParams{})
	same(t, "what is left", found, []string{"kept"})
	same(t, "log of an expired token", operations(t, v, "tok7"), []string{"create", "expire"})
	page, err := other.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "kept", PageParams: vault.PageParams{Size: 5}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "message about a cvc", page.Data[1].Message, "Card cvc expired") // before the read of the list
	get(t, v.Private, create(t, v.Private, generic).ID)                      // the applications are still there
}

func sweep(t testing.TB, v *vault.Vault) vault.Swept {
	t.Helper()
	swept, err := v.Sweep(t.Context())
	if err != nil {
		t.Fatalf("sweep: %v", err)
	}
	return swept
}

// Idempotency records are deleted after 24 hours.
func TestSweepDeletesIdempotencyRecords(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	var key storage.Key
	store.before = func(call string, ch *storage.Change) error {
		if call == "Write" && ch.Claim != nil {
			key = ch.Claim.Key
		}
		return nil
	}
	var runs atomic.Int32
	if _, _, err := v.Private.Once(t.Context(), vault.OnceKey{Key: "abc"}, creating(&runs, generic)); err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(24*time.Hour - time.Microsecond)
	sweep(t, v.Vault)
	if _, err := store.Claim(t.Context(), storage.ID(v.Acme.ID), key); err != nil {
		t.Errorf("before 24 hours: %v", err)
	}
	v.Clock.Advance(time.Microsecond)
	sweep(t, v.Vault)
	_, err := store.Claim(t.Context(), storage.ID(v.Acme.ID), key)
	wantError(t, "after 24 hours", err, storage.ErrNotFound)
}

// Several nodes may sweep at once, while tokens are patched.
func TestConcurrentSweeps(t *testing.T) {
	t.Parallel()
	vaults, clock := nodes(t)
	tenant := tenantOf(t, vaults[0])
	for i := range 100 {
		create(t, tenant, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: i, ExpiresAt: vaulttest.Start.Add(time.Hour)})
		create(t, tenant, vault.TokenParams{ID: fmt.Sprintf("card%d", i), Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
	}
	clock.Advance(time.Hour)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { sweep(t, vaults[i%2]) })
	}
	wg.Go(func() {
		for i := range 20 {
			update(t, tenant, fmt.Sprintf("card%d", i), `{"metadata":{"k":"v"}}`)
		}
	})
	wg.Wait()
	same(t, "what is left to sweep", sweep(t, vaults[0]), vault.Swept{})
	_, total := list(t, tenant, vault.ListTokensParams{})
	same(t, "tokens", total, 100)
	page, err := tenant.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "tok7"})
	if err != nil || page.Pagination.TotalItems != 2 {
		t.Errorf("the log has %d entries of an expired token (%v), want 2", page.Pagination.TotalItems, err)
	}
}

// A vault sweeps by itself.
func TestVaultSweepsByItself(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	clock := vaulttest.NewClock(vaulttest.Start)
	v, err := vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{Now: clock.Now, SweepEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant := tenantOf(t, v)
	tok := create(t, tenant, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	clock.Advance(time.Hour)
	eventually(t, "the row is deleted", func() bool {
		rows, err := store.Tokens(t.Context(), storage.ID(tenant.TenantID()), []string{tok.ID})
		return err == nil && len(rows) == 0
	})
}

// A sweep that fails says so, and the next one goes on.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	v.Clock.Advance(time.Hour)
	store.before = func(string, *storage.Change) error { return errDown }
	_, err := v.Sweep(t.Context())
	wantError(t, "while the database is down", err, errDown)
	store.before = nil
	same(t, "when it is back", sweep(t, v.Vault), vault.Swept{Tokens: 1})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Sweep(cancelled); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
}

// What fails for one row keeps neither other rows nor old pages.
func TestSweepGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	create(t, v.Owner, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	v.Clock.Advance(time.Hour)
	var swept bool
	store.before = func(method string, c *storage.Change) error {
		swept = swept || method == "Sweep"
		if c != nil && len(c.DeleteTokens) > 0 {
			return errDown
		}
		return nil
	}
	_, err := v.Sweep(t.Context())
	wantError(t, "a token that cannot be deleted", err, errDown)
	if !swept {
		t.Error("the storage was not swept")
	}
}

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
	setUp := logTotal(t, v.Owner, vault.ListLogsParams{}) // the tenant and its applications
	const cards = 450                                     // more than two writes of a sweep delete
	for i := range cards {
		create(t, v.Owner, vault.TokenParams{ID: fmt.Sprintf("card%d", i), Type: vault.TypeCard, Data: vault.CardData{Number: visa}})
	}
	create(t, other, vault.TokenParams{ID: "theirs", Type: vault.TypeGeneric, Data: "x"})
	v.Clock.Advance(time.Microsecond)
	later := v.Clock.Now()
	create(t, v.Owner, vault.TokenParams{ID: "later", Type: vault.TypeCard, Data: vault.CardData{Number: visa}})

	v.Clock.Advance(year - time.Microsecond) // the first entries are exactly a year old
	same(t, "at the end of the retention", sweep(t, v.Vault), vault.Swept{})
	same(t, "entries", logTotal(t, v.Owner, vault.ListLogsParams{}), setUp+cards+1)
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
		same(t, name, logTotal(t, v.Owner, tt.p), tt.want)
	}
	same(t, "entries of the other tenant", logTotal(t, other, vault.ListLogsParams{}), 0)
	_, total := list(t, v.Owner, vault.ListTokensParams{}) // the tokens are still there
	same(t, "tokens", total, cards+1)
}

// Without a retention entries stay, however old they are.
func TestLogIsKeptForEverByDefault(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	all := logTotal(t, v.Owner, vault.ListLogsParams{})
	v.Clock.Advance(100 * year)
	same(t, "swept", sweep(t, v.Vault), vault.Swept{})
	same(t, "entries", logTotal(t, v.Owner, vault.ListLogsParams{}), all)
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
	eventually(t, "the entry is deleted", func() bool { return logTotal(t, tenant, vault.ListLogsParams{}) == 0 })
}
