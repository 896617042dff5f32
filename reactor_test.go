package vault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const code = given.Code

func TestReactorAdministration(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p := given.ReactorParams("first")
	p.ApplicationID = v.Private.ApplicationID()
	got := must.Get(v.Management.CreateReactor(t.Context(), p))(t)
	want := &vault.Reactor{ID: got.ID, TenantID: v.Acme.ID, Name: "first", Code: code, Configuration: map[string]string{"a": "1", "b": "2"},
		ApplicationID: v.Private.ApplicationID(), CreatedBy: v.Management.ApplicationID(), CreatedAt: vaulttest.Start}
	given.Same(t, "created", got, want)
	v.Clock.Advance(time.Minute)
	want.ModifiedBy, want.ModifiedAt = v.Management.ApplicationID(), v.Clock.Now()
	for _, tt := range []struct {
		patch  string
		change func()
	}{
		{`{"name":"second","configuration":{"a":null,"c":"3"}}`, func() { want.Name, want.Configuration = "second", map[string]string{"b": "2", "c": "3"} }},
		{`{"application":null}`, func() { want.ApplicationID = uuid.UUID{} }},
		{`{"application":{"id":"` + v.Public.ApplicationID().String() + `"}}`, func() { want.ApplicationID = v.Public.ApplicationID() }},
		{`{"code":"exports.default = () => 1"}`, func() { want.Code = "exports.default = () => 1" }},
		{`{}`, func() {}},
	} {
		if _, err := v.Management.PatchReactor(t.Context(), got.ID, vault.JSON(tt.patch)); err != nil {
			t.Fatalf("%s: %v", tt.patch, err)
		}
		tt.change()
		read := must.Get(v.Management.GetReactor(t.Context(), got.ID))(t)
		given.Same(t, "after "+tt.patch, read, want)
	}
	replaced := must.Get(v.Management.ReplaceReactor(t.Context(), got.ID, vault.ReactorParams{Name: "third", Code: code}))(t)
	want.Name, want.Code, want.Configuration, want.ApplicationID = "third", code, map[string]string{}, uuid.UUID{}
	given.Same(t, "replaced", replaced, want)
	must.Do(t, v.Management.DeleteReactor(t.Context(), got.ID))
	for name, err := range map[string]error{
		"get":     must.Err(v.Owner.GetReactor(t.Context(), got.ID)),
		"patch":   must.Err(v.Owner.PatchReactor(t.Context(), got.ID, vault.JSON(`{}`))),
		"replace": must.Err(v.Owner.ReplaceReactor(t.Context(), got.ID, given.ReactorParams("x"))),
		"delete":  v.Owner.DeleteReactor(t.Context(), got.ID),
	} {
		must.Match(t, name+" after deletion", err, vault.ErrNotFound)
	}
	given.Same(t, "first and last entries", given.Operations(t, v, got.ID.String())[:1], []string{"create"})
}

func TestReactorRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	many := map[string]string{}
	for i := range 26 {
		many[fmt.Sprint(i)] = "x"
	}
	_, other := v.NewTenant(t, "Other")
	theirs := must.Get(other.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: given.Everything}))(t)
	for name, tt := range map[string]struct {
		change func(*vault.ReactorParams)
		field  string
	}{
		"no name":                      {func(p *vault.ReactorParams) { p.Name = "" }, "name"},
		"a long name":                  {func(p *vault.ReactorParams) { p.Name = strings.Repeat("x", 201) }, "name"},
		"no code":                      {func(p *vault.ReactorParams) { p.Code = "" }, "code"},
		"long code":                    {func(p *vault.ReactorParams) { p.Code = strings.Repeat("x", 1_000_001) }, "code"},
		"26 entries of configuration":  {func(p *vault.ReactorParams) { p.Configuration = many }, "configuration"},
		"a missing application":        {func(p *vault.ReactorParams) { p.ApplicationID = uuid.New() }, "application.id"},
		"another tenant's application": {func(p *vault.ReactorParams) { p.ApplicationID = theirs.ID }, "application.id"},
		"a management application":     {func(p *vault.ReactorParams) { p.ApplicationID = v.Management.ApplicationID() }, "application.id"},
	} {
		p := given.ReactorParams("x")
		tt.change(&p)
		given.WantFields(t, name, must.Err(v.Management.CreateReactor(t.Context(), p)), tt.field)
	}
	var p vault.ReactorParams
	given.WantFields(t, "strict JSON", p.UnmarshalJSON([]byte(`{"name":1,"code":"x","configuration":{"a":1},"application":{"id":"x","y":1},"z":1}`)),
		"name", "configuration.a", "application.id", "application.y", "z")
	given.WantFields(t, "no id", p.UnmarshalJSON([]byte(`{"configuration":{},"application":{}}`)), "application.id")
	given.WantFields(t, "zero id", p.UnmarshalJSON([]byte(`{"configuration":{},"application":{"id":"00000000-0000-0000-0000-000000000000"}}`)), "application.id")
	given.WantFields(t, "no configuration", p.UnmarshalJSON([]byte(`{"name":"x","code":"x"}`)), "configuration")
	ok := given.ReactorParams(strings.Repeat("ä", 200))
	ok.Code = strings.Repeat("ä", 1_000_000)
	must.Get(v.Management.CreateReactor(t.Context(), ok))(t)
	r := must.Get(v.Management.CreateReactor(t.Context(), given.ReactorParams("x")))(t)
	for patch, field := range map[string]string{`{"name":null}`: "name", `{"code":""}`: "code", `{"configuration":null}`: "configuration", `{"nope":1}`: "nope", `{"configuration":{"a":7}}`: "configuration.a", `7`: ""} {
		given.WantFields(t, patch, must.Err(v.Management.PatchReactor(t.Context(), r.ID, vault.JSON(patch))), field)
	}
}

// The name filter matches the whole name case-insensitively; only * is special.
func TestNameFilter(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	names := []string{"Charge card", "charge bank", "100%", "100x", "a_b", "axb", "Ünicode"}
	for _, name := range names {
		must.Get(v.Owner.CreateReactor(t.Context(), given.ReactorParams(name)))(t)
		must.Get(v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: name, DestinationURL: "https://example.com"}))(t)
	}
	for filter, want := range map[string][]string{
		"": {"Ünicode", "axb", "a_b", "100x", "100%", "charge bank", "Charge card"}, "charge*": {"charge bank", "Charge card"}, "CHARGE CARD": {"Charge card"}, "charge": nil,
		"*card": {"Charge card"}, "*a*r*": {"charge bank", "Charge card"}, "100%": {"100%"}, "a_b": {"a_b"}, "*": {"Ünicode", "axb", "a_b", "100x", "100%", "charge bank", "Charge card"}, "?xb": nil,
	} {
		reactors := must.Get(v.Management.ListReactors(t.Context(), vault.ListParams{Name: filter}))(t)
		proxies := must.Get(v.Management.ListProxies(t.Context(), vault.ListParams{Name: filter}))(t)
		var found, foundProxies []string
		for _, r := range reactors.Data {
			found = append(found, r.Name)
		}
		for _, p := range proxies.Data {
			foundProxies = append(foundProxies, p.Name)
		}
		given.Same(t, "reactors "+filter, found, want)
		given.Same(t, "proxies "+filter, foundProxies, want)
		given.Same(t, "total of "+filter, reactors.Pagination.TotalItems, len(want))
	}
	long := strings.Repeat("*a", 30_000)
	given.WantFields(t, "reactors by a long name", must.Err(v.Management.ListReactors(t.Context(), vault.ListParams{Name: long})), "name")
	given.WantFields(t, "proxies by a long name", must.Err(v.Management.ListProxies(t.Context(), vault.ListParams{Name: long})), "name")
}

func TestProxyAdministration(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	got := must.Get(v.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "first", DestinationURL: "https://example.com/v1?a=b"}))(t)
	if len(got.Key) < 22 {
		t.Errorf("the key has %d characters, which are less than 128 bits", len(got.Key))
	}
	want := &vault.Proxy{ID: got.ID, TenantID: v.Acme.ID, Name: "first", Key: got.Key, DestinationURL: "https://example.com/v1?a=b", RequireAuth: true,
		CreatedBy: v.Management.ApplicationID(), CreatedAt: vaulttest.Start}
	given.Same(t, "created", got, want)
	v.Clock.Advance(time.Minute)
	want.ModifiedBy, want.ModifiedAt = v.Management.ApplicationID(), v.Clock.Now()
	for _, tt := range []struct {
		patch  string
		change func()
	}{
		{`{"require_auth":false,"configuration":{"a":"1"}}`, func() { want.RequireAuth, want.Configuration = false, map[string]string{"a": "1"} }},
		{`{"name":"second","request_transform":{"code":"` + code + `"}}`, func() { want.Name, want.RequestTransform = "second", &vault.ProxyTransform{Code: code} }},
		{`{"application":{"id":"` + v.Public.ApplicationID().String() + `"}}`, func() { want.ApplicationID = v.Public.ApplicationID() }},
		{`{"application":null,"request_transform":null,"configuration":null}`, func() { want.ApplicationID, want.RequestTransform, want.Configuration = uuid.UUID{}, nil, nil }},
		{`{"require_auth":null}`, func() { want.RequireAuth = true }},
	} {
		if _, err := v.Management.PatchProxy(t.Context(), got.ID, vault.JSON(tt.patch)); err != nil {
			t.Fatalf("%s: %v", tt.patch, err)
		}
		tt.change()
		read := must.Get(v.Management.GetProxy(t.Context(), got.ID))(t)
		given.Same(t, "after "+tt.patch, read, want)
	}
	must.Get(v.Management.PatchProxy(t.Context(), got.ID, vault.JSON(`{"require_auth":false,"configuration":{"a":"1"},"response_transform":{"code":"`+code+`"}}`)))(t)
	replaced := must.Get(v.Management.ReplaceProxy(t.Context(), got.ID, vault.ProxyParams{Name: "third", DestinationURL: "https://example.org"}))(t)
	want.Name, want.DestinationURL = "third", "https://example.org" // the key stays, the rest is cleared
	given.Same(t, "replaced", replaced, want)
	must.Do(t, v.Management.DeleteProxy(t.Context(), got.ID))
	must.Match(t, "after deletion", must.Err(v.Management.GetProxy(t.Context(), got.ID)), vault.ErrNotFound)
}

func TestProxyRules(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for name, tt := range map[string]struct {
		p     vault.ProxyParams
		field string
	}{
		"no name":                  {vault.ProxyParams{DestinationURL: "https://example.com"}, "name"},
		"no destination":           {vault.ProxyParams{Name: "x"}, "destination_url"},
		"a relative destination":   {vault.ProxyParams{Name: "x", DestinationURL: "/path"}, "destination_url"},
		"another scheme":           {vault.ProxyParams{Name: "x", DestinationURL: "ftp://example.com"}, "destination_url"},
		"plain http":               {vault.ProxyParams{Name: "x", DestinationURL: "http://example.com"}, "destination_url"},
		"a private address":        {vault.ProxyParams{Name: "x", DestinationURL: "https://10.0.0.1/"}, "destination_url"},
		"loopback":                 {vault.ProxyParams{Name: "x", DestinationURL: "https://127.0.0.1/"}, "destination_url"},
		"the metadata service":     {vault.ProxyParams{Name: "x", DestinationURL: "https://169.254.169.254/latest"}, "destination_url"},
		"credentials":              {vault.ProxyParams{Name: "x", DestinationURL: "https://user:s3cr3t@example.com"}, "destination_url"},
		"a management application": {vault.ProxyParams{Name: "x", DestinationURL: "https://example.com", ApplicationID: v.Management.ApplicationID()}, "application.id"},
		"long code":                {vault.ProxyParams{Name: "x", DestinationURL: "https://example.com", RequestTransform: &vault.ProxyTransform{Code: strings.Repeat("x", 1_000_001)}}, "request_transform.code"},
	} {
		_, err := v.Management.CreateProxy(t.Context(), tt.p)
		given.WantFields(t, name, err, tt.field)
		given.WantSilent(t, err, "s3cr3t")
	}
	var p vault.ProxyParams
	given.WantFields(t, "strict JSON", p.UnmarshalJSON([]byte(`{"name":"x","require_auth":"no","request_transform":{},"response_transform":{"code":"x","y":1},"key":"x"}`)),
		"require_auth", "request_transform.code", "response_transform.y", "key")
}

// Code is checked when it is written, and only if it has changed. An error is reported
// at the field that holds the code.
func TestCodeIsCheckedWhenItIsWritten(t *testing.T) {
	t.Parallel()
	checks := 0
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: checking(func(source string) error {
		checks++
		if source == "syntax error" {
			return &script.Error{Kind: script.Invalid, Status: 422, Messages: map[string][]string{"code": {"line 1: no"}}}
		}
		return nil
	})})
	bad := given.ReactorParams("bad")
	bad.Code = "syntax error"
	must.Match(t, "create", must.Err(v.Owner.CreateReactor(t.Context(), bad)), vault.ErrCode)
	r := must.Get(v.Owner.CreateReactor(t.Context(), given.ReactorParams("good")))(t)
	must.Match(t, "patch", must.Err(v.Owner.PatchReactor(t.Context(), r.ID, vault.JSON(`{"code":"syntax error"}`))), vault.ErrCode)
	before := checks
	must.Get(v.Owner.PatchReactor(t.Context(), r.ID, vault.JSON(`{"name":"new"}`)))(t)
	given.Same(t, "checks of code that stays", checks-before, 0)
	for field, p := range map[string]vault.ProxyParams{
		"request_transform.code":  {RequestTransform: &vault.ProxyTransform{Code: "syntax error"}},
		"response_transform.code": {ResponseTransform: &vault.ProxyTransform{Code: "syntax error"}},
	} {
		p.Name, p.DestinationURL = "x", "https://example.com"
		_, err := v.Owner.CreateProxy(t.Context(), p)
		must.Match(t, field, err, vault.ErrCode)
		if failed, ok := errors.AsType[*script.Error](err); !ok || failed.Messages[field] == nil || len(failed.Messages) != 1 {
			t.Errorf("%s: %v", field, err)
		}
	}
	reactors := must.Get(v.Owner.ListReactors(t.Context(), vault.ListParams{}))(t)
	proxies := must.Get(v.Owner.ListProxies(t.Context(), vault.ListParams{}))(t)
	given.Same(t, "what is stored", []int{len(reactors.Data), len(proxies.Data)}, []int{1, 0})
	given.Same(t, "code", reactors.Data[0].Code, code)
}

// checking is a runtime that checks code with a function, and runs none.
type checking func(source string) error

func (c checking) Check(_ context.Context, p script.Program) error { return c(p.Source) }

func (checking) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	return nil, errors.New("runs nothing")
}

func (checking) Close() error { return nil }

// The configuration of a proxy is shown only to clients that may read proxies,
// however others change it.
func TestProxyConfigurationIsForReaders(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	p := vault.ProxyParams{Name: "x", DestinationURL: "https://example.com", Configuration: map[string]string{"SECRET": "sk"}}
	for _, read := range []bool{false, true} {
		permissions := []vault.Permission{"proxy:create", "proxy:update"}
		if read {
			permissions = append(permissions, "proxy:read")
		}
		app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationManagement, Permissions: permissions}))(t)
		c := must.Get(v.Authenticate(t.Context(), app.Key))(t)
		created := must.Get(c.CreateProxy(t.Context(), p))(t)
		replaced := must.Get(c.ReplaceProxy(t.Context(), created.ID, p))(t)
		patched := must.Get(c.PatchProxy(t.Context(), created.ID, vault.JSON(`{"name":"y"}`)))(t)
		for what, got := range map[string]*vault.Proxy{"POST": created, "PUT": replaced, "PATCH": patched} {
			given.Same(t, fmt.Sprint(what, " by a client that may read: ", got.Configuration), got.Configuration != nil, read)
		}
		stored := must.Get(v.Management.GetProxy(t.Context(), created.ID))(t)
		given.Same(t, "what is stored", stored.Configuration, p.Configuration)
	}
}

// Errors of InvokeProxy name the fields of the call, and no headers of REST.
func TestProxyErrorsNameFields(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for want, call := range map[string]vault.ProxyCall{
		"key": {}, "url": {URL: "nowhere"}, "connection": {URL: "https://example.com/", Connection: "upgrade"},
	} {
		given.WantFields(t, want, must.Err(v.Private.InvokeProxy(t.Context(), call)), want)
	}
}

// A proxy call without a method is a GET, for transforms too.
func TestProxyMethodIsGETByDefault(t *testing.T) {
	t.Parallel()
	stop := errors.New("seen")
	var method any
	v := vaulttest.Open(t, ":memory:", &vault.Config{Runtime: given.Runtime(func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		method = in["args"].(map[string]any)["method"]
		return nil, stop
	})})
	x := must.Get(v.Management.CreateProxy(t.Context(), vault.ProxyParams{
		Name: "x", DestinationURL: "https://example.com", RequestTransform: &vault.ProxyTransform{Code: code},
	}))(t)
	must.Match(t, "InvokeProxy", must.Err(v.Private.InvokeProxy(t.Context(), vault.ProxyCall{Key: x.Key})), stop)
	given.Same(t, "method", method, any("GET"))
}

// Params of an entity can be changed and written back without changing the entity
// that was read.
func TestParamsOfReadEntities(t *testing.T) {
	t.Parallel()
	v, ctx := vaulttest.New(t), t.Context()
	app := v.Private.ApplicationID()
	r := must.Get(v.Management.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: code, Configuration: map[string]string{"a": "1"}, ApplicationID: app}))(t)
	rp := r.Params()
	rp.Configuration["b"], rp.ApplicationID = "2", v.Public.ApplicationID()
	given.Same(t, "reactor", r.Params(), vault.ReactorParams{Name: "r", Code: code, Configuration: map[string]string{"a": "1"}, ApplicationID: app})
	changed := must.Get(v.Management.ReplaceReactor(ctx, r.ID, rp))(t)
	given.Same(t, "changed reactor", changed.Params(), rp)

	xp := vault.ProxyParams{Name: "x", DestinationURL: "https://example.com", Configuration: map[string]string{"a": "1"}, ApplicationID: app,
		RequestTransform: &vault.ProxyTransform{Code: code}, RequireAuth: new(false)}
	x := must.Get(v.Management.CreateProxy(ctx, xp))(t)
	given.Same(t, "proxy", x.Params(), xp)
	x.Params().RequestTransform.Code, *x.Params().RequireAuth = "", true
	given.Same(t, "proxy, after its parameters were changed", x.Params(), xp)
	y := must.Get(v.Management.ReplaceProxy(ctx, x.ID, x.Params()))(t)
	given.Same(t, "key", y.Key, x.Key)
	given.Same(t, "proxy put back", y.Params(), xp)

	ap := vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{{Priority: 1, Container: "/a/", Transform: vault.TransformMask,
		Permissions: []vault.Permission{vault.PermissionTokenRead}}}, ExpiresAt: vaulttest.Start.Add(time.Hour)}
	a := must.Get(v.Management.CreateApplication(ctx, ap))(t)
	given.Same(t, "application", a.Params(), ap)
	must.Get(v.Management.ReplaceApplication(ctx, a.ID, a.Params()))(t)
}

// failedJob lets the callback of a run fail, once or until the job is dead.
func failedJob(t *testing.T, w *reactWorld, hook *given.Receiver, caller *vault.Client, args any, dead bool) vault.JobInfo {
	t.Helper()
	hook.Answer(http.StatusInternalServerError)
	must.Get(caller.ReactAsync(t.Context(), w.reactor.ID, vault.ReactParams{CallbackURL: hook.URL, Args: args}))(t)
	must.Do(t, w.Work(t.Context()))
	for n := 0; dead && n < 10; n++ { // with the first, one more than the attempts, for a withdrawn result
		w.Clock.Advance(2 * time.Hour)
		must.Do(t, w.Work(t.Context()))
	}
	jobs, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: dead})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	return jobs[0]
}

func failing(context.Context, map[string]any, script.Host) (any, error) {
	return nil, &script.Error{Kind: script.Thrown, Status: 402, Title: "x", Messages: map[string][]string{"error": {"4242424242424242"}}, Frames: []script.Frame{{Line: 7}, {Line: 9}}}
}

func TestADeadJobIsRetried(t *testing.T) {
	t.Parallel()
	w, hook := newReactWorld(t, failing), given.NewReceiver(t)
	began := w.Clock.Now()
	dead := failedJob(t, w, hook, w.Private, nil, true)
	given.Same(t, "state", dead.State, "dead")
	given.Same(t, "step", dead.Step, "deliver")
	given.Same(t, "reactor", dead.ReactorID, w.reactor.ID)
	given.Same(t, "status and line", [2]int{dead.Ran.Status, dead.Ran.Line}, [2]int{402, 7})
	if dead.Ran.Took <= 0 || dead.CreatedAt.Sub(began).Abs() > time.Millisecond {
		t.Errorf("took %s, created at %s, want a time and %s", dead.Ran.Took, dead.CreatedAt, began)
	}
	hook.Answer(http.StatusOK)
	before := hook.Count()
	user := w.Owner.AsUser("ops@example.com")
	must.Do(t, user.RetryJob(t.Context(), dead.ID))
	must.Match(t, "retry again", user.RetryJob(t.Context(), dead.ID), vault.ErrNotFound)
	living, err := w.Owner.ListJobs(t.Context(), vault.ListJobsParams{})
	if err != nil || len(living) != 1 || living[0].State != "waiting" || living[0].Attempts != 0 {
		t.Errorf("jobs: %+v, %v", living, err)
	}
	must.Do(t, w.Work(t.Context()))
	given.Same(t, "callbacks", hook.Count()-before, 1)
	logs := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "reactor"}))(t)
	given.Same(t, "newest entry", logs.Data[0].Message, "Reactor callback retried")
	given.Same(t, "actor of the newest entry", logs.Data[0].ActorName, "ops@example.com")
}

func TestADeadJobIsDiscarded(t *testing.T) {
	t.Parallel()
	w, hook := newReactWorld(t, failing), given.NewReceiver(t)
	dead := failedJob(t, w, hook, w.Private, nil, true)
	other := must.Get(w.CreateTenant(t.Context(), "Other"))(t)
	must.Match(t, "another tenant's", w.Vault.Tenant(other.ID).RetryJob(t.Context(), dead.ID), vault.ErrNotFound)
	must.Do(t, w.Owner.DiscardJob(t.Context(), dead.ID))
	for _, id := range []uuid.UUID{dead.ID, uuid.New(), {}} {
		must.Match(t, "discard", w.Owner.DiscardJob(t.Context(), id), vault.ErrNotFound)
		must.Match(t, "retry", w.Owner.RetryJob(t.Context(), id), vault.ErrNotFound)
	}
	jobs := must.Get(w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: true}))(t)
	given.Same(t, "jobs", len(jobs), 0)
}

// A change of a job inside Once is part of its commit.
func TestADeadJobIsChangedOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(context.Context, *vault.Owner, uuid.UUID) error{
		"discard": func(ctx context.Context, c *vault.Owner, id uuid.UUID) error { return c.DiscardJob(ctx, id) },
		"retry":   func(ctx context.Context, c *vault.Owner, id uuid.UUID) error { return c.RetryJob(ctx, id) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hook := newReactWorld(t, failing), given.NewReceiver(t)
			dead := failedJob(t, w, hook, w.Private, nil, true)
			_, _, err := w.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
				if _, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}); err != nil {
					return vault.StoredResponse{}, err
				}
				return vault.StoredResponse{Status: http.StatusNoContent}, change(ctx, c, dead.ID)
			})
			must.Do(t, err)
			jobs := must.Get(w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: true}))(t)
			given.Same(t, "dead jobs", len(jobs), 0)
		})
	}
}
