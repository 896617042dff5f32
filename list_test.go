package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// follow reads a list by cursor to its end.
func follow(t *testing.T, read func(after string) (*vault.CursorPage[vault.Token], error)) (all []string, pages int) {
	t.Helper()
	for after := ""; ; {
		page := must.Get(read(after))(t)
		pages++
		all = append(all, given.IDs(&vault.Page[vault.Token]{Data: page.Data})...)
		if after = page.Pagination.After; after == "" {
			return all, pages
		}
	}
}

// A list by cursor equals the list by pages, and its last page has no cursor.
func TestListsByCursor(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	want := many(t, v, 24)
	for size, pages := range map[int]int{1: 24, 5: 5, 8: 3, 12: 2, 23: 2, 24: 1, 25: 1, 100: 1} {
		p := vault.PageParams{Size: size}
		got, n := follow(t, func(after string) (*vault.CursorPage[vault.Token], error) {
			return v.Private.ListTokensAfter(t.Context(), vault.ListTokensParams{PageParams: p}, after)
		})
		given.Same(t, fmt.Sprint("list by ", size), got, want)
		given.Same(t, "pages", n, pages)
		got, n = follow(t, func(after string) (*vault.CursorPage[vault.Token], error) {
			return v.Private.ListTokensAfter(t.Context(), vault.SearchTokensParams{Query: "type:token", PageParams: p}, after)
		})
		given.Same(t, fmt.Sprint("search by ", size), got, want)
		given.Same(t, "pages", n, pages)
	}
	page, err := v.Private.ListTokensAfter(t.Context(), vault.ListTokensParams{IDs: []string{"nobody"}}, "")
	if err != nil || page.Data == nil || len(page.Data) != 0 || page.Pagination.PageSize != 20 || page.Pagination.After != "" {
		t.Errorf("an empty list: %+v %v", page, err)
	}
}

// A cursor is valid only for its own list: the same tenant and the same filters, in
// any order.
func TestCursorsAreBound(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	many(t, v, 5)
	_, other := v.NewTenant(t, "Other")
	for i := range 5 {
		given.Create(t, other.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: i})
	}
	list := func(c *vault.Client, p vault.ListTokensParams, after string) (string, error) {
		p.Size = 2
		page, err := c.ListTokensAfter(t.Context(), p, after)
		if err != nil {
			return "", err
		}
		return page.Pagination.After, nil
	}
	search := func(query, after string) (string, error) {
		page, err := v.Private.ListTokensAfter(t.Context(), vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Size: 2}}, after)
		if err != nil {
			return "", err
		}
		return page.Pagination.After, nil
	}
	of := func(after string, err error) string {
		t.Helper()
		if err != nil || after == "" {
			t.Fatalf("no cursor: %v", err)
		}
		return after
	}
	plain := of(list(v.Private, vault.ListTokensParams{}, ""))
	types := vault.ListTokensParams{Types: []vault.TokenType{"token", "card"}}
	typed := of(list(v.Private, types, ""))
	found := of(search("type:token", ""))

	reversed := vault.ListTokensParams{Types: []vault.TokenType{"card", "token"}}
	must.Match(t, "the same filters in another order", must.Err(list(v.Private, reversed, typed)), nil)
	must.Match(t, "another client of the tenant", must.Err(list(v.Owner.Client, vault.ListTokensParams{}, plain)), nil)
	for name, try := range map[string]func() (string, error){
		"another tenant's": func() (string, error) { return list(other.Client, vault.ListTokensParams{}, plain) },
		"other filters":    func() (string, error) { return list(v.Private, types, plain) },
		"fewer filters":    func() (string, error) { return list(v.Private, vault.ListTokensParams{}, typed) },
		"ids for types": func() (string, error) {
			return list(v.Private, vault.ListTokensParams{IDs: []string{"token", "card"}}, typed)
		},
		"of a search":      func() (string, error) { return list(v.Private, vault.ListTokensParams{}, found) },
		"of a list":        func() (string, error) { return search("type:token", plain) },
		"of another query": func() (string, error) { return search("type:token OR type:card", found) },
		"cut off":          func() (string, error) { return list(v.Private, vault.ListTokensParams{}, plain[:len(plain)-1]) },
		"longer":           func() (string, error) { return list(v.Private, vault.ListTokensParams{}, plain+"A") },
		"no base64":        func() (string, error) { return list(v.Private, vault.ListTokensParams{}, "!") },
		"an id":            func() (string, error) { return list(v.Private, vault.ListTokensParams{}, uuid.NewString()) },
		"of another place": func() (string, error) { return list(v.Private, vault.ListTokensParams{}, swapped(plain)) },
		"with a page's number": func() (string, error) {
			return list(v.Private, vault.ListTokensParams{PageParams: vault.PageParams{Page: 1}}, "")
		},
	} {
		must.Match(t, name, must.Err(try()), vault.ErrInvalid)
	}
}

// swapped returns a text with another letter in its middle.
func swapped(text string) string {
	b := []byte(text)
	if at := len(b) / 2; b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// Tokens that are too large together are read in smaller batches, and the cursor
// still shows whether there are more.
func TestCursorOfLargeTokens(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxPageBytes: 10_000})
	var want []string
	for range 6 {
		want = append([]string{given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: strings.Repeat("x", 3000)}).ID}, want...)
	}
	got, pages := follow(t, func(after string) (*vault.CursorPage[vault.Token], error) {
		return v.Owner.ListTokensAfter(t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 3}}, after)
	})
	given.Same(t, "tokens", got, want)
	given.Same(t, "pages", pages, 2)
	_, err := v.Owner.ListTokensAfter(t.Context(), vault.ListTokensParams{PageParams: vault.PageParams{Size: 4}}, "")
	must.Match(t, "a page that is too large", err, vault.ErrInvalid)
}

// collect returns the ids that an iterator yields, and checks that none comes
// twice.
func collect[T any](t *testing.T, all iter.Seq2[*T, error], id func(*T) string) []string {
	t.Helper()
	got := []string{}
	for item, err := range all {
		must.Do(t, err)
		if slices.Contains(got, id(item)) {
			t.Fatal("an entry comes twice")
		}
		got = append(got, id(item))
	}
	return got
}

// Every iterator yields the items of the list, newest first, and respects the
// filters.
func TestIterators(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	var apps, code, proxies, sessions []string
	for i := range 205 { // more than two pieces
		app, err := v.Management.CreateApplication(ctx, vault.ApplicationParams{Name: fmt.Sprint("app ", i%2), Type: vault.ApplicationPublic, Permissions: []vault.Permission{vault.PermissionTokenCreate}})
		r, err2 := v.Management.CreateReactor(ctx, vault.ReactorParams{Name: fmt.Sprint("r", i%2), Code: "1", Configuration: map[string]string{}})
		x, err3 := v.Management.CreateProxy(ctx, vault.ProxyParams{Name: fmt.Sprint("p", i%2), DestinationURL: "https://a.example"})
		_, err4 := v.Public.CreateSession(ctx)
		must.Do(t, errors.Join(err, err2, err3, err4))
		if i%2 == 0 {
			apps = append([]string{app.ID.String()}, apps...)
			code = append([]string{r.ID.String()}, code...)
			proxies = append([]string{x.ID.String()}, proxies...)
		}
	}
	for page := 1; page <= 3; page++ {
		list := must.Get(v.Management.ListSessions(ctx, vault.PageParams{Page: page, Size: 100}))(t)
		for _, s := range list.Data {
			sessions = append(sessions, s.ID.String())
		}
	}
	appID := func(a *vault.Application) string { return a.ID.String() }
	given.Same(t, "applications", collect(t, v.Management.AllApplications(ctx, vault.ListApplicationsParams{Name: "APP 0"}), appID), apps)
	public := collect(t, v.Management.AllApplications(ctx, vault.ListApplicationsParams{Types: []vault.ApplicationType{vault.ApplicationPublic}}), appID)
	given.Same(t, "public applications", len(public), 206)
	given.Same(t, "reactors", collect(t, v.Management.AllReactors(ctx, vault.ListParams{Name: "R0"}),
		func(r *vault.Reactor) string { return r.ID.String() }), code)
	given.Same(t, "proxies", collect(t, v.Management.AllProxies(ctx, vault.ListParams{Name: "P0"}),
		func(x *vault.Proxy) string { return x.ID.String() }), proxies)
	given.Same(t, "sessions", collect(t, v.Management.AllSessions(ctx),
		func(s *vault.SessionInfo) string { return s.ID.String() }), sessions)
	for range v.Management.AllSessions(ctx) {
		break // ends the walk
	}
	refused := 0
	for _, err := range v.Private.AllLogs(ctx, vault.ListLogsParams{}) {
		must.Match(t, "the log for a private key", err, vault.ErrForbidden)
		refused++
	}
	for _, err := range v.Public.AllTokens(ctx, vault.ListTokensParams{}) {
		must.Match(t, "tokens for a public key", err, vault.ErrForbidden)
		refused++
	}
	given.Same(t, "refused walks", refused, 2)
}

// During concurrent writes, items that existed throughout come exactly once.
func TestIteratorsDuringWrites(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	stay := many(t, v, 205)
	gone := make([]string, 50)
	for i := range gone {
		gone[i] = given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: i}).ID
	}
	logged := collect(t, v.Owner.AllLogs(ctx, vault.ListLogsParams{Operation: vault.OperationCreate}), entryID)
	var others sync.WaitGroup
	stop := make(chan struct{})
	for part := range slices.Chunk(gone, 25) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if i < len(part) {
					must.Match(t, "DeleteToken", v.Owner.DeleteToken(ctx, part[i]), nil)
				}
				if _, err := v.Owner.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stays := func(all []string, from []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return !slices.Contains(from, id) })
	}
	given.Same(t, "tokens", stays(collect(t, v.Owner.AllTokens(ctx, vault.ListTokensParams{}), tokenID), stay), stay)
	given.Same(t, "search", stays(collect(t, v.Owner.AllTokens(ctx, vault.SearchTokensParams{Query: "type:token"}), tokenID), stay), stay)
	got := collect(t, v.Owner.AllLogs(ctx, vault.ListLogsParams{Operation: vault.OperationCreate}), entryID)
	given.Same(t, "log", stays(got, logged), logged)
	close(stop)
	others.Wait()
}

func entryID(e *vault.LogEntry) string { return e.ID.String() }

func tokenID(tok *vault.Token) string { return tok.ID }

// The log can be filtered by who did what.
func TestListLogsByOperationAndActor(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: 1})
	user := uuid.New()
	must.Get(v.Owner.AsUser(user.String()).GetToken(ctx, tok.ID))(t)
	for name, c := range map[string]struct {
		p    vault.ListLogsParams
		want []vault.LogOperation
	}{
		"operation":         {vault.ListLogsParams{Operation: vault.OperationRead, EntityID: tok.ID}, []vault.LogOperation{"read"}},
		"actor":             {vault.ListLogsParams{ActorID: user}, []vault.LogOperation{"read"}},
		"application":       {vault.ListLogsParams{ActorID: v.Private.ApplicationID()}, []vault.LogOperation{"create"}},
		"kind of actor":     {vault.ListLogsParams{ActorType: vault.ActorUser}, []vault.LogOperation{"read"}},
		"another operation": {vault.ListLogsParams{ActorID: user, Operation: vault.OperationCreate}, nil},
		"unknown":           {vault.ListLogsParams{Operation: "nope"}, nil},
	} {
		page := must.Get(v.Owner.ListLogs(ctx, c.p))(t)
		var got []vault.LogOperation
		for _, e := range page.Data {
			got = append(got, e.Operation)
		}
		given.Same(t, name, got, c.want)
		given.Same(t, name+": total", page.Pagination.TotalItems, len(c.want))
	}
}

// The totals of searches, of lists by metadata, and of the log by operation are
// capped at 10,000 and marked as capped. The totals of other lists are not.
func TestCappedTotals(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	fill := func(n int) {
		t.Helper()
		one := vault.TokenParams{Type: vault.TypeGeneric, Data: 0, Metadata: map[string]string{"color": "red"}}
		must.Get(v.Private.Tokenize(ctx, slices.Repeat([]vault.TokenParams{one}, n)))(t)
	}
	check := func(name string, got vault.Pagination, total int, capped bool) {
		t.Helper()
		want := vault.Pagination{TotalItems: total, PageNumber: got.PageNumber, PageSize: 100, TotalPages: total / 100, TotalIsCapped: capped}
		given.Same(t, name, got, want)
	}
	for range 4 {
		fill(2500)
	}
	for _, capped := range []bool{false, true} {
		for _, query := range []string{"type:token", "NOT id:nobody"} {
			for _, page := range []int{1, 100} {
				found := must.Get(v.Private.SearchTokens(ctx, vault.SearchTokensParams{Query: query, PageParams: vault.PageParams{Page: page, Size: 100}}))(t)
				check(query, found.Pagination, 10_000, capped)
			}
		}
		red := must.Get(v.Private.ListTokens(ctx, vault.ListTokensParams{Metadata: map[string]string{"color": "red"}, PageParams: vault.PageParams{Size: 100}}))(t)
		check("list by metadata", red.Pagination, 10_000, capped)
		logs := must.Get(v.Owner.ListLogs(ctx, vault.ListLogsParams{Operation: vault.OperationCreate, EntityType: "token", PageParams: vault.PageParams{Size: 100}}))(t)
		check("log", logs.Pagination, 10_000, capped)
		if !capped {
			fill(100)
		}
	}
	beyond := must.Get(v.Private.SearchTokens(ctx, vault.SearchTokensParams{Query: "NOT id:nobody", PageParams: vault.PageParams{Page: 101, Size: 100}}))(t)
	given.Same(t, "a page beyond the total", len(beyond.Data), 100)
	list := must.Get(v.Private.ListTokens(ctx, vault.ListTokensParams{PageParams: vault.PageParams{Size: 100}}))(t)
	check("list", list.Pagination, 10_100, false)
	for page, pages := range map[int]int{1: 100, 100: 101, 101: 101, 102: 101} {
		red := must.Get(v.Private.ListTokens(ctx, vault.ListTokensParams{Metadata: map[string]string{"color": "red"}, PageParams: vault.PageParams{Page: page, Size: 100}}))(t)
		given.Same(t, fmt.Sprintf("page %d by metadata", page), len(red.Data) == 100, page < 102)
		given.Same(t, "list by metadata", red.Pagination, vault.Pagination{TotalItems: 10_000, PageNumber: page, PageSize: 100, TotalPages: pages, TotalIsCapped: true})
	}
	text := must.Get(vault.EncodeJSON(beyond.Pagination))(t)
	given.Same(t, "text", string(text), `{"total_items":10000,"page_number":101,"page_size":100,"total_pages":100,"total_is_exact":false}`)
}

// tail is a follower of the log that returns one batch at a time.
type tail struct {
	t      testing.TB
	next   func() (*vault.LogBatch, error, bool)
	cursor string
	got    []string // entity and operation of each entry
	seen   map[string]int
}

func tailOf(t testing.TB, c *vault.Client, cursor string) *tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	next, stop := iter.Pull2(c.FollowLogs(ctx, cursor))
	t.Cleanup(func() { stop(); cancel() })
	f := &tail{t: t, next: next, seen: map[string]int{}}
	f.step() // so that it has begun
	return f
}

func (f *tail) step() {
	f.t.Helper()
	batch, err, ok := f.next()
	if err != nil || !ok {
		f.t.Fatalf("follow: %v, after %q", err, f.got)
	}
	for _, e := range batch.Data {
		f.got = append(f.got, e.EntityID+" "+string(e.Operation))
		if e.EntityType == "card_number" {
			f.seen[e.ID.String()]++
		}
	}
	f.cursor = batch.Cursor
}

// cards follows until an entry has come, and returns the entries about cards so
// far. A follower that starts now may also see slightly older entries, while a
// transaction of another test is open on the same server.
func (f *tail) cards(last string) []string {
	f.t.Helper()
	for !slices.Contains(f.got, last) {
		f.step()
	}
	return slices.DeleteFunc(slices.Clone(f.got), func(e string) bool { return strings.Contains(e, "-") })
}

// TestFollowLateCommits follows a log while transactions of the application write
// early and commit late.
func TestFollowLateCommits(t *testing.T) {
	t.Parallel()
	shops.each(t, nil, func(t *testing.T, s *shop) {
		f := tailOf(t, s.Owner.Client, "")
		late := s.begin(t)
		given.Create(t, s.Owner.InTx(late).Client, aCard("late"))
		if s.Beside {
			gone := s.begin(t)
			given.Create(t, s.Owner.InTx(gone).Client, aCard("never"))
			given.Create(t, s.Owner.Client, aCard("early"))
			rollback(t, gone)
		}
		commit(t, late)
		given.Create(t, s.Owner.Client, aCard("last"))
		want := []string{"late create", "early create", "last create"}
		if !s.Beside {
			want = []string{"late create", "last create"}
		}
		got := f.cards("last create")
		given.Same(t, "got", got, want)
		// Saved entries are not repeated, and unsaved entries are.
		given.Create(t, s.Owner.Client, aCard("after"))
		again := tailOf(t, s.Owner.Client, f.cursor)
		given.Same(t, "from the cursor", len(again.cards("after create")), 1)
		all := tailOf(t, s.Owner.Client, vault.LogsSince(s.Clock.Now().Add(-time.Hour)))
		all.cards("after create")
		for _, e := range want {
			if !slices.Contains(all.got, e) {
				t.Errorf("since an hour ago: %q is not in %q", e, all.got)
			}
		}
	})
}

// TestFollowFromTwoNodes lets two nodes and transactions of the application write
// at once, while followers on both nodes crash and continue from their saved
// cursors.
func TestFollowFromTwoNodes(t *testing.T) {
	t.Parallel()
	const writers, each = 6, 30
	key, address := vault.NewKey(), pgtest.URL(t)
	node := func() *vault.Vault {
		store := must.Get(postgres.OpenOptions(t.Context(), address, &postgres.Options{MaxConns: 6}))(t)
		v := must.Get(vault.Open(t.Context(), store, key, nil))(t)
		t.Cleanup(func() { _ = v.Close() })
		return v
	}
	one, two := node(), node()
	tenant := must.Get(one.CreateTenant(t.Context(), "Acme"))(t)
	db := must.Get(sql.Open("postgres", address))(t)
	t.Cleanup(func() { _ = db.Close() })
	nodes := []*vault.Client{one.Tenant(tenant.ID).Client, two.Tenant(tenant.ID).Client}
	start := must.Get(nodes[0].NextLogs(t.Context(), "", 0))(t)

	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			c, open := nodes[w%2], []*sql.Tx{}
			for i := range each {
				in := c
				if w >= 4 {
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					in, open = c.InTx(tx), append(open, tx)
				}
				must.Match(t, "CreateToken", must.Err(in.CreateToken(t.Context(), aCard(fmt.Sprintf("card-%d-%d", w, i)))), nil)
				// Transactions stay open while others begin and end.
				for len(open) > 3 || i == each-1 && len(open) > 0 {
					must.Match(t, "Commit", open[0].Commit(), nil)
					open = open[1:]
				}
			}
		})
	}
	for n, c := range nodes {
		wg.Go(func() {
			cursor, saved := start.Cursor, map[string]int{}
			for len(saved) < writers*each {
				f := tailOf(t, c, cursor)
				for range 3 {
					if len(saved)+len(f.seen) < writers*each {
						f.step()
					}
				}
				// It crashes before it saves the last batch, every time except
				// once.
				if n == 0 || len(saved)+len(f.seen) == writers*each {
					cursor = f.cursor
					for id := range f.seen {
						saved[id]++
					}
				}
			}
			for id, times := range saved {
				given.Same(t, fmt.Sprintf("node %d got entry %s", n, id), times, 1)
			}
		})
	}
	wg.Wait()
}

func TestFollowCursors(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, stranger := v.NewTenant(t, "Other")
	batch, err := v.Owner.NextLogs(t.Context(), "", 0)
	if err != nil || len(batch.Data) != 0 || batch.Cursor == "" {
		t.Fatalf("%v, %v", batch, err)
	}
	for what, cursor := range map[string]string{
		"nonsense": "x", "not encoded": "!!", "another tenant's": batch.Cursor, "short": batch.Cursor[:8], "no time": "since:yesterday",
	} {
		given.WantFields(t, what, must.Err(stranger.NextLogs(t.Context(), cursor, 0)), "cursor")
	}
	if _, err := given.Holding(t, v, "token:read").NextLogs(t.Context(), "", 0); err != nil {
		must.Match(t, "without the permission", err, vault.ErrForbidden)
	} else {
		t.Error("followed without the permission")
	}
	// A follower ends when its key is revoked.
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "SIEM", Type: vault.ApplicationManagement, Permissions: []vault.Permission{"log:read"}}))(t)
	var ended error
	for batch, err := range given.Authenticated(t, v.Vault, app.Key).FollowLogs(t.Context(), "") {
		if ended = err; batch != nil && len(batch.Data) == 0 {
			must.Do(t, v.Owner.DeleteApplication(t.Context(), app.ID))
		}
	}
	must.Match(t, "after its application was deleted", ended, vault.ErrUnauthenticated)
}

// TestNextLogsWaits checks that NextLogs waits for an entry, and no longer than the
// given time.
func TestNextLogsWaits(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	batch, err := v.Owner.NextLogs(t.Context(), "", 10*time.Millisecond)
	if err != nil || len(batch.Data) != 0 {
		t.Fatalf("%v, %v", batch, err)
	}
	go func() { _, _ = v.Owner.CreateToken(t.Context(), given.Text("new", "x")) }()
	if batch, err = v.Owner.NextLogs(t.Context(), batch.Cursor, time.Minute); err != nil || len(batch.Data) != 1 || batch.Data[0].EntityID != "new" {
		t.Errorf("%v, %v", batch, err)
	}
}

// TestFollowersAreBounded checks the limit of one tenant, which does not affect
// others. A follower that ends frees its place.
func TestFollowersAreBounded(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	ctx, cancel := context.WithCancel(t.Context())
	// All but one of them take a place.
	ended := make(chan error, logs.MaxFollowers+1)
	for range logs.MaxFollowers + 1 {
		go func() {
			_, err := v.Owner.NextLogs(ctx, "", time.Minute)
			ended <- err
		}()
	}
	must.Match(t, "one too many", <-ended, vault.ErrBusy)
	must.Match(t, "without waiting", must.Err(v.Owner.NextLogs(t.Context(), "", 0)), nil)
	must.Match(t, "another tenant", must.Err(other.NextLogs(t.Context(), "", time.Millisecond)), nil)
	cancel()
	for range logs.MaxFollowers {
		must.Match(t, "one that waits", <-ended, context.Canceled)
	}
	must.Match(t, "after the others have left", must.Err(v.Owner.NextLogs(t.Context(), "", time.Millisecond)), nil)
}

// TestOneApplicationLeavesPlacesToOtherFollowers takes as many places as a stolen
// key can, and follows with other keys of the tenant.
func TestOneApplicationLeavesPlacesToOtherFollowers(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	// The application exists before the others wait, because they would see its log
	// entry.
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "Auditor", Type: vault.ApplicationManagement, Permissions: []vault.Permission{vault.PermissionLogRead}}))(t)
	auditor := must.Get(v.Authenticate(t.Context(), app.Key))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, logs.MaxApplicationFollowers+1)
	for range logs.MaxApplicationFollowers + 1 {
		go func() {
			_, err := v.Management.NextLogs(ctx, "", time.Minute)
			ended <- err
		}()
	}
	must.Match(t, "one too many", <-ended, vault.ErrBusy)
	for name, c := range map[string]*vault.Client{"another application": auditor, "the tenant itself": v.Owner.Client} {
		must.Match(t, name, must.Err(c.NextLogs(t.Context(), "", time.Millisecond)), nil)
	}
	cancel()
	for range logs.MaxApplicationFollowers {
		must.Match(t, "one that waits", <-ended, context.Canceled)
	}
}
