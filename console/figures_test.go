package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestFigures records calls over a day and a half, and checks the figures of the
// last hour and day after the ring buffer has wrapped around.
func TestFigures(t *testing.T) {
	t.Parallel()
	rec := console.NewRecorder()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for minute := range 36 * 60 {
		rec.At(start.Add(time.Duration(minute) * time.Minute))
		rec.Call("create", 10*time.Millisecond, nil)
		rec.Call("read", time.Millisecond, nil)
		rec.Call("read", time.Millisecond, errors.New("refused"))
		rec.Call("delete", time.Millisecond, context.Canceled)
	}
	failed, p50, p99, points := rec.Figures(false)
	must.Same(t, "the last hour: failed", 60, failed)
	must.Same(t, "the last hour: points", 60, points)
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want*4/5 || got > want*5/4 {
			t.Errorf("%s is %s, want about %s", what, got, want)
		}
	}
	within("p50", p50, time.Millisecond)
	within("p99", p99, 10*time.Millisecond)
	if failed, _, _, points := rec.Figures(true); failed != 24*60 || points != 96 {
		t.Errorf("the last day: %d errors, %d points", failed, points)
	}
	rec.At(start.Add(100 * time.Hour))
	if failed, p50, _, _ := rec.Figures(true); failed != 0 || p50 != 0 {
		t.Errorf("after days without calls: %d, p50 %s", failed, p50)
	}
}

// TestCountsAreFromTheLog counts what another node did, before this console was
// there, and leaves out what is older than an hour and what was read in a console.
func TestCountsAreFromTheLog(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	create := func(n int) {
		for range n {
			must.Get(v.Owner.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
		}
	}
	create(5)
	v.Clock.Advance(2 * time.Hour)
	must.Get(v.Owner.CreateToken(ctx, vault.TokenParams{ID: "read", Type: vault.TypeGeneric, Data: "x"}))(t)
	create(6)
	must.Get(v.Owner.CreateApplication(ctx, vault.ApplicationParams{Name: "x", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	v.Clock.Advance(30 * time.Minute)
	for range 3 {
		must.Get(v.Owner.GetToken(ctx, "read"))(t)
	}
	must.Get(v.Owner.From("console 10.0.0.1").GetToken(ctx, "read"))(t)
	for span, want := range map[string][2]int{"hour": {7, 3}, "day": {12, 3}} {
		page := look(t, v, "/?span="+span)
		for i, title := range []string{"Creates", "Reads"} {
			must.Contain(t, "the last "+span, page, fmt.Sprintf(`<h2>%s</h2><p class="sum">%d</p>`, title, want[i]))
		}
	}
}

// TestLocalOnly sends requests from this machine and from elsewhere.
func TestLocalOnly(t *testing.T) {
	t.Parallel()
	const here, host = "127.0.0.1:1234", "localhost:8080"
	for name, c := range map[string]struct {
		from, host, proto string
		header            []string
		ok                bool
	}{
		"IPv4":                       {here, "127.0.0.1:8080", "", nil, true},
		"IPv6":                       {"[::1]:1234", "[::1]:8080", "", nil, true},
		"IPv6 without a port":        {"[::1]:1234", "[::1]", "", nil, true},
		"by name":                    {here, host, "", nil, true},
		"without a port":             {here, "localhost", "", nil, true},
		"HTTP/2":                     {here, host, "HTTP/2.0", nil, true},
		"from a page here":           {here, host, "", []string{"Origin", "http://localhost:8080", "Referer", "http://127.0.0.1:8080/console/"}, true},
		"from elsewhere":             {"192.0.2.1:1234", host, "", nil, false},
		"another name":               {here, "evil.example:8080", "", nil, false},
		"a name like it":             {here, "localhost.evil.example", "", nil, false},
		"no name":                    {here, "", "", nil, false},
		"a proxy that names itself":  {here, host, "", []string{"Via", "1.1 proxy"}, false},
		"a proxy that names clients": {here, host, "", []string{"X-Forwarded-For", "192.0.2.1"}, false},
		"a proxy by the standard":    {here, host, "", []string{"Forwarded", "for=192.0.2.1"}, false},
		"a proxy that says little":   {here, host, "", []string{"X-Forwarded-Proto", "https"}, false},
		"a proxy that says nothing":  {here, host, "", []string{"X-Forwarded-For", ""}, false},
		"nginx as it is often set":   {here, host, "", []string{"X-Real-Ip", "192.0.2.1"}, false},
		"nginx as it comes":          {here, "127.0.0.1:8080", "HTTP/1.0", nil, false},
		"from a page elsewhere":      {here, host, "", []string{"Origin", "https://evil.example"}, false},
		"from a link elsewhere":      {here, host, "", []string{"Referer", "https://evil.example/localhost"}, false},
		"from a page in a sandbox":   {here, host, "", []string{"Origin", "null"}, false},
		"from a broken socket":       {"@", host, "", nil, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if c.proto != "" {
			r.Proto = c.proto
			r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(c.proto)
		}
		for i := 0; i < len(c.header); i += 2 {
			r.Header.Set(c.header[i], c.header[i+1])
		}
		user, err := console.LocalOnly(r)
		if (err == nil) != c.ok || c.ok && user.Role != console.Owner {
			t.Errorf("%s: %+v, %v", name, user, err)
		}
	}
}

// TestNobodyIsAdmittedByDefault checks that a console without Authorize only explains
// how to set it, on every page.
func TestNobodyIsAdmittedByDefault(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, opts := range []*console.Options{nil, {}, {Authorize: func(*http.Request) (console.User, error) { return console.User{Role: console.Owner}, nil }}, {Authorize: func(*http.Request) (console.User, error) { return console.User{ID: "x"}, nil }}} {
		h := console.Handler(v.Vault, opts)
		for _, path := range []string{"/", "/tenants", "/tenants/" + v.Acme.ID.String() + "/tokens", "/events", "/nothing"} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code < 400 || strings.Contains(w.Body.String(), v.Acme.Name) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
			if (opts == nil || opts.Authorize == nil) && !strings.Contains(w.Body.String(), "console.Options.Authorize") {
				t.Errorf("%s does not explain how to set it up", path)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
				t.Errorf("%s: policy %q", path, csp)
			}
		}
	}
}

// TestManyTenants has more tenants than the overview adds up. The page must state
// this beside each figure that omits tenants.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := vaulttest.New(t)
	must.Get(v.Owner.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "of the oldest tenant"}))(t)
	if page := look(t, v, "/"); strings.Contains(page, "the newest of") || !strings.Contains(page, `<p class="figure">1</p><p class="muted">in `) {
		t.Errorf("wrong overview with few tenants: %s", page)
	}
	for range 200 {
		must.Get(v.CreateTenant(ctx, "new"))(t)
	}
	total := must.Get(v.ListTenants(ctx, vault.PageParams{}))(t).Pagination.TotalItems
	page := look(t, v, "/")
	part := fmt.Sprintf("in 200 tenants, the newest of %d", total)
	for _, want := range []string{`<p class="figure">0</p><p class="muted">` + part, "0 running, " + part, "kept for 30 days, " + part, "Keys " + part} {
		must.Contain(t, "the overview", page, want)
	}
}
