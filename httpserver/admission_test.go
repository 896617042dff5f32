package httpserver

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// smallVault returns a vault whose requests may hold 4 MiB in total, and 2
// MiB for one tenant.
func smallVault(t *testing.T) *restVault {
	t.Helper()
	return restVaultOf(t, vaulttest.Open(t, ":memory:", &vault.Config{MaxMemory: 4 << 20, SweepEvery: -1, WorkEvery: -1}), nil)
}

// A request that finds no room gets a Retry-After. Other tenants and small
// requests are not affected. A request that could never fit is too large.
func TestMemoryOfATenantIsBounded(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	_, other := w.NewTenant(t, "Other")
	_, otherKey := w.NewApplication(t, other, vault.ApplicationPrivate, nil)
	large := fmt.Sprintf(`{"type":"token","data":%q}`, strings.Repeat("x", 100<<10))
	w.do("POST", "/tokens", w.PrivateKey, large).want(t, 201)

	held := core.CallerOf(w.Private).Room(nil)
	ctx := held.In(t.Context())
	must.Do(t, held.Parse(ctx, []byte(strings.Repeat(" ", 850<<10))))
	held.Rest()
	res := w.do("POST", "/tokens", w.PrivateKey, large)
	res.wantError(t, 503)
	same(t, "Retry-After", res.Header.Get("Retry-After"), "1")
	must.Fail(w.Private.Tokenize(t.Context(), vault.JSON(large)))(t, "in process", vault.ErrUnavailable)
	w.do("POST", "/tokens", w.PrivateKey, card).want(t, 201)
	w.do("POST", "/tokens", otherKey, large).want(t, 201)
	held.Leave()
	w.do("POST", "/tokens", w.PrivateKey, large).want(t, 201)

	brackets := `{"type":"token","data":[` + strings.Repeat("[],", 100<<10) + `1]}`
	w.do("POST", "/tokens", w.PrivateKey, brackets).wantError(t, 413)
	must.Fail(w.Private.Tokenize(t.Context(), vault.JSON(brackets)))(t, "in process", vault.ErrTooLarge)
}

// Pages are read within the memory limit of their tenant, and the memory is
// released afterwards.
func TestMemoryOfPagesIsBounded(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	large := fmt.Sprintf(`{"type":"token","data":%q}`, strings.Repeat("x", 60<<10))
	for range 8 {
		w.do("POST", "/tokens", w.PrivateKey, large).want(t, 201)
	}
	for range 5 {
		w.do("GET", "/tokens?size=4", w.PrivateKey, "").want(t, 200)
	}
	w.do("GET", "/tokens?size=8", w.PrivateKey, "").wantError(t, 413) // 8 times 60 KiB, counted four times each
}

// A stored response is charged for as a new one, and so is a single large entity.
func TestMemoryOfReplaysIsBounded(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	large := fmt.Sprintf(`{"type":"token","data":%q}`, strings.Repeat("x", 100<<10))
	code := "module.exports = async () => ({}) // " + strings.Repeat("x", 100<<10)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "large", Code: code, Configuration: map[string]string{}}))(t)
	key := []string{"SVC-IDEMPOTENCY-KEY", "a"}
	for range 8 {
		w.do("POST", "/tokens", w.PrivateKey, large, key...).want(t, 201)
		w.do("GET", "/reactors/"+reactor.ID.String(), w.ManagementKey, "").want(t, 200)
	}
	held := core.CallerOf(w.Private).Room(nil)
	must.Do(t, held.Parse(held.In(t.Context()), []byte(strings.Repeat(" ", 850<<10))))
	held.Rest()
	w.do("POST", "/tokens", w.PrivateKey, `{}`, key...).wantError(t, 503)
	w.do("GET", "/reactors/"+reactor.ID.String(), w.ManagementKey, "").wantError(t, 503)
	held.Leave()
	w.do("POST", "/tokens", w.PrivateKey, `{}`, key...).want(t, 201)
}

// Pages of other entities are read within the memory limit of their tenant too, and so
// are lists that read more than they show.
func TestMemoryOfOtherPagesIsBounded(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	rules := make([]vault.AccessRule, 100)
	for i := range rules {
		rules[i] = vault.AccessRule{
			Priority: i + 1, Container: "/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read"},
			Description: strings.Repeat("x", 500), // a document of 60 KiB
		}
	}
	for i := range 8 {
		code := "module.exports = async () => ({}) // " + strings.Repeat("x", 60<<10)
		must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: fmt.Sprint(i), Code: code, Configuration: map[string]string{}}))(t)
		must.Get(w.Management.CreateApplication(t.Context(), vault.ApplicationParams{Name: fmt.Sprint(i), Type: vault.ApplicationPrivate, Rules: rules}))(t)
		session := must.Get(w.Public.CreateSession(t.Context()))(t)
		must.Do(t, w.Owner.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: session.Nonce, Rules: rules}))
	}
	for _, path := range []string{"/reactors?", "/applications?", "/applications?type=private&", "/sessions?"} {
		for range 5 {
			w.do("GET", path+"size=2", w.ManagementKey, "").want(t, 200)
		}
		w.do("GET", path+"size=8", w.ManagementKey, "").wantError(t, 413) // 8 times 60 KiB, counted four times each
	}
	held := core.CallerOf(w.Private).Room(nil)
	defer held.Leave()
	must.Do(t, held.Parse(held.In(t.Context()), []byte(strings.Repeat(" ", 850<<10))))
	held.Rest()
	w.do("GET", "/reactors?size=2", w.ManagementKey, "").wantError(t, 503)
}

// Proxy calls without an API key have a separate share of memory.
func TestAnonymousCallsHaveSeparateMemory(t *testing.T) {
	t.Parallel()
	w := smallVault(t)
	open := false
	x := must.Get(w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "open", DestinationURL: "https://example.com", RequireAuth: &open}))(t)
	caller := must.Get(w.Vault.ProxyClient(t.Context(), x.Key))(t)
	for name, c := range map[string]*vault.Client{"the caller": caller, "the tenant": w.Private} {
		held := core.CallerOf(c).Room(nil)
		ctx := held.In(t.Context())
		defer held.Leave()
		must.Match(t, name, held.Parse(ctx, []byte(strings.Repeat(" ", 420<<10))), nil) // nearly all that such callers may hold
		held.Rest()                                                                     // a machine with one CPU has one turn; the memory stays taken
	}
}

// counting is a rate limiter that allows a number of tokens and records its
// calls.
type counting struct {
	mu    sync.Mutex
	left  int
	asked []int
}

func (c *counting) limit(_ *http.Request, _ *vault.Client, cost int) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, cost)
	if cost > c.left {
		return 1500 * time.Millisecond, false
	}
	c.left -= cost
	return 0, true
}

func TestRateLimitsCountTokens(t *testing.T) {
	t.Parallel()
	c := &counting{left: 100}
	w := newRestVault(t, &Options{RateLimit: c.limit})
	id := w.do("POST", "/tokens", w.PrivateKey, card).want(t, 201).text(t, "id")
	for _, step := range []struct {
		name, method, path, key, body string
		status                        int
		asked                         []int
	}{
		{"a single value", "POST", "/tokenize", w.PrivateKey, `"x"`, 200, []int{1}},
		{"three values and a null", "POST", "/tokenize", w.PrivateKey, `{"a":"x","b":[1,null,` + card + `]}`, 200, []int{1, 2}},
		{"two expressions of one token", "POST", "/detokenize", w.PrivateKey, fmt.Sprintf(`["{{ %s }}","{{ %[1]s }}"]`, id), 200, []int{1}},
		{"too many", "POST", "/tokenize", w.PrivateKey, "[" + strings.Repeat("1,", 99) + "1]", 429, []int{1, 99}},
		{"no permission", "POST", "/tokenize", w.ManagementKey, `[1,2]`, 403, nil},
		{"no key", "POST", "/tokenize", "", `[1,2]`, 401, nil},
	} {
		c.asked = nil
		res := w.do(step.method, step.path, step.key, step.body).want(t, step.status)
		same(t, step.name+": calls of the limiter", c.asked, step.asked)
		if got := res.Header.Get("Retry-After"); (got == "2") != (step.status == 429) {
			t.Errorf("%s: Retry-After %q", step.name, got)
		}
	}
	w.do("GET", "/tokens", w.PrivateKey, "").want(t, 200).has(t, `"total_items":5`)
}

// A batch larger than a burst is admitted, and later requests wait for the
// debt.
func TestEachApplicationAllowsDebts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := rate.NewLimiter(10, 20)
	for _, step := range []struct {
		cost int
		wait time.Duration
		ok   bool
	}{
		{45, 0, true},                         // 20 of the burst, and 25 owed
		{1, 2600 * time.Millisecond, false},   // 26 are missing, at 10 a second
		{100, 4500 * time.Millisecond, false}, // needs a whole burst
	} {
		wait, ok := spend(l, step.cost, now)
		same(t, fmt.Sprint("cost ", step.cost, ": ", wait, ": ok"), ok, step.ok)
		same(t, fmt.Sprint("cost ", step.cost, ": ", wait, ": wait.Round"), wait.Round(time.Millisecond), step.wait)
	}
	if wait, ok := spend(rate.NewLimiter(0, 0), 1, now); ok || wait != time.Hour {
		t.Errorf("a limiter that allows nothing: %v %v", wait, ok)
	}
}

// A page is encoded exactly as encoding/json would encode it, large or small.
func TestPagesMatchEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, letters := range []int{1, 30 << 10} {
		pageMatchesEncodingJSON(t, letters)
	}
}

func pageMatchesEncodingJSON(t *testing.T, letters int) {
	t.Helper()
	w := newRestVault(t, nil)
	for i := range 3 {
		w.do("POST", "/tokens", w.PrivateKey, fmt.Sprintf(`{"type":"token","data":%q,"metadata":{"n":"<%d>"}}`, strings.Repeat("é&", letters), i)).want(t, 201)
	}
	page := must.Get(w.Private.ListTokens(t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 2}}))(t)
	want, err := encode(page)
	if err != nil || len(want) < 4*letters {
		t.Fatalf("%d bytes: %v", len(want), err)
	}
	if got := w.do("GET", "/tokens?size=2&transform=true", w.PrivateKey, "").want(t, 200).body; got != string(want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	cursor := w.do("GET", "/v2/tokens?size=2", w.PrivateKey, "").want(t, 200)
	if !strings.Contains(cursor.body, `"after"`) || !strings.HasSuffix(cursor.body, "}]}") {
		t.Error("the list by cursor is incomplete")
	}
}
