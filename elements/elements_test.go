package elements_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

const visa = "4242424242424242"

func TestPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *elements.Options) {
		o.Networks = func(string) []string { return []string{"visa", "cartes_bancaires", "<b>"} }
	})
	id, _ := w.newCard(visa).body["id"].(string)
	read := must.Get(w.Private.GetToken(t.Context(), id))(t)
	must.Same(t, "the token is there", id, read.ID)
	create := `{"type":"token","data":"secret text"}`
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/elements.js", "", 200}, {"GET", "/frame", "", 200}, {"GET", "/frame.js", "", 200}, {"GET", "/frame.css", "", 200}, {"HEAD", "/elements.js", "", 200},
		{"POST", "/sessions", "", 201}, {"POST", "/tokens", create, 201}, {"POST", "/tokens/", create, 201},
		{"PATCH", "/tokens/" + id, `{"data":{"cvc":"999"}}`, 200}, {"GET", "/tokens/" + id, "", 403},
		{"POST", "/networks", `{"bin":"424242"}`, 200}, {"POST", "/networks", `{"bin":"42424"}`, 400}, {"POST", "/networks", `{"bin":424242}`, 400},
		{"POST", "/networks", `{"bin":"424242424"}`, 400}, {"POST", "/networks", `[]`, 400},
		// Everything else.
		{"GET", "/", "", 404}, {"POST", "/elements.js", "", 404}, {"POST", "/frame", "", 404}, {"GET", "/frame/", "", 404}, {"GET", "/tokens", "", 404},
		{"DELETE", "/tokens/" + id, "", 404}, {"PUT", "/tokens/" + id, "", 404}, {"POST", "/tokens/search", "{}", 404}, {"GET", "/tokens/search", "", 404},
		{"PATCH", "/tokens/import", "{}", 404}, {"POST", "/tokenize", `"x"`, 404}, {"POST", "/detokenize", `"x"`, 404}, {"POST", "/sessions/authorize", "{}", 404},
		{"GET", "/sessions", "", 404}, {"GET", "/applications/key", "", 404}, {"GET", "/openapi.json", "", 404}, {"GET", "/healthz", "", 404}, {"GET", "/readyz", "", 404},
		{"GET", "/proxy", "", 404}, {"OPTIONS", "/tokens", "", 404}, {"POST", "//tokens", create, 404}, {"GET", "/tokens/a/b", "", 404}, {"GET", "/page/frame.js", "", 404},
	} {
		r := w.send(w.el, c.method, c.path, w.PublicKey, c.body)
		must.Same(t, c.method+" "+c.path+" "+c.body+": "+r.text, c.want, r.status)
		must.Same(t, c.path+": sniffing", "nosniff", r.header.Get("X-Content-Type-Options"))
		if strings.Contains(c.path, "token") || c.path == "/sessions" || c.path == "/networks" {
			for _, site := range []string{"", "none", "same-site", "cross-site", "same-origin, same-origin"} {
				r := w.send(w.el, c.method, c.path, w.PublicKey, c.body, "Sec-Fetch-Site", site)
				want := http.StatusForbidden
				if c.want == 404 {
					want = 404
				}
				must.Same(t, c.method+" "+c.path+" from "+site, want, r.status)
				must.Same(t, "no page may read it", "", r.header.Get("Access-Control-Allow-Origin"))
			}
		}
	}
	must.Same(t, "networks", `{"networks":["visa","cartes_bancaires"]}`, w.send(w.el, "POST", "/networks", w.PublicKey, `{"bin":"42424242"}`).text)
	must.Same(t, "networks without a key", http.StatusUnauthorized, w.send(w.el, "POST", "/networks", "", `{"bin":"42424242"}`).status)
	must.Same(t, "networks with a private key", http.StatusUnauthorized, w.send(w.el, "POST", "/networks", w.PrivateKey, `{"bin":"42424242"}`).status)
	must.Do(t, w.Vault.Vault.Close())
	must.Same(t, "networks without a vault", w.send(w.el, "POST", "/tokens", w.PublicKey, create).status, w.send(w.el, "POST", "/networks", w.PublicKey, `{"bin":"42424242"}`).status)
	plain := newWorld(t, nil)
	must.Same(t, "without Networks", 404, plain.send(plain.el, "POST", "/networks", "", `{"bin":"42424242"}`).status)
}

func TestHeadersOfTheFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *elements.Options) {
		o.Origins = append(o.Origins, "https://shop.example:8443")
		o.AuthorizeURL = "https://shop.example/a;b"
	})
	r := w.send(w.el, "GET", "/frame", "", "")
	must.Same(t, "the policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' https://shop.example/a%3Bb; frame-ancestors "+
		w.origin+" https://shop.example:8443; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		r.header.Get("Content-Security-Policy"))
	for name, want := range map[string]string{
		"Referrer-Policy": "no-referrer", "Origin-Agent-Cluster": "?1", "Cache-Control": "no-store", "X-Frame-Options": "", "Set-Cookie": "",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		must.Same(t, name, want, r.header.Get(name))
	}
	for _, inline := range []string{"<style", " style=", "<script>", " onload", "javascript:"} {
		must.Lack(t, "the frame", r.text, inline)
	}
	must.Contain(t, "the frame", r.text, `&#34;site&#34;:&#34;shop.example&#34;`)
	for address, site := range map[string]string{
		"https://pay.shop.example.co.uk/x": `&#34;site&#34;:&#34;example.co.uk&#34;`, "https://me.github.io/x": `&#34;site&#34;:&#34;me.github.io&#34;`,
		"https://github.io/x": "", "http://localhost:3000/x": "", "http://127.0.0.1:3000/x": "", "http://[::1]:3000/x": "",
	} {
		o := newWorld(t, func(o *elements.Options) { o.AuthorizeURL = address })
		text := o.send(o.el, "GET", "/frame", "", "").text
		must.Same(t, "the site of "+address, site != "", strings.Contains(text, `&#34;site&#34;`))
		must.Contain(t, "the site of "+address, text, site)
	}
	script := w.send(w.el, "GET", "/elements.js", "", "")
	must.Same(t, "any page may check the script", "*", script.header.Get("Access-Control-Allow-Origin"))
	again := w.send(w.el, "GET", "/elements.js", "", "", "If-None-Match", script.header.Get("Etag"))
	must.Same(t, "the script is known", http.StatusNotModified, again.status)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	v := newWorld(t, nil)
	good := []string{"https://shop.example"}
	for text, o := range map[string]*elements.Options{
		"Options.Origins is empty":         {},
		"* in Options.Origins":             {Origins: []string{"https://shop.example", "*"}},
		`"https://shop.example/"`:          {Origins: []string{"https://shop.example/"}},
		`"https://shop.example/pay"`:       {Origins: []string{"https://shop.example/pay"}},
		`"https://*.example"`:              {Origins: []string{"https://*.example"}},
		`"shop.example"`:                   {Origins: []string{"shop.example"}},
		`"https://Shop.example"`:           {Origins: []string{"https://Shop.example"}},
		`"https://shop.example:443"`:       {Origins: []string{"https://shop.example:443"}},
		`"https://a.example; script-src"`:  {Origins: []string{"https://a.example; script-src"}},
		`"https://u@shop.example"`:         {Origins: []string{"https://u@shop.example"}},
		`"null"`:                           {Origins: []string{"null"}},
		`""`:                               {Origins: []string{""}},
		"AuthorizeURL must be an https":    {Origins: good, AuthorizeURL: "http://shop.example/authorize"},
		"AuthorizeURL must be an https U":  {Origins: good, AuthorizeURL: "/authorize"},
		"AuthorizeURL must be an https UR": {Origins: good, AuthorizeURL: "https://shop.example/a?b=c"},
		"Options.Prefix":                   {Origins: good, Prefix: "a b"},
	} {
		must.Fail(elements.Handler(v.Vault.Vault, o))(t, text, must.Text(text))
	}
	must.Fail(elements.Handler(v.Vault.Vault, nil))(t, "nil options", must.Text("Options.Origins is empty"))
	for _, o := range []*elements.Options{
		{Origins: []string{"https://shop.example", "http://127.0.0.1:8080", "http://[::1]:8080", "http://localhost"}},
		{Origins: good, AuthorizeURL: "http://127.0.0.1:9/x"}, {Origins: good, AuthorizeURL: "https://shop.example:444/x/"},
	} {
		must.Get(elements.Handler(v.Vault.Vault, o))(t)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	other := newWorld(t, nil)
	w := newWorld(t, func(o *elements.Options) { o.Tenant = other.Acme.ID })
	body := `{"type":"token","data":"secret text"}`
	for name, c := range map[string]struct {
		w      *world
		key    string
		status int
	}{
		"no key":                 {other, "", 401},
		"a mistyped key":         {other, "key_pub_" + strings.Repeat("1", 38), 401},
		"not a key":              {other, "secret", 401},
		"a private key":          {other, other.PrivateKey, 403},
		"a management key":       {other, other.ManagementKey, 403},
		"another tenant's key":   {w, w.PublicKey, 401},
		"the tenant's own key":   {other, other.PublicKey, 201},
		"a key of another vault": {other, w.PublicKey, 401},
	} {
		r := c.w.send(c.w.el, "POST", "/tokens", c.key, body)
		must.Same(t, name+": "+r.text, c.status, r.status)
	}
	must.Contain(t, "a private key", other.send(other.el, "POST", "/tokens", other.PrivateKey, body).text, "regenerate")
	r := other.send(other.el, "POST", "/tokens", other.PublicKey, body, "Svc-Api-Key", "")
	must.Same(t, "two keys or none", 401, r.status)
}

// TestFields sends every field that the API takes. Elements take few of them, and show
// few.
func TestFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	shown := []string{"containers", "created_at", "data", "expires_at", "id", "metadata", "type"}
	full := `{"type":"card","data":{"number":"4242424242424242","cvc":"123"},"containers":["/pci/high/"],"metadata":{"order":"7"},"expires_at":"2030-01-01T00:00:00Z"}`
	r := w.send(w.el, "POST", "/tokens", w.PublicKey, full, "Svc-Idempotency-Key", "1")
	must.Same(t, r.text, http.StatusCreated, r.status)
	must.Same(t, "fields", shown, r.names())
	must.Same(t, "no response is stored", "", w.send(w.el, "POST", "/tokens", w.PublicKey, full, "Svc-Idempotency-Key", "1").header.Get("Svc-Idempotent-Replayed"))

	// The fields that the API takes, from the type that describes them.
	text := must.Get(json.Marshal(vault.TokenParams{ID: "abc", Type: "token", Data: "d", Mask: "m", Containers: []string{"/a/"}, Metadata: map[string]string{"a": "b"},
		SearchIndexes: []string{"{{ data }}"}, FingerprintExpression: "{{ data }}", DeduplicateToken: new(bool), ExpiresAt: time.Now()}))(t)
	var all map[string]json.RawMessage
	must.Do(t, json.Unmarshal(text, &all))
	must.Same(t, "fields of the API", 10, len(all))
	for name, value := range all {
		allowed := strings.Contains("type data containers metadata expires_at", name)
		object := map[string]json.RawMessage{"type": json.RawMessage(`"token"`), "data": json.RawMessage(`"secret text"`)}
		if object[name] = value; name == "containers" {
			object[name] = json.RawMessage(`["/general/high/"]`)
		}
		r := w.send(w.el, "POST", "/tokens", w.PublicKey, string(must.Get(json.Marshal(object))(t)))
		if allowed != (r.status == 201) {
			t.Errorf("create with %s: %d %s", name, r.status, r.text)
		}
		if !allowed {
			must.Contain(t, name, r.text, `"`+name+`":["is not a field that elements take`)
		}
		id, _ := w.newCard(visa).body["id"].(string)
		r = w.send(w.el, "PATCH", "/tokens/"+id, w.PublicKey, `{"`+name+`":`+string(value)+`}`)
		if patched := name == "metadata"; patched != (r.status == 200) {
			t.Errorf("patch of %s: %d %s", name, r.status, r.text)
		}
	}
	id, _ := w.newCard(visa).body["id"].(string)
	for body, want := range map[string]int{
		`{"data":{"cvc":"999"}}`: 200, `{"data":{"cvc":"999","number":"4000000000000002"}}`: 400, `{"data":{"number":"4000000000000002"}}`: 400,
		`{"data":{}}`: 400, `{"data":"x"}`: 400, `{"Data":{"cvc":"1"}}`: 400, `null`: 400, `[]`: 400, `{`: 400, `{"data":{"cvc":"12345"}}`: 400,
		`{"metadata":{"a":"` + strings.Repeat("x", 70_000) + `"}}`: 413,
	} {
		r := w.send(w.el, "PATCH", "/tokens/"+id, w.PublicKey, body)
		must.Same(t, "patch "+body[:min(len(body), 60)]+": "+r.text, want, r.status)
	}
	for _, twice := range []string{`{"type":"token","type":"token","data":"secret text"}`, `{"type":"token","data":"a secret","data":"secret text"}`, ` {} `} {
		must.Same(t, "create "+twice, 400, w.send(w.el, "POST", "/tokens", w.PublicKey, twice).status)
	}
	must.Same(t, "spaces around", 201, w.send(w.el, "POST", "/tokens", w.PublicKey, " {\"type\": \"token\", \"data\": \"secret text\"}\r\n\t").status)
	for _, twice := range []string{`{"metadata":{"a":"b"},"metadata":{"a":"b"}}`, `{"data":{"cvc":"111"},"data":{"cvc":"222"}}`, `{"data":{"cvc":"111","cvc":"222"}}`} {
		must.Same(t, "patch "+twice, 400, w.send(w.el, "PATCH", "/tokens/"+id, w.PublicKey, twice).status)
	}
	session := w.send(w.el, "POST", "/sessions", w.PublicKey, "")
	key, _ := session.body["session_key"].(string)
	nonce, _ := session.body["nonce"].(string)
	must.Do(t, w.Private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: nonce, Permissions: []vault.Permission{"token:read"}}))
	got := w.send(w.el, "GET", "/tokens/"+id+"?transform=true", key, "")
	must.Same(t, got.text, http.StatusOK, got.status)
	must.Same(t, "fields of a read", []string{"containers", "created_at", "data", "id", "type"}, got.names())
}

func TestLogAndLimitsAreTheAPIs(t *testing.T) {
	t.Parallel()
	costs := 0
	w := newWorld(t, func(o *elements.Options) {
		o.Networks = func(string) []string { return nil }
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		o.RateLimit = func(_ *http.Request, _ *vault.Client, cost int) (time.Duration, bool) {
			costs += cost
			return 7 * time.Second, costs < 3
		}
	})
	body := `{"type":"token","data":"secret text"}`
	r := w.send(w.el, "POST", "/tokens", w.PublicKey, body, "X-Forwarded-For", "203.0.113.9")
	must.Same(t, r.text, http.StatusCreated, r.status)
	logs := must.Get(w.Owner.ListLogs(t.Context(), vault.ListLogsParams{EntityType: "token", Operation: "create"}))(t)
	must.Same(t, "the origin in the log", "203.0.113.9", logs.Data[0].Origin)
	w.send(w.el, "POST", "/tokens", w.PublicKey, body)
	r = w.send(w.el, "POST", "/tokens", w.PublicKey, body)
	must.Same(t, r.text, http.StatusTooManyRequests, r.status)
	must.Same(t, "when to try again", "7", r.header.Get("Retry-After"))
	r = w.send(w.el, "POST", "/networks", w.PublicKey, `{"bin":"42424242"}`)
	must.Same(t, r.text, http.StatusTooManyRequests, r.status)
	must.Same(t, "when to try again", "7", r.header.Get("Retry-After"))
}

// unread is a body whose reading fails the test.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestStrangersSendNoBodies checks that a caller who is refused whatever the body is does
// not keep the server waiting for it.
func TestStrangersSendNoBodies(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	rights := []vault.AccessRule{{Priority: 1, Container: "/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create", "token:update"}}}
	_, key := v.NewApplication(t, v.Owner, vault.ApplicationPublic, rights)
	limited := false
	h := must.Get(elements.Handler(v.Vault, &elements.Options{
		Origins: []string{"https://shop.example"}, Networks: func(string) []string { return nil },
		RateLimit: func(*http.Request, *vault.Client, int) (time.Duration, bool) { return 0, !limited },
	}))(t)
	send := func(method, path, key string, want int) {
		r := httptest.NewRequest(method, path, unread{t})
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Content-Type", "application/merge-patch+json")
		r.Header.Set("SVC-API-KEY", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		must.Same(t, method+" "+path, want, w.Code)
	}
	calls := [][2]string{{"POST", "/tokens"}, {"PATCH", "/tokens/a"}, {"POST", "/networks"}}
	for _, call := range calls {
		send(call[0], call[1], "key_pub_7sQuAHmKzJ9Zs5mXy3oJcQ", http.StatusUnauthorized)
	}
	creator := must.Get(v.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "creator", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	send("PATCH", "/tokens/a", creator.Key, http.StatusForbidden)
	limited = true
	for _, call := range calls {
		send(call[0], call[1], key, http.StatusTooManyRequests)
	}
}

// TestSize checks the sizes that docs/elements.md promises.
func TestSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	size := func(paths ...string) (total int) {
		for _, path := range paths {
			req := must.Get(http.NewRequestWithContext(t.Context(), "GET", w.el.URL+path, nil))(t)
			req.Header.Set("Accept-Encoding", "gzip")
			res := must.Get(http.DefaultClient.Do(req))(t)
			text := must.Get(io.ReadAll(res.Body))(t)
			res.Body.Close()
			total += len(text)
			if path == "/frame" {
				continue
			}
			must.Same(t, path, "gzip", res.Header.Get("Content-Encoding"))
			plain := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(text)))(t)))(t)
			must.Same(t, path, string(must.Get(os.ReadFile("page"+path))(t)), string(plain))
		}
		return total
	}
	script, frame := size("/elements.js"), size("/frame", "/frame.js", "/frame.css")
	t.Logf("elements.js has %d bytes, the frame has %d", script, frame)
	if script > 12_000 || frame > 30_000 {
		t.Errorf("elements.js has %d bytes, the frame has %d", script, frame)
	}
	must.Same(t, "the form of the integrity", 7+64, len(elements.Integrity()))
}
