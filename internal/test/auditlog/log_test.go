package auditlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Each operation leaves one entry for each entity that it touched.
func TestOneEntryForEachEntity(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app := v.Private.ApplicationID()
	step := func(name string, do func(), want ...string) {
		t.Helper()
		v.Clock.Advance(time.Second)
		do()
		var got []string
		for _, e := range given.Entries(t, v, vault.ListLogsParams{StartDate: v.Clock.Now()}) {
			got = append(got, fmt.Sprintf("%s %s %s: %s", e.Operation, e.EntityType, e.EntityID, e.Message))
			if e.ActorID != app || e.ActorType != "application" || e.TenantID != v.Acme.ID {
				t.Errorf("%s: actor %v, a %s, of tenant %s", name, e.ActorID, e.ActorType, e.TenantID)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		given.Same(t, name+" leaves", got, want)
	}
	c := v.Private
	step("create", func() {
		given.Create(t, c, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "s3cr3t", SearchIndexes: []string{"{{ data }}"}})
	},
		"create token tok: Token created")
	step("tokenize", func() {
		given.Tokenize(t, c, `[{"id":"card","type":"card","data":{"number":"4242424242424242"}},{"id":"ssn","type":"social_security_number","data":"536-22-8726"}]`)
	}, "create card card: Token created", "create social_security_number ssn: Token created")
	step("get", func() { given.Get(t, c, "card") }, "read card card: Token read")
	step("update", func() { given.Update(t, c, "tok", `{"metadata":{"a":"b"}}`) }, "update token tok: Token updated")
	step("list", func() { given.List(t, c, vault.ListTokensParams{}) },
		"read token tok: Token read", "read card card: Token read", "read social_security_number ssn: Token read")
	step("a page of a list", func() { given.List(t, c, vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}}) }, "read social_security_number ssn: Token read")
	step("an empty list", func() { given.List(t, c, vault.ListTokensParams{IDs: []string{"none"}}) })
	step("search", func() { _, _ = c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:s3cr3t"}) }, "read token tok: Token read")
	step("detokenize", func() { given.Detokenize(t, c, `["{{ tok }}","{{ tok | last4 }}","{{ card }}"]`) }, "use token tok: Token used", "use card card: Token used")
	step("detokenize nothing", func() { given.Detokenize(t, c, `["x"]`) })
	step("refused operations", func() {
		_, _ = c.GetToken(t.Context(), "none")
		_, _ = c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric})
		_, _ = c.ListLogs(t.Context(), vault.ListLogsParams{})
		_ = c.DeleteToken(t.Context(), "none")
	})
	step("duplicate", func() { given.Create(t, c, given.Deduplicated("s3cr3t")) }, "read token tok: Token read")
	step("delete", func() { _ = c.DeleteToken(t.Context(), "tok") }, "delete token tok: Token deleted")
	step("own application", func() { _, _ = c.OwnApplication(t.Context()) }, "read application "+app.String()+": Application read")
}

func TestEntriesOfAdministration(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	c := v.Management
	app := must.Get(c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	for _, err := range []error{
		must.Err(c.GetApplication(t.Context(), app.ID)), must.Err(c.PatchApplication(t.Context(), app.ID, vault.JSON(`{"name":"y"}`))),
		must.Err(c.RegenerateKey(t.Context(), app.ID)), c.DeleteApplication(t.Context(), app.ID),
		must.Err(c.GetTenant(t.Context())), must.Err(c.ReplaceTenant(t.Context(), vault.TenantParams{Name: "New"})),
	} {
		must.Do(t, err)
	}
	given.Same(t, "application", given.Operations(t, v, app.ID.String()), []string{"create", "read", "update", "update", "delete"})
	given.Same(t, "tenant", given.Operations(t, v, v.Acme.ID.String()), []string{"create", "read", "update"})
	given.Session(t, v, vault.SessionGrant{Permissions: given.Everything})
	var got []string
	for _, e := range given.Entries(t, v, vault.ListLogsParams{EntityType: "session"}) {
		got = append(got, string(e.Operation)+": "+e.Message)
	}
	given.Same(t, "session", got, []string{"create: Session created", "authorize: Session authorized"})
	v.Clock.Advance(3 * time.Minute)
	must.Get(v.Sweep(t.Context()))(t)
	last := given.Entries(t, v, vault.ListLogsParams{EntityType: "session"})[2]
	given.Same(t, "message", last.Message, "Session expired")
	given.Same(t, "actor of the sweep", last.ActorID, uuid.UUID{})
	given.Same(t, "type of the sweep's actor", last.ActorType, "")
}

func TestLogFilters(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	var times []time.Time
	for i := range 5 {
		v.Clock.Advance(time.Minute)
		times = append(times, v.Clock.Now())
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: "x"})
	}
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	for name, tt := range map[string]struct {
		p    vault.ListLogsParams
		want []string
	}{
		"type":                 {vault.ListLogsParams{EntityType: "card"}, []string{"card"}},
		"id":                   {vault.ListLogsParams{EntityID: "tok3"}, []string{"tok3"}},
		"id of another type":   {vault.ListLogsParams{EntityType: "card", EntityID: "tok3"}, nil},
		"start is included":    {vault.ListLogsParams{EntityType: "token", StartDate: times[3]}, []string{"tok4", "tok3"}},
		"end is not":           {vault.ListLogsParams{EntityType: "token", EndDate: times[1]}, []string{"tok0"}},
		"both":                 {vault.ListLogsParams{EntityType: "token", StartDate: times[1], EndDate: times[3]}, []string{"tok2", "tok1"}},
		"just after the start": {vault.ListLogsParams{EntityType: "token", StartDate: times[3].Add(time.Microsecond)}, []string{"tok4"}},
	} {
		page, err := v.Management.ListLogs(t.Context(), tt.p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range page.Data {
			got = append(got, e.EntityID)
		}
		given.Same(t, name, got, tt.want)
		given.Same(t, name+": total", page.Pagination.TotalItems, len(tt.want))
	}
	page := must.Get(v.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token", PageParams: vault.PageParams{Page: 2, Size: 2}}))(t)
	given.Same(t, "second page", []string{page.Data[0].EntityID, page.Data[1].EntityID}, []string{"tok2", "tok1"})
	given.Same(t, "pagination", page.Pagination, vault.Pagination{TotalItems: 5, PageNumber: 2, PageSize: 2, TotalPages: 3})
	given.WantFields(t, "NUL", must.Err(v.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "a\x00"})), "entity_id")
	_, other := v.NewTenant(t, "Other")
	theirs := must.Get(other.ListLogs(t.Context(), vault.ListLogsParams{}))(t)
	given.Same(t, "another tenant sees", theirs.Pagination.TotalItems, 1)
}

func TestEntityTypes(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	got := must.Get(v.Management.ListEntityTypes(t.Context()))(t)
	given.Same(t, "entity types", got, []vault.EntityType{
		{DisplayName: "Application", Value: "application"}, {DisplayName: "Bank", Value: "bank"}, {DisplayName: "Card", Value: "card"},
		{DisplayName: "Card Number", Value: "card_number"}, {DisplayName: "Employer ID Number", Value: "employer_id_number"},
		{DisplayName: "Erasure", Value: "erasure"}, {DisplayName: "Proxy", Value: "proxy"}, {DisplayName: "Reactor", Value: "reactor"}, {DisplayName: "Session", Value: "session"},
		{DisplayName: "Social Security Number", Value: "social_security_number"}, {DisplayName: "Tenant", Value: "tenant"}, {DisplayName: "Token", Value: "token"},
		{DisplayName: "US Bank Account Number", Value: "us_bank_account_number"}, {DisplayName: "US Bank Routing Number", Value: "us_bank_routing_number"},
	})
}

// A value is never returned without a log entry: if the entry cannot be written,
// the read fails.
func TestReadFailsWithoutItsEntry(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "s3cr3t", SearchIndexes: []string{"{{ data }}"}})
	reads := map[string]func() (shown string, err error){
		"get": func() (string, error) { return shown(v.Private.GetToken(t.Context(), "tok")) },
		"detokenize": func() (string, error) {
			out, err := v.Private.Detokenize(t.Context(), vault.JSON(`"{{ tok }}"`))
			return string(out), err
		},
		"all": func() (string, error) {
			next, stop := iter.Pull2(v.Private.AllTokens(t.Context(), vault.ListTokensParams{}))
			defer stop()
			tok, err, _ := next()
			return shown(tok, err)
		},
		"list": func() (string, error) {
			return shownOn(v.Private.ListTokens(t.Context(), vault.ListTokensParams{}))
		},
		"search": func() (string, error) {
			return shownOn(v.Private.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:s3cr3t"}))
		},
	}
	for name, read := range reads {
		store.Before = func(call string, ch *storage.Change) error {
			if call == "Write" && ch.Relaxed {
				return given.ErrDown
			}
			return nil
		}
		seen, err := read()
		must.Match(t, name, err, given.ErrDown)
		given.Same(t, name+" without a log entry", seen, "")
		store.Before = nil
		if must.Get(read())(t) == "" {
			t.Errorf("%s shows nothing", name)
		}
	}
}

// shown returns the data of a token, and "" for none.
func shown(tok *vault.Token, err error) (string, error) {
	if tok == nil {
		return "", err
	}
	return string(tok.Data), err
}

// shownOn returns the data of the first token on a page.
func shownOn(page *vault.Page[vault.Token], err error) (string, error) {
	if page == nil || len(page.Data) == 0 {
		return "", err
	}
	return shown(&page.Data[0], err)
}

// Log entries of reads may be relaxed if the configuration is not strict; entries
// of changes never are.
func TestStrictReadLogs(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		v, store := given.SpiedWith(t, &vault.Config{StrictReadLogs: strict})
		relaxed := map[bool]int{}
		store.Before = func(call string, ch *storage.Change) error {
			if call == "Write" {
				relaxed[ch.Relaxed]++
			}
			return nil
		}
		tok := given.Create(t, v.Owner.Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
		given.Get(t, v.Owner.Client, tok.ID)
		want := map[bool]int{false: 1, true: 1}
		if strict {
			want = map[bool]int{false: 2}
		}
		given.Same(t, fmt.Sprintf("relaxed writes, strict %v", strict), relaxed, want)
	}
}

// readLogger is a database that reads and logs in one step, and records its calls.
type readLogger struct {
	*given.Spy
	asked []storage.Reading
	err   error
}

func (s *readLogger) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	s.asked = append(s.asked, r)
	if s.err != nil {
		return storage.Token{}, s.err
	}
	rows, err := s.Storage.Tokens(ctx, r.Tenant, []string{r.ID})
	if err != nil || len(rows) == 0 {
		return storage.Token{}, errors.Join(err, storage.ErrNotFound)
	}
	r.Entry.EntityType = rows[0].Type
	return rows[0], s.Storage.Write(ctx, &storage.Change{Tenant: r.Tenant, Logs: []storage.Log{r.Entry}, Relaxed: true})
}

func readLogged(t *testing.T, cfg *vault.Config) (*vaulttest.Vault, *readLogger) {
	t.Helper()
	store := &readLogger{Spy: &given.Spy{Storage: given.SQLite(t, ":memory:")}}
	return vaulttest.OpenStorage(t, store, cfg), store
}

// If a client may read every token, the read and its log entry are one step, and
// the entry is the same as for other clients.
func TestReadAndLogInOneStep(t *testing.T) {
	t.Parallel()
	v, store := readLogged(t, nil)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	store.Before = func(call string, _ *storage.Change) error {
		t.Errorf("%s was called beside ReadToken", call)
		return nil
	}
	given.Same(t, "token", given.Get(t, v.Private, tok.ID).ID, tok.ID)
	store.Before = nil
	log := given.Entries(t, v, vault.ListLogsParams{EntityID: tok.ID})
	if len(log) != 2 || log[1].Operation != "read" || log[1].EntityType != "card" || log[1].Message != "Token read" {
		t.Errorf("the log of the token: %+v", log)
	}
	given.Same(t, "queries", len(store.asked), 1)
}

// The token is read first if its attributes decide whether it may be read, if the
// entry must be synced, or if the entry is committed with other changes.
func TestReadThenLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  *vault.Config
		read func(t *testing.T, v *vaulttest.Vault, id string)
	}{
		"rules on containers": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			given.Get(t, given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, "token:read")), id)
			_, err := given.Private(t, v, given.Rule(1, "/pci/", vault.TransformReveal, "token:read")).GetToken(t.Context(), id)
			must.Match(t, "get", err, vault.ErrForbidden)
		}},
		"strict": {cfg: &vault.Config{StrictReadLogs: true}, read: func(t *testing.T, v *vaulttest.Vault, id string) {
			given.Get(t, v.Private, id)
		}},
		"once": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			_, _, err := v.Private.Once(t.Context(), vault.IdempotencyKey{Scope: "s", Key: "k"},
				func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
					_, err := c.GetToken(ctx, id)
					return vault.StoredResponse{Status: 200, Body: []byte("1")}, err
				})
			must.Do(t, err)
		}},
		"no possible id": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			given.Get(t, given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, "token:read")), id)
			must.Match(t, "get", must.Err(v.Private.GetToken(t.Context(), "a\x00b")), vault.ErrNotFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store := readLogged(t, test.cfg)
			tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
			test.read(t, v, tok.ID)
			given.Same(t, "ReadToken was called", len(store.asked), 0)
			reads := 0
			for _, e := range given.Entries(t, v, vault.ListLogsParams{EntityID: tok.ID}) {
				if e.Operation == "read" {
					reads++
				}
			}
			given.Same(t, "entries of reads", reads, 1)
		})
	}
}

// A missing token and a database failure give the same errors as without the single
// step.
func TestReadAndLogErrors(t *testing.T) {
	t.Parallel()
	v, store := readLogged(t, nil)
	must.Match(t, "get", must.Err(v.Private.GetToken(t.Context(), "missing")), vault.ErrNotFound)
	store.err = given.ErrDown
	must.Match(t, "get", must.Err(v.Private.GetToken(t.Context(), "missing")), given.ErrDown)
	given.Same(t, "readings", len(store.asked), 2)
}

const year = 365 * 24 * time.Hour

func TestLogRetentionIsChecked(t *testing.T) {
	t.Parallel()
	for retention, ok := range map[time.Duration]bool{
		0: true, 24 * time.Hour: true, year: true,
		-1: false, -year: false, 1: false, 24*time.Hour - 1: false,
	} {
		v, err := vault.Open(t.Context(), given.SQLite(t, ":memory:"), vault.NewKey(), &vault.Config{LogRetention: retention, SweepEvery: -1, WorkEvery: -1})
		switch {
		case ok && err == nil:
			err = v.Close()
			fallthrough
		case ok:
			must.Match(t, fmt.Sprint(retention), err, nil)
		case err == nil:
			_ = v.Close()
			t.Errorf("%s was accepted", retention)
		case !strings.Contains(err.Error(), "Config.LogRetention") || !strings.Contains(err.Error(), "24h0m0s"):
			t.Errorf("%s: the error %q names neither the setting nor its bound", retention, err)
		}
	}
}

// logTotal counts a tenant's entries by one filter, with a page size that does not
// reveal the number.
func logTotal(t testing.TB, c *vault.Client, p vault.ListLogsParams) int {
	t.Helper()
	p.Size = 1
	page := must.Get(c.ListLogs(t.Context(), p))(t)
	return page.Pagination.TotalItems
}

// A sweep deletes the entries of all tenants that are older than the retention, in
// several batches, and nothing else.
func TestSweepDeletesOldLogs(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{LogRetention: year})
	_, other := v.NewTenant(t, "Other")
	start := v.Clock.Now()
	setUp := logTotal(t, v.Owner.Client, vault.ListLogsParams{}) // the tenant and its applications
	const cards = 450                                            // more than two writes of a sweep delete
	for i := range cards {
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: fmt.Sprintf("card%d", i), Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	}
	given.Create(t, other.Client, vault.TokenParams{ID: "theirs", Type: vault.TypeGeneric, Data: "x"})
	v.Clock.Advance(time.Microsecond)
	later := v.Clock.Now()
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "later", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})

	v.Clock.Advance(year - time.Microsecond) // the first entries are exactly a year old
	given.Same(t, "at the end of the retention", given.Sweep(t, v.Vault), vault.Swept{})
	given.Same(t, "entries", logTotal(t, v.Owner.Client, vault.ListLogsParams{}), setUp+cards+1)
	v.Clock.Advance(time.Microsecond)
	given.Same(t, "a microsecond later", given.Sweep(t, v.Vault), vault.Swept{Logs: setUp + cards + 2})
	given.Same(t, "again", given.Sweep(t, v.Vault), vault.Swept{})

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
		given.Same(t, name, logTotal(t, v.Owner.Client, tt.p), tt.want)
	}
	given.Same(t, "entries of the other tenant", logTotal(t, other.Client, vault.ListLogsParams{}), 0)
	_, total := given.List(t, v.Owner.Client, vault.ListTokensParams{}) // the tokens still exist
	given.Same(t, "tokens", total, cards+1)
}

// Without a retention period entries are kept, however old they are.
func TestLogIsKeptForeverByDefault(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	all := logTotal(t, v.Owner.Client, vault.ListLogsParams{})
	v.Clock.Advance(100 * year)
	given.Same(t, "swept", given.Sweep(t, v.Vault), vault.Swept{})
	given.Same(t, "entries", logTotal(t, v.Owner.Client, vault.ListLogsParams{}), all)
}

// logsStay is a database that cannot delete the log entries of one tenant.
type logsStay struct {
	storage.Storage
	of uuid.UUID
}

func (s *logsStay) DeleteLogs(ctx context.Context, tenant storage.ID, before time.Time, limit int) (int, error) {
	if tenant == storage.ID(s.of) {
		return 0, given.ErrDown
	}
	return s.Storage.DeleteLogs(ctx, tenant, before, limit)
}

// A failure for one tenant is reported, and the entries of the others are deleted.
func TestSweepOfLogsContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	s := &logsStay{Storage: given.SQLite(t, ":memory:")}
	v := vaulttest.OpenStorage(t, s, &vault.Config{LogRetention: year})
	_, other := v.NewTenant(t, "Other")
	s.of = v.Acme.ID
	v.Clock.Advance(year + time.Second)
	swept, err := v.Sweep(t.Context())
	must.Match(t, "a tenant whose entries stay", err, given.ErrDown)
	must.Contain(t, "the error", err.Error(), v.Acme.ID.String())
	given.Same(t, "swept of the other", swept, vault.Swept{Logs: 1})
	given.Same(t, "entries of the other", logTotal(t, other.Client, vault.ListLogsParams{}), 0)
}

// endlessLogs is a database with endless old log entries, or one where every
// deletion fails.
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
	}{"a backlog": {nil, 10_000}, "a database that is down": {given.ErrDown, 10}} {
		s := &endlessLogs{Storage: given.SQLite(t, ":memory:"), err: test.err, tenants: many}
		v := vaulttest.OpenStorage(t, s, &vault.Config{LogRetention: year})
		must.Match(t, name, must.Err(v.Sweep(t.Context())), test.err)
		given.Same(t, name+": pieces", s.calls, test.calls)
	}
}

// askedStore counts pings, and can delay them.
type askedStore struct {
	storage.Storage
	asked atomic.Int32
	hang  chan struct{} // receives when pinged, and is closed to respond
}

func (s *askedStore) Ping(ctx context.Context) error {
	s.asked.Add(1)
	if s.hang != nil {
		<-s.hang
		<-s.hang
	}
	return s.Storage.Ping(ctx)
}

func askedVault(t *testing.T, hang chan struct{}) (*vault.Vault, *askedStore) {
	t.Helper()
	store := &askedStore{Storage: given.SQLite(t, ":memory:"), hang: hang}
	return given.Open(t, store, vault.NewKey(), vault.Config{}), store
}

// However many probes there are, the database is queried once a second.
func TestPingQueriesOnceASecond(t *testing.T) {
	t.Parallel()
	v, store := askedVault(t, nil)
	began := time.Now()
	var probes sync.WaitGroup
	for range 50 {
		probes.Go(func() {
			must.Match(t, "Ping", v.Ping(t.Context()), nil)
		})
	}
	probes.Wait()
	if got, most := store.asked.Load(), 1+int32(time.Since(began)/time.Second); got > most {
		t.Errorf("the database was queried %d times in %s", got, time.Since(began))
	}
	must.Do(t, v.Close())
	must.Match(t, "a vault that is closed", v.Ping(t.Context()), vault.ErrClosed)
}

// A database that hangs and ignores the context does not block a probe.
func TestPingDoesNotHang(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	v, store := askedVault(t, hang)
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		hang <- struct{}{} // as soon as the database is pinged
		cancel()
	}()
	for range 3 {
		must.Match(t, "Ping", v.Ping(ctx), context.Canceled)
	}
	given.Same(t, "queries of an unresponsive database", store.asked.Load(), 1)
}

// fullAudit runs a test on both databases.
func fullAudit(t *testing.T, test func(*testing.T, *vaulttest.Vault)) {
	t.Helper()
	cfg := vault.Config{FullAudit: true, Evidence: &vault.EvidenceConfig{}}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, vaulttest.Open(t, ":memory:", &cfg))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		store := must.Get(postgres.Open(t.Context(), pgtest.URL(t)))(t)
		test(t, vaulttest.OpenStorage(t, store, &cfg))
	})
}

func TestDeniedCalls(t *testing.T) {
	t.Parallel()
	fullAudit(t, func(t *testing.T, v *vaulttest.Vault) {
		ctx, denied := t.Context(), vault.ListLogsParams{Operation: vault.OperationDenied}
		reader := given.Holding(t, v, "token:create").From("192.0.2.7")
		for range 3 {
			must.Match(t, "GetToken", must.Err(reader.GetToken(ctx, "x")), vault.ErrForbidden)
		}
		_ = reader.HasPermission(ctx, "token:update") // a question
		must.Match(t, "DeleteToken", reader.DeleteToken(ctx, "x"), vault.ErrForbidden)
		must.Match(t, "GetToken", must.Err(v.Owner.GetToken(ctx, "x")), vault.ErrNotFound)
		want := []string{"Denied: GetToken (token:read)", "Denied: DeleteToken (token:delete)"}
		given.Same(t, "entries", given.Messages(t, v.Owner.Client, denied), want)

		v.Clock.Advance(time.Second)
		for range 2 {
			_, _ = reader.GetToken(ctx, "x")
		}
		want = append(want, "Denied 3 times: GetToken (token:read)")
		given.Same(t, "entries after a second", given.Messages(t, v.Owner.Client, denied), want)
		page := must.Get(v.Owner.ListLogs(ctx, vault.ListLogsParams{Operation: vault.OperationDenied}))(t)
		app := reader.ApplicationID()
		if e := page.Data[0]; e.ActorID != app || e.EntityType != "application" || e.EntityID != app.String() || e.Origin != "192.0.2.7" {
			t.Errorf("the entry is %+v", e)
		}
		checkEvidence(t, v, page.Data[0].ID)
	})
}

// A rollback does not remove the entry of a denied call if the database has a
// connection besides the transaction.
func TestDeniedInATransaction(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	store := must.Get(postgres.Open(t.Context(), address))(t)
	v := vaulttest.OpenStorage(t, store, &vault.Config{FullAudit: true})
	db := must.Get(sql.Open("postgres", address))(t)
	defer db.Close()
	tx := must.Get(db.BeginTx(t.Context(), nil))(t)
	must.Match(t, "DeleteToken", given.Holding(t, v, "token:create").InTx(tx).DeleteToken(t.Context(), "x"), vault.ErrForbidden)
	must.Do(t, tx.Rollback())
	given.Same(t, "entries", given.Messages(t, v.Owner.Client, vault.ListLogsParams{Operation: vault.OperationDenied}), []string{"Denied: DeleteToken (token:delete)"})
}

func TestRefusedRowsAndReadsOfTheLog(t *testing.T) {
	t.Parallel()
	fullAudit(t, func(t *testing.T, v *vaulttest.Vault) {
		ctx := t.Context()
		rows := func(yield func(vault.TokenParams, error) bool) {
			for i, number := range []string{given.Visa, "1234", given.Mastercard, "4321"} {
				if !yield(vault.TokenParams{ID: fmt.Sprint("card-", i), Type: vault.TypeCardNumber, Data: number}, nil) {
					return
				}
			}
		}
		for _, err := range given.Revealing(t, v).Import(ctx, rows, nil) {
			must.Do(t, err)
		}
		given.Same(t, "rows", given.Messages(t, v.Owner.Client, vault.ListLogsParams{Operation: vault.OperationImport}),
			[]string{"Import: of 4 rows 2 refused, 0 skipped", "Import: row 2 refused", "Import: row 4 refused"})

		reads := vault.ListLogsParams{EntityType: "log", Operation: vault.OperationRead}
		before := len(given.Messages(t, v.Owner.Client, reads)) // a read too, which the next read sees
		must.Get(v.Management.ListLogs(ctx, vault.ListLogsParams{}))(t)
		batch, err := v.Management.NextLogs(ctx, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // continues, and does not report itself
			if batch, err = v.Management.NextLogs(ctx, batch.Cursor, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range v.Management.FollowLogs(ctx, batch.Cursor) {
			must.Do(t, err)
			break
		}
		must.Do(t, v.Management.ExportEvidence(ctx, new(strings.Builder)))
		if got := given.Messages(t, v.Owner.Client, reads); len(got) != before+5 || got[0] != "Log read" {
			t.Errorf("%d reads of the log after %d: %q", len(got), before, got)
		}
		types, err := v.Management.ListEntityTypes(ctx)
		if err != nil || !slices.Contains(types, vault.EntityType{DisplayName: "Log", Value: "log"}) {
			t.Errorf("%v: %v", err, types)
		}
		page, err := v.Owner.ListLogs(ctx, vault.ListLogsParams{EntityType: "log"})
		if err != nil || page.Pagination.TotalItems != len(page.Data) || page.Data[0].EntityID != v.Acme.ID.String() {
			t.Errorf("%v: %+v", err, page)
		}
	})
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	ctx, path, key := t.Context(), filepath.Join(t.TempDir(), "vault.db"), vault.NewKey()
	clock := vaulttest.NewClock(vaulttest.Start)
	cfg := vault.Config{FullAudit: true, Now: clock.Now}
	var acme *vault.Tenant
	for range 2 {
		v := given.Open(t, given.SQLite(t, path), key, cfg)
		acme = must.Get(v.EnsureTenant(ctx, "Acme"))(t)
		app := must.Get(v.Tenant(acme.ID).CreateApplication(ctx, vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}}))(t)
		c := given.Authenticated(t, v, app.Key)
		for range 3 {
			_ = c.DeleteToken(ctx, "x")
		}
		must.Do(t, v.Close())
		clock.Advance(time.Minute)
	}
	cfg.FullAudit = false
	v := given.Open(t, given.SQLite(t, path), key, cfg)
	var got []string
	for e, err := range v.Tenant(acme.ID).AllLogs(ctx, vault.ListLogsParams{}) {
		must.Do(t, err)
		if e.Operation != vault.OperationCreate && e.EntityType != "tenant" {
			got = append(got, string(e.Operation)+" "+e.EntityType+": "+e.Message)
		}
	}
	slices.Reverse(got)
	once := []string{
		"denied application: Denied: DeleteToken (token:delete)", "denied application: Denied 2 times: DeleteToken (token:delete)", "stop log: Vault stopped",
	}
	given.Same(t, "entries", got, slices.Concat(once, []string{"start log: Vault started"}, once))
}
