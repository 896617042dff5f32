package destinations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// Bound use gives no sight: of masks that a PATCH sets, of searches, or after a
// move.
func TestBoundUseIsNoSight(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "a secret text", Containers: []string{"/a/"}})
	rest := []vault.Permission{"token:read", "token:search", "token:update"}
	key := given.Private(t, v, bound(1, "/", "x.test"), given.Rule(2, "/", vault.TransformMask, rest...))
	for _, patch := range []string{`{"mask": "{{ data }}"}`, `{"fingerprint_expression": "{{ data | slice: 0, 1 }}"}`, `{"search_indexes": ["{{ data | slice: 0, 1 }}"]}`} {
		must.Match(t, patch, must.Err(key.PatchToken(t.Context(), "tok", json.RawMessage(patch))), vault.ErrForbidden)
	}
	given.WantData(t, "read", given.Get(t, key, "tok").Data, `"XXXXXXXXXtext"`)
	found, err := key.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "id:tok"})
	if err != nil || len(found.Data) != 1 || strings.Contains(string(found.Data[0].Data), "secret") {
		t.Errorf("search: %v, %v", found, err)
	}
	hidden := given.Private(t, v, bound(1, "/", "x.test"), given.Rule(2, "/", vault.TransformRedact, "token:search"))
	_, err = hidden.SearchTokens(t.Context(), vault.SearchTokensParams{Query: `data:"a secret text"`})
	must.Match(t, "search by data", err, vault.ErrForbidden)
}

// A move must not widen the destinations of the mover.
func TestMovesDoNotWidenDestinations(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	key := given.Private(t, v,
		bound(1, "/x/", "x.test"), bound(2, "/xy/", "x.test", "y.test"), bound(3, "/any/", "*.test"), given.Rule(4, "/mask/", vault.TransformMask, "token:use"),
		given.Rule(5, "/open/", vault.TransformReveal, "token:use"), given.Rule(6, "/seen/", vault.TransformReveal, "token:read"), given.Rule(7, "/", vault.TransformMask, "token:update"),
		bound(8, "/charge/", "POST x.test/v1/charges"), bound(9, "/all/", "POST x.test/v1/**"), bound(10, "/split/", "GET x.test", "POST x.test"))
	for _, test := range []struct {
		from, to []string
		want     bool
	}{
		{[]string{"/x/"}, []string{"/xy/"}, false},
		{[]string{"/xy/"}, []string{"/x/"}, true},
		{[]string{"/any/"}, []string{"/xy/"}, true},
		{[]string{"/xy/"}, []string{"/any/"}, false},
		{[]string{"/x/"}, []string{"/x/", "/xy/"}, true},
		{[]string{"/x/", "/xy/"}, []string{"/xy/"}, false},
		{[]string{"/x/"}, []string{"/open/"}, false},
		{[]string{"/open/"}, []string{"/any/"}, true},
		{[]string{"/seen/"}, []string{"/any/"}, true},
		{[]string{"/none/"}, []string{"/x/"}, false},
		{[]string{"/mask/"}, []string{"/x/"}, false},
		{[]string{"/x/"}, []string{"/none/"}, true},
		{[]string{"/x/"}, []string{"/charge/"}, true},
		{[]string{"/all/"}, []string{"/charge/"}, true},
		{[]string{"/charge/"}, []string{"/all/"}, false},
		{[]string{"/charge/"}, []string{"/x/"}, false},
		{[]string{"/split/"}, []string{"/all/"}, true},
		{[]string{"/all/"}, []string{"/split/"}, false},
		{[]string{"/split/"}, []string{"/x/"}, false},
	} {
		tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "a secret text", Containers: test.from})
		_, err := key.PatchToken(t.Context(), tok.ID, map[string]any{"containers": test.to})
		given.WantAllowed(t, fmt.Sprint(test.from, " to ", test.to), err, test.want)
	}
}

// A session has neither sight nor other destinations than its authorizer has now.
func TestSessionsOfBoundUse(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{
		bound(1, "/", w.to, "x.test", "GET,POST limited.test/v1/*"), given.Rule(2, "/", vault.TransformMask, "token:read")}}))(t)
	authorizer := given.Authenticated(t, w.Vault.Vault, app.Key)
	grant := func(rules []vault.AccessRule, permissions ...vault.Permission) (*vault.Client, error) {
		s := must.Get(w.Public.CreateSession(t.Context()))(t)
		err := authorizer.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: s.Nonce, Rules: rules, Permissions: permissions})
		if err != nil {
			return nil, err
		}
		return given.Authenticated(t, w.Vault.Vault, s.SessionKey), nil
	}
	for name, rules := range map[string][]vault.AccessRule{
		"sight":              {given.Rule(1, "/", vault.TransformReveal, "token:read")},
		"no limit":           {given.Rule(1, "/", vault.TransformReveal, "token:use")},
		"another":            {bound(1, "/", w.to, "y.test")},
		"no limit elsewhere": {bound(1, "/a/", w.to), given.Rule(2, "/", vault.TransformReveal, "token:use")},
		"another method":     {bound(1, "/", "POST limited.test/v1/*", "DELETE limited.test/v1/*")},
		"a longer path":      {bound(1, "/", "POST limited.test/v1/**")},
		"any path":           {bound(1, "/", "POST limited.test")},
	} {
		must.Match(t, name, must.Err(grant(rules)), vault.ErrForbidden)
	}
	must.Match(t, "plain use", must.Err(grant(nil, "token:use")), vault.ErrForbidden)
	must.Get(grant([]vault.AccessRule{bound(1, "/", "POST limited.test/v1/charges")}))(t)
	s := must.Get(grant([]vault.AccessRule{bound(1, "/", w.to), given.Rule(2, "/", vault.TransformMask, "token:read")}))(t)
	must.Get(w.charge(t.Context(), s, cardCall()))(t)
	_, err := s.Detokenize(t.Context(), "{{ card }}")
	w.limited(t, "detokenize", err)
	params := app.Params()
	params.Rules[0].Destinations = []string{"x.test"}
	must.Get(w.Owner.ReplaceApplication(t.Context(), app.ID, params))(t)
	must.Match(t, "after the authorizer lost the destination", must.Err(w.charge(t.Context(), s, cardCall())), vault.ErrForbidden)
	open := given.Session(t, w.Vault, vault.SessionGrant{Rules: []vault.AccessRule{bound(1, "/", w.to)}})
	must.Get(w.charge(t.Context(), open, cardCall()))(t)
}

func TestExplainDestinations(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	app := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{bound(1, "/a/", "API.stripe.com:443", "*.Bücher.example"), bound(2, "/b/", "x.test"),
			bound(3, "/c/", "POST,GET *.test/v1/**", "x.test/v2"), bound(4, "/d/", "GET,PUT a.test/*/%7Eme", "DELETE x.test")}}))(t)
	given.Same(t, "stored", app.Rules[0].Destinations, []string{"api.stripe.com", "*.xn--bcher-kva.example"})
	ask := func(containers ...string) string {
		e := must.Get(v.Owner.Explain(t.Context(), vault.ExplainParams{ApplicationID: app.ID, Permission: "token:use", Containers: containers}))(t)
		given.Same(t, fmt.Sprintf("%v: it shows", containers), e.Transform, "")
		return e.String()
	}
	given.Same(t, "one container", ask("/a/"), `token:use is allowed: only to api.stripe.com, *.xn--bcher-kva.example
Rule 1 of the application decides: only to api.stripe.com, *.xn--bcher-kva.example.

application, /a/: only to api.stripe.com, *.xn--bcher-kva.example
  rule 1 decides
  rule 2 is not asked
  rule 3 is not asked
  rule 4 is not asked
`)
	must.Contain(t, "methods and paths", ask("/c/"), "token:use is allowed: only to GET,POST *.test/v1/**, x.test/v2\n")
	must.Contain(t, "what two lists have in common", ask("/c/", "/d/"), "token:use is allowed: only to GET a.test/v1/~me, DELETE x.test/v2\n")
	if got := ask("/a/", "/b/"); !strings.HasPrefix(got, "token:use is refused\nThe rules have no destination in common.\n") {
		t.Errorf("two containers: %s", got)
	}
}

// The RoundTripper matches the URL at each hop, and refuses another Host.
func TestRoundTripperToDestinations(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	given.Create(t, w.Private, vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: "sk_live_secret"})
	client := &http.Client{Transport: w.key.RoundTripper(&http.Transport{TLSClientConfig: w.cert})}
	send := func(url string, change func(*http.Request)) (*http.Response, string, error) {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(cardExpression)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer {{ secret }}")
		if change != nil {
			change(req)
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res, string(body), err
	}
	w.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		rw.Header().Set("Trailer", "X-End")
		rw.Header().Set("X-Auth", r.Header.Get("Authorization"))
		fmt.Fprint(rw, body, r.URL.RawQuery)
		rw.Header().Set("X-End", given.Visa)
	}
	res, body, err := send(w.url+"?k={{secret}}", nil)
	must.Do(t, err)
	given.Same(t, "sent", w.got.Header.Get("Authorization")+w.body+w.got.URL.RawQuery, `Bearer sk_live_secret{"number":"`+given.Visa+`"}k=sk_live_secret`)
	given.Same(t, "received", res.Header.Get("X-Auth")+body, `Bearer {{ secret }}{"number":"{{ card }}"}k={{ secret }}`)
	given.Same(t, "trailers", len(res.Trailer), 0)
	must.Lack(t, "the response refers to", fmt.Sprint(res.Request.Header, res.Request.URL), "sk_live")
	opened := w.conn.Load()
	_, _, err = send(w.url, func(req *http.Request) { req.Host = "evil.example" })
	must.Match(t, "another Host", err, vault.ErrForbidden)
	_, _, err = send("https://evil.example", nil)
	must.Match(t, "another host", err, vault.ErrForbidden)
	_, _, err = send(w.url, func(req *http.Request) { req.URL.Opaque = "//evil.example/x" })
	must.Match(t, "an opaque URL", err, vault.ErrForbidden)
	_, _, err = send(w.url, func(req *http.Request) { req.Header["host"] = []string{"evil.example"} })
	must.Match(t, "a second Host", err, vault.ErrInvalid)
	given.Same(t, "connections", w.conn.Load(), opened)
	hops := 0
	w.answer = func(rw http.ResponseWriter, r *http.Request, _ string) {
		hops++
		http.Redirect(rw, r, strings.Replace(w.url, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}
	_, _, err = send(w.url, nil)
	must.Match(t, "a redirect", err, vault.ErrForbidden)
	given.Same(t, "hops", hops, 1)
}

// An anonymous proxy sends with the rights of its application, and a response
// transform runs after the response was searched.
func TestBoundProxies(t *testing.T) {
	t.Parallel()
	var seen string
	w := newTill(t, vault.Config{Runtime: given.Runtime(func(_ context.Context, in map[string]any, _ script.Host) (any, error) {
		seen = fmt.Sprint(in["args"])
		return map[string]any{"body": "done", "headers": map[string]string{}}, nil
	})})
	w.answer = func(rw http.ResponseWriter, _ *http.Request, body string) { fmt.Fprint(rw, body) }
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{bound(1, "/", w.to)}}))(t)
	invoke := func(p vault.ProxyParams) (string, error) {
		p.Name, p.ApplicationID, p.RequireAuth = "p", app.ID, new(bool)
		x := must.Get(w.Management.CreateProxy(t.Context(), p))(t)
		call := cardCall()
		call.Key, call.Header = x.Key, http.Header{"Content-Type": {"application/json"}}
		answer, err := w.Vault.Vault.InvokeProxy(t.Context(), call)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	got := must.Get(invoke(vault.ProxyParams{DestinationURL: w.url}))(t)
	given.Same(t, "anonymous: got", got, `{"number":"{{ card }}"}`)
	must.Contain(t, "anonymous: w.body", w.body, given.Visa)
	_, err := invoke(vault.ProxyParams{DestinationURL: other.URL})
	w.limited(t, "another destination", err)
	_, err = invoke(vault.ProxyParams{DestinationURL: w.url, RequestTransform: &vault.ProxyTransform{Code: "x"}})
	w.limited(t, "a request transform", err)
	got, err = invoke(vault.ProxyParams{DestinationURL: w.url, ResponseTransform: &vault.ProxyTransform{Code: "x"}})
	if err != nil || got != "done" || strings.Contains(seen, given.Visa) || !strings.Contains(seen, "{{ card }}") {
		t.Errorf("response transform: %s, %v; it saw %s", got, err, seen)
	}
}

// A full audit enters the refusals of anonymous calls, one entry per proxy.
func TestRefusedAnonymousCalls(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{FullAudit: true})
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{bound(1, "/", "pay.test")}}))(t)
	for message, ref := range map[string]uuid.UUID{"Denied: InvokeProxy to " + w.to: app.ID, "Denied: InvokeProxy": {}} {
		x := must.Get(w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: w.url, RequireAuth: new(bool), ApplicationID: ref}))(t)
		for range 2 {
			call := cardCall()
			call.Key, call.Origin, call.Header = x.Key, "203.0.113.7", http.Header{"Content-Type": {"application/json"}}
			must.Match(t, message, must.Err(w.Vault.Vault.InvokeProxy(t.Context(), call)), vault.ErrForbidden)
		}
		found := given.Entries(t, w.Vault, vault.ListLogsParams{EntityID: x.ID.String(), Operation: vault.OperationDenied})
		if len(found) != 1 || found[0].EntityType != "proxy" || found[0].Message != message || found[0].Origin != "203.0.113.7" {
			t.Errorf("%s: the log has %+v", message, found)
		}
	}
	given.Same(t, "connections", w.conn.Load(), 0)
}

// A stored response of code that sent bound data is given again only while the
// code's application may still send it there.
func TestReplaysOfBoundUse(t *testing.T) {
	t.Parallel()
	var w *till
	w = newTill(t, vault.Config{Runtime: given.Runtime(func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
		_, err := host.Call(ctx, "proxy.post", json.RawMessage(`{"proxyUrl":"`+w.url+`","detokenize":true,"body":"{{ card }}"}`))
		return map[string]any{"raw": map[string]any{"ok": true}}, err
	})})
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{bound(1, "/", w.to)}}))(t)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}, ApplicationID: app.ID}))(t)
	once := func() (bool, error) {
		_, replayed, err := w.Private.Once(t.Context(), vault.IdempotencyKey{Scope: "s", Key: "k"}, func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
			out, err := c.React(ctx, reactor.ID, vault.ReactParams{})
			if err != nil {
				return vault.StoredResponse{}, err
			}
			return vault.StoredResponse{Status: 200, Body: out.Raw}, nil
		})
		return replayed, err
	}
	for _, want := range []bool{false, true} {
		given.Same(t, "replayed", must.Get(once())(t), want)
	}
	params := app.Params()
	params.Rules[0].Destinations = []string{"x.test"}
	must.Get(w.Owner.ReplaceApplication(t.Context(), app.ID, params))(t)
	must.Match(t, "a replay after the destination is gone", must.Err(once()), vault.ErrForbidden)
}

// upload is a body whose sender does something before it arrives.
type upload struct {
	io.Reader
	before func()
}

func (u *upload) Read(p []byte) (int, error) {
	u.before()
	u.before = func() {}
	return u.Reader.Read(p)
}

// A request whose body arrives slowly has the rights that its caller has at the end.
func TestRightsAreCutWhileABodyArrives(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	for name, test := range map[string]struct {
		cut  func(app *vault.Client) error
		want error
	}{
		"nothing": {func(*vault.Client) error { return nil }, nil},
		"the path": {func(app *vault.Client) error {
			return must.Err(w.Owner.PatchApplication(t.Context(), app.ApplicationID(), map[string]any{"rules": []vault.AccessRule{bound(1, "/", "POST "+w.to+"/v1/charges")}}))
		}, vault.ErrForbidden},
		"the key": {func(app *vault.Client) error {
			return must.Err(w.Owner.RegenerateKey(t.Context(), app.ApplicationID()))
		}, vault.ErrUnauthenticated},
		"the application": {func(app *vault.Client) error { return w.Owner.DeleteApplication(t.Context(), app.ApplicationID()) }, vault.ErrUnauthenticated},
		"the token":       {func(*vault.Client) error { return w.Private.DeleteToken(t.Context(), "slow") }, vault.ErrInvalid},
		"its lifetime":    {func(*vault.Client) error { w.Clock.Advance(2 * time.Hour); return nil }, vault.ErrInvalid},
	} {
		_ = w.Private.DeleteToken(t.Context(), "slow") // it may be gone
		end := w.Clock.Now().Add(time.Hour)
		given.Create(t, w.Private, vault.TokenParams{ID: "slow", Type: vault.TypeGeneric, Data: "a secret text", ExpiresAt: end})
		app, key := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", w.to)})
		w.got = nil
		body := &upload{strings.NewReader("{{ slow }}"), func() { must.Do(t, test.cut(app)) }}
		_, err := w.charge(t.Context(), given.Authenticated(t, w.Vault.Vault, key), vault.ProxyCall{Method: "POST", Path: "/v1/refunds", Body: body, Header: http.Header{"Content-Type": {"text/plain"}}})
		must.Match(t, name, err, test.want)
		given.Same(t, name+": it arrived", w.got != nil, test.want == nil)
	}
}
