package vault_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestTenantLifecycle(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	got := must.Get(v.Management.GetTenant(t.Context()))(t)
	unexported := cmpopts.IgnoreUnexported(vault.Tenant{})
	must.Same(t, "tenant", v.Acme, got, unexported)
	if !strings.HasPrefix(got.WebhookSecret, "whsec_") || got.Settings.DeduplicateTokens {
		t.Error("a new tenant has no webhook secret, or deduplicates")
	}
	v.Clock.Advance(time.Minute)
	got = must.Get(v.Management.ReplaceTenant(t.Context(), vault.TenantParams{Name: "New", Settings: vault.TenantSettings{DeduplicateTokens: true}}))(t)
	want := *v.Acme
	want.Name, want.Settings.DeduplicateTokens, want.ModifiedAt = "New", true, vaulttest.Start.Add(time.Minute)
	must.Same(t, "updated tenant", &want, got, unexported)
	for _, name := range []string{"", strings.Repeat("x", 201), "a\x00"} {
		given.WantFields(t, "update", must.Err(v.Management.ReplaceTenant(t.Context(), vault.TenantParams{Name: name})), "name")
		given.WantFields(t, "create", must.Err(v.CreateTenant(t.Context(), name)), "name")
	}
	var p vault.TenantParams
	given.WantFields(t, "strict JSON", p.UnmarshalJSON([]byte(`{"name":"x","id":"y","settings":{"deduplicate_tokens":"yes","z":1}}`)),
		"id", "settings.deduplicate_tokens", "settings.z")
	second, _ := v.NewTenant(t, "Second")
	page := must.Get(v.ListTenants(t.Context(), vault.PageParams{}))(t)
	given.Same(t, "tenants", []uuid.UUID{page.Data[0].ID, page.Data[1].ID}, []uuid.UUID{second.ID, v.Acme.ID})
	must.Match(t, "a tenant that does not exist", must.Err(v.Vault.Tenant(uuid.New()).CreateToken(t.Context(), generic)), vault.ErrNotFound)
}

// Totals adds up the newest tenants, and counts them all.
func TestTotals(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, name := range []string{"A", "B"} {
		tenant := must.Get(v.CreateTenant(t.Context(), name))(t)
		must.Get(v.Vault.Tenant(tenant.ID).CreateToken(t.Context(), vault.TokenParams{Type: "token", Data: "x"}))(t)
	}
	for limit, want := range map[int]vault.Totals{
		2:   {Tenants: 3, Counted: 2, Tokens: 2, Keys: map[string]int{"primary": 2}},
		200: {Tenants: 3, Counted: 3, Tokens: 2, Keys: map[string]int{"primary": 3}},
	} {
		got := must.Get(v.Totals(t.Context(), limit))(t)
		if diff := cmp.Diff(&want, got, cmpopts.IgnoreFields(vault.Totals{}, "SealedSince")); diff != "" || len(got.SealedSince) != want.Counted {
			t.Errorf("at most %d: %v (-want +got):\n%s", limit, got.SealedSince, diff)
		}
	}
}

// Deleting a tenant destroys only its own keys and rows.
func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	_, other := v.NewTenant(t, "Other")
	theirs := given.Create(t, other.Client, generic)
	tok := given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"k": "v"}})
	c := given.Session(t, v, vault.SessionGrant{Permissions: given.Everything})
	must.Do(t, v.DeleteTenant(t.Context(), v.Acme.ID))
	must.Match(t, "the tenant", must.Err(v.Owner.GetToken(t.Context(), tok.ID)), vault.ErrNotFound)
	must.Match(t, "a session", c.HasPermission(t.Context(), "token:read"), vault.ErrUnauthenticated)
	must.Match(t, "a key", must.Err(v.Authenticate(t.Context(), v.PrivateKey)), vault.ErrUnauthenticated)
	must.Match(t, "again", v.DeleteTenant(t.Context(), v.Acme.ID), vault.ErrNotFound)
	given.Same(t, "rows", len(store.Rows(t, v.Acme.ID, "tok")), 0)
	recs, _, err := store.ListRecords(t.Context(), storage.RecordFilter{Tenant: storage.ID(v.Acme.ID), Limit: 10})
	if err != nil || len(recs) != 0 {
		t.Errorf("%d records are left (%v)", len(recs), err)
	}
	given.WantData(t, "another tenant's token", given.Get(t, other.Client, theirs.ID).Data, `"x"`)
	page := must.Get(v.ListTenants(t.Context(), vault.PageParams{}))(t)
	given.Same(t, "page.Pagination.TotalItems", page.Pagination.TotalItems, 1)
}

// purgeFails is a database that cannot delete a tenant's rows.
type purgeFails struct {
	storage.Storage
	fails bool
}

func (p *purgeFails) Purge(ctx context.Context, tenant storage.ID, limit int) (bool, error) {
	if p.fails {
		return false, given.ErrDown
	}
	return p.Storage.Purge(ctx, tenant, limit)
}

// An interrupted deletion leaves nothing readable, and the next sweep deletes the
// rest.
func TestSweepFinishesAnInterruptedDeleteTenant(t *testing.T) {
	t.Parallel()
	store := given.SQLite(t, ":memory:")
	p := &purgeFails{Storage: store, fails: true}
	v := vaulttest.OpenStorage(t, p, nil)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "x"})
	must.Match(t, "a deletion that is cut off", v.DeleteTenant(t.Context(), v.Acme.ID), given.ErrDown)
	must.Match(t, "a key", must.Err(v.Authenticate(t.Context(), v.PrivateKey)), vault.ErrUnauthenticated)
	left := func() int {
		rows := must.Get(store.Tokens(t.Context(), storage.ID(v.Acme.ID), []string{"tok"}))(t)
		rings, err := store.Records(t.Context(), storage.ID(v.Acme.ID), "ring", []storage.ID{storage.ID(v.Acme.ID)})
		if err != nil || len(rings) != 0 {
			t.Errorf("%d rings are left (%v)", len(rings), err)
		}
		return len(rows)
	}
	given.Same(t, "rows after the cut", left(), 1)
	p.fails = false
	given.Sweep(t, v.Vault)
	given.Same(t, "rows after the sweep", left(), 0)
}

func TestMasterKeyText(t *testing.T) {
	t.Parallel()
	key := vault.NewKey()
	parsed := must.Get(vault.ParseKey("\n " + key.Text() + " \n"))(t)
	sealed := must.Get(key.Encrypt([]byte("x"), []byte("ad")))(t)
	given.Same(t, "the parsed key opens", string(must.Get(parsed.Decrypt(sealed, []byte("ad")))(t)), "x")
	must.Match(t, "opens with other associated data", must.Err(parsed.Decrypt(sealed, []byte("other"))), must.Text("decryption failed"))
	text := key.Text()
	for name, bad := range map[string]struct{ text, want string }{
		"empty":     {"", "the master key is empty"},
		"no prefix": {text[9:], "a master key must start with vaultkey_"},
		"cut off":   {text[:len(text)-1], "mistyped"},
		"mistyped":  {text[:20] + string("12"[btoi(text[20] == '1')]) + text[21:], "mistyped"},
		"longer":    {text + "1", "mistyped"},
	} {
		_, err := vault.ParseKey(bad.text)
		given.WantSilent(t, err, text[9:])
		must.Match(t, name+": taken", err, must.Text(bad.want))
	}
	for _, shown := range []string{key.String(), fmt.Sprintf("%#v", key)} {
		must.Lack(t, "the printed key", shown, text[9:])
	}
}

// arguments are the arguments of methods that would refuse zero values too early.
func arguments(v *vaulttest.Vault) map[string][]any {
	all := map[string][]any{
		"Authenticate":     {v.PrivateKey},
		"AuthorizeSession": {vault.SessionGrant{Nonce: "x", Permissions: []vault.Permission{"token:read"}}},
		"CreateTenant":     {"x"},
		"CreateToken":      {generic},
		"EnsureTenant":     {"x"},
		"EraseTokens":      {vault.EraseParams{Query: "type:token", Reason: "x"}},
		"Explain":          {vault.ExplainParams{ApplicationID: v.Public.ApplicationID(), Permission: "token:read", Containers: []string{"/"}}},
		"InvokeProxy":      {vault.ProxyCall{Key: "x"}},
		"Once": {vault.IdempotencyKey{Key: "x"}, func(context.Context, *vault.Client) (vault.StoredResponse, error) {
			return vault.StoredResponse{Status: 200}, nil
		}},
		"PatchTenant":   {vault.JSON(`{"name":"y"}`)},
		"PatchToken":    {"x", vault.JSON(`{"data":"y"}`)},
		"ReactAsync":    {uuid.UUID{}, vault.ReactParams{CallbackURL: "https://example.com/"}},
		"ReplaceTenant": {vault.TenantParams{Name: "x"}},
		"SearchTokens":  {vault.SearchTokensParams{Query: "type:token"}},
		"Tokenize":      {"x"},
	}
	for kind, params := range map[string]any{"Application": anApplication("x"), "Proxy": aProxy("x"), "Reactor": aReactor("x")} {
		all["Patch"+kind], all["Replace"+kind] = []any{uuid.UUID{}, vault.JSON(`{"name":"y"}`)}, []any{uuid.UUID{}, params}
		for _, verb := range []string{"Apply", "Create", "Ensure"} {
			all[verb+kind] = []any{params}
		}
	}
	return all
}

// callEach calls every method of a Vault or Client that takes a context, with these
// arguments or otherwise zero values, and passes on the results.
func callEach(ctx context.Context, of any, arguments map[string][]any, result func(method string, err error)) {
	receiver := reflect.ValueOf(of)
	for i := range receiver.NumMethod() {
		method := receiver.Type().Method(i)
		if method.Type.NumIn() < 2 || method.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue // does nothing, or is Close
		}
		in := []reflect.Value{reflect.ValueOf(ctx)}
		for j := 2; j < method.Type.NumIn(); j++ {
			value := reflect.Zero(method.Type.In(j))
			if some := arguments[method.Name]; some != nil {
				value = reflect.ValueOf(some[j-2])
			}
			if !value.Type().AssignableTo(method.Type.In(j)) { // Once of an owner passes an owner
				value = reflect.ValueOf(func(context.Context, *vault.Owner) (vault.StoredResponse, error) {
					return vault.StoredResponse{Status: 200}, nil
				})
			}
			in = append(in, value)
		}
		out := receiver.Method(i).Call(in)
		switch last := out[len(out)-1]; {
		case last.Kind() == reflect.Func: // an iterator
			for _, err := range last.Seq2() {
				failed, _ := err.Interface().(error)
				result(method.Name, failed)
				break // some run until their context ends
			}
		case last.IsNil():
			result(method.Name, nil)
		default:
			result(method.Name, last.Interface().(error))
		}
	}
}

// After Close every operation fails with ErrClosed, even operations that need only
// the memory of the process.
func TestEveryOperationAfterClose(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, c := range []*vault.Client{v.Public, v.Private, v.Management} {
		given.Get(t, v.Owner.Client, given.Create(t, v.Owner.Client, generic).ID)
		if err := c.HasPermission(t.Context(), ""); err != nil {
			t.Fatal(err) // the owner of the key is now cached
		}
	}
	must.Do(t, v.Close())
	must.Match(t, "closing again", v.Close(), nil)
	called := 0
	closed := func(method string, err error) {
		called++
		must.Match(t, method, err, vault.ErrClosed)
	}
	for _, of := range []any{v.Vault, v.Owner, v.Private} {
		callEach(t.Context(), of, arguments(v), closed)
	}
	if called < 80 {
		t.Errorf("only %d calls: the test does not find the methods", called)
	}
}

// The observer is notified of every operation, including failed ones.
func TestObserverIsNotifiedOfEveryOperation(t *testing.T) {
	t.Parallel()
	observer := &told{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{Observer: observer})
	must.Do(t, v.Close())
	observer.work = nil
	var called, heard []string
	callEach(t.Context(), v.Owner, arguments(v), func(method string, _ error) { called = append(called, method) })
	notTold := []string{"As", "HasPermission", "Once"} // As and HasPermission only check the identity; Once reports its inner calls
	called = slices.DeleteFunc(called, func(method string) bool { return slices.Contains(notTold, method) })
	for _, line := range observer.work {
		heard = append(heard, strings.Fields(line)[2])
	}
	given.Same(t, fmt.Sprintf("%d calls (-called +heard)", len(called)), heard, called)
}

// An operation with a canceled context changes nothing.
func TestEveryOperationOfACancelledContext(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	// Their results are in memory, so no caller waits.
	fromMemory := map[string]bool{"HasPermission": true, "Detokenize": true, "ListEntityTypes": true, "ListPermissions": true, "Authenticate": true}
	before := given.Entries(t, v, vault.ListLogsParams{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, of := range []any{v.Vault, v.Owner} {
		callEach(cancelled, of, arguments(v), func(method string, err error) {
			switch {
			case method == "CreateSession": // is the public application's
			case method == "OwnApplication": // the tenant has none
			case !fromMemory[method]:
				must.Match(t, method, err, context.Canceled)
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("%s: %v", method, err)
			}
		})
	}
	must.Match(t, "CreateSession", must.Err(v.Public.CreateSession(cancelled)), context.Canceled)
	given.Same(t, "entries of the log", len(given.Entries(t, v, vault.ListLogsParams{})), len(before))
}

// Zero values are refused or have a meaning. They never panic, and their errors are
// documented ones.
func TestEveryOperationOnZeroValues(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, of := range []any{v.Vault, v.Owner, v.Public, v.Private, v.Management} {
		callEach(t.Context(), of, nil, func(method string, err error) {
			for _, known := range []error{nil, vault.ErrInvalid, vault.ErrNotFound, vault.ErrForbidden, vault.ErrUnauthenticated} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Errorf("%s: %v", method, err)
		})
	}
}

// closable is a runtime that records whether it was closed.
type closable struct {
	vault.Runtime
	closed int
}

func (r *closable) Close() error { r.closed++; return nil }

// A failing Open returns the reason and closes its store and runtime, which hold
// connections and processes.
func TestFailedOpenClosesItsResources(t *testing.T) {
	t.Parallel()
	var undeclared *vault.Key
	for name, test := range map[string]struct {
		key  vault.AEAD
		keep time.Duration
		want string
	}{
		"no key":       {nil, 0, "master key"},
		"a nil key":    {undeclared, 0, "master key"},
		"an empty key": {&vault.Key{}, 0, "master key"},
		"a bad config": {vault.NewKey(), -1, "Config.LogRetention"},
	} {
		store, runtime := given.SQLite(t, ":memory:"), &closable{}
		_, err := vault.Open(t.Context(), store, test.key, &vault.Config{Runtime: runtime, LogRetention: test.keep})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		must.Match(t, name+": the store", store.Ping(t.Context()), vault.ErrClosed)
		given.Same(t, name+": the runtime was closed", runtime.closed, 1)
	}
	must.Match(t, "opened without a store", must.Err(vault.Open(t.Context(), nil, vault.NewKey(), nil)), must.Text("Open needs a store and a master key"))
}

// A run or code check that is interrupted because the vault closes its runtime
// fails like every operation of a closed vault.
func TestClosedRuntimeIsAClosedVault(t *testing.T) {
	t.Parallel()
	w := newReactWorld(t, func(context.Context, map[string]any, script.Host) (any, error) { return nil, script.ErrClosed })
	must.Match(t, "run", must.Err(w.Private.React(t.Context(), w.reactor.ID, vault.ReactParams{})), vault.ErrClosed)
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: checking(func(string) error { return script.ErrClosed })})
	must.Match(t, "check", must.Err(v.Owner.CreateReactor(t.Context(), given.ReactorParams("r"))), vault.ErrClosed)
}

// A patch of the tenant changes only the fields it names.
func TestPatchTenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, step := range []struct {
		patch any
		want  vault.TenantParams
	}{
		{map[string]any{"settings": map[string]any{"deduplicate_tokens": true}}, vault.TenantParams{Name: "Acme", Settings: vault.TenantSettings{DeduplicateTokens: true}}},
		{vault.JSON(`{"name":"New"}`), vault.TenantParams{Name: "New", Settings: vault.TenantSettings{DeduplicateTokens: true}}},
		{struct {
			Settings *vault.TenantSettings `json:"settings"`
		}{}, vault.TenantParams{Name: "New"}},
	} {
		got := must.Get(v.Management.PatchTenant(t.Context(), step.patch))(t)
		given.Same(t, "patched", vault.TenantParams{Name: got.Name, Settings: got.Settings}, step.want)
		given.Same(t, "the secret after a patch", got.WebhookSecret, v.Acme.WebhookSecret)
	}
	for patch, field := range map[string]string{`{"name":null}`: "name", `{"nope":1}`: "nope", `[]`: ""} {
		given.WantFields(t, patch, must.Err(v.Management.PatchTenant(t.Context(), vault.JSON(patch))), field)
	}
	must.Match(t, "a private application", must.Err(v.Private.PatchTenant(t.Context(), vault.JSON(`{}`))), vault.ErrForbidden)
}

func stats(t testing.TB, c *vault.Owner) *vault.Stats {
	t.Helper()
	return must.Get(c.Stats(t.Context()))(t)
}

func TestStats(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		before := stats(t, s.Owner)
		given.Create(t, s.Owner.Client, aCard("one"))
		given.Create(t, s.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/a/", "/b/"}})
		given.Create(t, s.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Containers: []string{"/a/"}})
		given.Create(t, s.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: s.Clock.Now().Add(time.Minute)})
		must.Get(s.Public.CreateSession(t.Context()))(t)
		made := s.Clock.Now()
		s.Clock.Advance(2 * time.Minute)
		want := &vault.Stats{
			Tokens:            3,
			TokensByType:      map[vault.TokenType]int{"card_number": 1, "token": 2},
			TokensByContainer: map[string]int{"/pci/high/": 1, "/a/": 2, "/b/": 1},
			LogEntries:        before.LogEntries + 5,
			Sessions:          1,
			Keys:              []vault.DataKeyStats{{Version: 1, State: "primary", CreatedAt: made}},
		}
		given.Same(t, "stats", stats(t, s.Owner), want)
		s.Clock.Advance(2 * time.Minute)
		given.Same(t, "sessions", stats(t, s.Owner).Sessions, 0)
	})
}

func TestStatsOfKeys(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	made := v.Clock.Now()
	v.Clock.Advance(time.Hour)
	rotated := v.Clock.Now()
	must.Do(t, v.RotateDataKeys(t.Context(), v.Owner.TenantID(), nil))
	got := stats(t, v.Owner)
	want := []vault.DataKeyStats{{Version: 1, State: "destroyed", CreatedAt: made}, {Version: 2, State: "primary", CreatedAt: rotated}}
	given.Same(t, fmt.Sprintf("rotated %s, keys", got.RotatedAt), got.Keys, want)
}

// A sweep deletes expired rows in all tenants, and nothing else.
func TestSweepDeletesWhatHasExpired(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	soon := vaulttest.Start.Add(30 * time.Minute)
	const chunk = 250 // more than one change holds
	for i := range chunk {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: i, ExpiresAt: soon})
	}
	given.Create(t, other.Client, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "987"}, ExpiresAt: soon})
	given.Create(t, other.Client, vault.TokenParams{ID: "kept", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "987"}})
	given.Session(t, v, vault.SessionGrant{Permissions: given.Everything})
	given.Same(t, "nothing is due", given.Sweep(t, v.Vault), vault.Swept{})
	v.Clock.Advance(30 * time.Minute)
	given.Same(t, "after half an hour", given.Sweep(t, v.Vault), vault.Swept{Tokens: chunk + 1, Sessions: 1})
	v.Clock.Advance(30 * time.Minute)
	given.Same(t, "after an hour", given.Sweep(t, v.Vault), vault.Swept{CVCs: 1})
	given.Same(t, "again", given.Sweep(t, v.Vault), vault.Swept{})
	found, _ := given.List(t, other.Client, vault.ListTokensParams{})
	given.Same(t, "what is left", found, []string{"kept"})
	given.Same(t, "log of an expired token", given.Operations(t, v, "tok7"), []string{"create", "expire"})
	page := must.Get(other.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "kept", PageParams: vault.PageParams{Size: 5}}))(t)
	given.Same(t, "message about a cvc", page.Data[1].Message, "Card cvc expired") // before the read of the list
	given.Get(t, v.Private, given.Create(t, v.Private, generic).ID)                // the applications still exist
}

// Idempotency records are deleted after 24 hours.
func TestSweepDeletesIdempotencyRecords(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	var key storage.Key
	store.Before = func(call string, ch *storage.Change) error {
		if call == "Write" && ch.Claim != nil {
			key = ch.Claim.Key
		}
		return nil
	}
	var runs atomic.Int32
	replays(t, "the first", false)(v.Private.Once(t.Context(), vault.IdempotencyKey{Key: "abc"}, creating(&runs, generic)))
	v.Clock.Advance(24*time.Hour - time.Microsecond)
	given.Sweep(t, v.Vault)
	must.Match(t, "before 24 hours", must.Err(store.Claim(t.Context(), storage.ID(v.Acme.ID), key)), nil)
	v.Clock.Advance(time.Microsecond)
	given.Sweep(t, v.Vault)
	must.Match(t, "after 24 hours", must.Err(store.Claim(t.Context(), storage.ID(v.Acme.ID), key)), storage.ErrNotFound)
}

// A vault sweeps in the background.
func TestVaultSweepsInTheBackground(t *testing.T) {
	t.Parallel()
	store, clock := given.SQLite(t, ":memory:"), vaulttest.NewClock(vaulttest.Start)
	v := given.Open(t, store, vault.NewKey(), vault.Config{Now: clock.Now, SweepEvery: time.Millisecond})
	tenant := given.TenantOf(t, v)
	tok := given.Create(t, tenant, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	clock.Advance(time.Hour)
	given.Eventually(t, "the row is deleted", func() bool {
		rows, err := store.Tokens(t.Context(), storage.ID(tenant.TenantID()), []string{tok.ID})
		return err == nil && len(rows) == 0
	})
}

// A failing sweep returns an error, and the next sweep continues. A row that cannot be
// deleted does not stop the rest of the sweep.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: vaulttest.Start.Add(time.Hour)})
	v.Clock.Advance(time.Hour)
	store.Before = func(string, *storage.Change) error { return given.ErrDown }
	must.Match(t, "while the database is down", must.Err(v.Sweep(t.Context())), given.ErrDown)
	var swept bool
	store.Before = func(method string, c *storage.Change) error {
		swept = swept || method == "Sweep"
		if c != nil && len(c.DeleteTokens) > 0 {
			return given.ErrDown
		}
		return nil
	}
	must.Match(t, "a token that cannot be deleted", must.Err(v.Sweep(t.Context())), given.ErrDown)
	given.Same(t, "the storage was swept", swept, true)
	store.Before = nil
	given.Same(t, "when it is back", given.Sweep(t, v.Vault), vault.Swept{Tokens: 1})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Sweep(cancelled); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sweep: %v", err)
	}
}

// TestNamesLeadToTheirOwnRecords points the index of keys, which is not sealed, at
// other records. A name must not lead there.
func TestNamesLeadToTheirOwnRecords(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	acme := must.Get(v.EnsureTenant(ctx, "Acme"))(t)
	must.Get(v.EnsureTenant(ctx, "Mallory"))(t)
	c := v.Tenant(acme.ID)
	for _, name := range []string{"payments", "refunds"} {
		must.Get(c.EnsureReactor(ctx, vault.ReactorParams{Name: name, Code: "module.exports = () => 1", Configuration: map[string]string{}}))(t)
	}
	swap := func(kind string) {
		t.Helper()
		rows := must.Get(v.DB.QueryContext(ctx, `SELECT l.hash, l.tenant_id, l.id FROM vault_lookups AS l
			JOIN vault_records AS r ON r.tenant_id = l.tenant_id AND r.kind = l.kind AND r.id = l.id WHERE l.kind = ? AND r.alt_hash = l.hash`, kind))(t)
		defer rows.Close()
		var all [][3][]byte
		for rows.Next() {
			var r [3][]byte
			must.Do(t, rows.Scan(&r[0], &r[1], &r[2]))
			all = append(all, r)
		}
		if err := rows.Err(); err != nil || len(all) < 2 {
			t.Fatalf("%d names of a %s: %v", len(all), kind, err)
		}
		for i, r := range all { // each name leads to the record of the next
			next := all[(i+1)%len(all)]
			must.Get(v.DB.ExecContext(ctx, `UPDATE vault_lookups SET tenant_id = ?, id = ? WHERE hash = ?`, next[1], next[2], r[0]))(t)
		}
	}
	swap("tenant")
	if got, err := v.EnsureTenant(ctx, "Acme"); err == nil {
		t.Errorf("EnsureTenant returned the tenant %s", got.Name)
	}
	swap("reactor")
	if got, err := c.EnsureReactor(ctx, vault.ReactorParams{Name: "payments"}); err == nil {
		t.Errorf("EnsureReactor returned the reactor %s", got.Name)
	}
}

// purgeNever is a database where the rows of a deleted tenant have no end. It counts
// the calls that look for old log entries.
type purgeNever struct {
	purgeFails
	purged, looked, lookedBefore int
}

func (p *purgeNever) Purge(ctx context.Context, tenant storage.ID, limit int) (bool, error) {
	if p.fails {
		return p.purgeFails.Purge(ctx, tenant, limit)
	}
	p.purged, p.lookedBefore = p.purged+1, p.looked
	return true, nil
}

func (p *purgeNever) LogTenants(ctx context.Context, before time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	p.looked++
	return p.Storage.LogTenants(ctx, before, after, limit)
}

// A sweep deletes old log entries before the rows of a deleted tenant, and ends even
// if the tenant has very many.
func TestRetentionDoesNotWaitForDeletedTenants(t *testing.T) {
	t.Parallel()
	p := &purgeNever{purgeFails: purgeFails{Storage: given.SQLite(t, ":memory:"), fails: true}}
	v := vaulttest.OpenStorage(t, p, &vault.Config{LogRetention: 24 * time.Hour})
	must.Match(t, "a deletion that is cut off", v.DeleteTenant(t.Context(), v.Acme.ID), given.ErrDown)
	p.fails, p.looked = false, 0
	must.Get(v.Sweep(t.Context()))(t)
	if p.purged == 0 || p.lookedBefore == 0 {
		t.Errorf("%d calls of Purge after %d of LogTenants", p.purged, p.lookedBefore)
	}
}

// skewed is a database whose clock differs from this machine's.
type skewed struct {
	storage.Storage
	ahead time.Duration
}

func (s skewed) ClockAhead(context.Context) (time.Duration, error) { return s.ahead, nil }

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
			past := given.Open(t, given.SQLite(t, path), key, vault.Config{Now: vaulttest.NewClock(time.Now().Add(-2 * time.Hour)).Now})
			tenant := must.Get(past.CreateTenant(t.Context(), "Acme"))(t)
			token := vault.TokenParams{ID: "expired-token", Type: vault.TypeGeneric, Data: "x", ExpiresAt: time.Now().Add(-time.Hour)}
			given.Create(t, past.Tenant(tenant.ID).Client, token)

			var log strings.Builder
			cfg := vault.Config{Now: test.now, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			v := given.Open(t, skewed{given.SQLite(t, path), test.ahead}, key, cfg)
			given.Same(t, "a warning in "+log.String(), strings.Contains(log.String(), "clock"), test.keeps)
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
