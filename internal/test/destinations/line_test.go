package destinations_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// permits is an independent reading of a destination: a regular expression over the
// method and the path of a request line.
func permits(destination, to, method, target string) bool {
	methods, rest, ok := strings.Cut(destination, " ")
	if !ok {
		methods, rest = "[^ ]*", destination
	}
	path, limited := strings.CutPrefix(rest, to+"/")
	pattern := ".*"
	target, _, _ = strings.Cut(target, "?")
	if limited {
		if regexp.MustCompile(`(?i)//|;|\\|%(3b|25|2f|5c|[01][0-9a-f]|7f)`).MatchString(target) {
			return false
		}
		target = regexp.MustCompile(`(?i)%(2d|2e|5f|7e|3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])`).ReplaceAllStringFunc(target, func(s string) string { text, _ := url.PathUnescape(s); return text })
		if regexp.MustCompile(`/\.+(/|$)`).MatchString(target) {
			return false
		}
		if pattern, ok = strings.CutSuffix("/"+path, "/**"); ok {
			pattern = strings.ReplaceAll(pattern, "*", "[^/]+") + "(/.*)?"
		} else {
			pattern = strings.ReplaceAll("/"+path, "*", "[^/]+")
		}
	}
	return regexp.MustCompile(`^(` + strings.ReplaceAll(methods, ",", "|") + `) (` + pattern + `)$`).MatchString(method + " " + target)
}

// The request line that the destination reads is the line that was judged, by every
// way to send it. The line of a request without tokens, which no rule judges, tells
// what is sent.
func TestTheLineThatIsSentIsTheLineThatIsJudged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(33, 1))
	g := newGate(t, vault.Config{})
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	path := func() (out string) {
		for range r.IntN(4) {
			out += pick("/", "//") + pick("v1", "V1", "a", "%61", "..", ".", "%2e%2E", "%2E", "a%2fb", "a%5Cb", "a;b", "a%3bb", "..;x", "%25", "%2561", "%00", "...", "", "caf%C3%A9", "~b", "%7eb", "a:b", "@x", "*", "refund")
		}
		return out + pick("", "", "/")
	}
	arrived, refused := 0, 0
	for n := range long.Rounds(150, 5000) {
		destination := pick("", "", "GET ", "POST ", "GET,POST ", "PATCH ") + g.to + pick("", "/", "/**", "/v1/**", "/v1", "/v1/*", "/a/*/refund", "/*", "/*/a/**", "/a", "/caf%C3%A9", "/~b", "/v1/")
		_, pass := g.NewApplication(t, g.Owner, vault.ApplicationPrivate, []vault.AccessRule{bound(1, "/", destination)})
		key := given.Authenticated(t, g.Vault.Vault, pass)
		stored, method, suffix, query := pick("", "", "/v1", "/a/", "/v1/%61"), pick("GET", "POST", "PATCH", "get", "Post", "DELETE", "X-Y"), path(), pick("", "", "q=/../v1", "a?b;c")
		ways := map[string]func(authorization string) error{
			"InvokeProxy": func(authorization string) error {
				_, err := g.charge(t.Context(), key, vault.ProxyCall{URL: g.url + stored, Path: suffix, Query: query, Method: method, Header: http.Header{"Authorization": {authorization}}})
				return err
			},
			"RoundTripper": func(authorization string) error {
				u, err := url.Parse(g.url + stored + suffix)
				if err != nil {
					return err
				}
				u.RawQuery = query
				if n%3 == 0 {
					u.RawPath = suffix // which net/http uses only if it fits Path
				}
				req := must.Get(http.NewRequestWithContext(t.Context(), method, g.url, nil))(t)
				req.URL, req.Header = u, http.Header{"Authorization": {authorization}}
				base := &http.Transport{TLSClientConfig: g.cert}
				defer base.CloseIdleConnections()
				res, err := key.RoundTripper(base).RoundTrip(req)
				if err == nil {
					err = res.Body.Close()
				}
				return err
			},
			"the forward proxy": func(authorization string) error {
				conn := g.tunnelTo(t, pass, g.to)
				target := suffix
				if !strings.HasPrefix(target, "/") {
					target = "/" + target
				}
				if query != "" {
					target += "?" + query
				}
				if n%4 == 0 {
					target = g.url + target
				}
				fmt.Fprintf(conn, "%s %s HTTP/1.%d\r\nHost: %s\r\nAuthorization: %s\r\nConnection: close\r\n\r\n", method, target, n%2, g.to, authorization)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					return err
				}
				defer res.Body.Close()
				if text := must.Get(io.ReadAll(res.Body))(t); res.StatusCode >= 400 {
					return errors.New(string(text))
				}
				return nil
			},
		}
		for name, send := range ways {
			what := fmt.Sprintf("%s, %s: %s %q %q %q", name, destination, method, stored, suffix, query)
			g.got = nil
			if err := send("none"); err != nil {
				given.Same(t, what+": a refused request arrived", g.got == nil, true)
				continue // whatever the rules say
			}
			line := g.got.Method + " " + g.got.RequestURI
			g.got = nil
			err := send("Bearer {{ secret }}")
			if want := permits(destination, g.to, strings.Split(line, " ")[0], strings.SplitN(line, " ", 2)[1]); (err == nil) != want {
				t.Fatalf("%s, %s: %v, want it permitted: %v", what, line, err, want)
			}
			if err != nil {
				refused++
				must.Contain(t, what, err.Error(), "limited to requests to "+destination)
				given.Same(t, what+": a refused request arrived", g.got == nil, true)
				continue
			}
			arrived++
			given.Same(t, what, g.got.Method+" "+g.got.RequestURI+" "+g.got.Header.Get("Authorization"), line+" Bearer sk_live_secret")
		}
	}
	t.Logf("%d arrived, %d were refused", arrived, refused)
	if min(arrived, refused) < long.Rounds(25, 800) {
		t.Errorf("the requests are not varied: %d arrived, %d were refused", arrived, refused)
	}
}

// A redirect is judged by its own request line.
func TestRedirectsAreJudged(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	key := given.Private(t, w.Vault, bound(1, "/", "POST "+w.to+"/v1/charges"))
	w.answer = func(rw http.ResponseWriter, r *http.Request, _ string) {
		http.Redirect(rw, r, "/v1/refunds", http.StatusTemporaryRedirect)
	}
	client := &http.Client{Transport: key.RoundTripper(&http.Transport{TLSClientConfig: w.cert})}
	req := must.Get(http.NewRequestWithContext(t.Context(), "POST", w.url+"/v1/charges", strings.NewReader(cardExpression)))(t)
	req.Header.Set("Content-Type", "application/json")
	must.Match(t, "the redirect", must.Err(client.Do(req)), vault.ErrForbidden)
	given.Same(t, "the last request", w.got.URL.Path, "/v1/charges")
}

// Stored proxies, the REST API and code are judged by the line that is sent, in which the
// path of a proxy precedes the path of the caller.
func TestOtherWaysAreJudgedByTheirLines(t *testing.T) {
	t.Parallel()
	var w *till
	var method, path string
	w = newTill(t, vault.Config{Runtime: given.Runtime(func(ctx context.Context, _ map[string]any, host script.Host) (any, error) {
		_, err := host.Call(ctx, "proxy."+strings.ToLower(method), must.Get(json.Marshal(map[string]any{"proxyUrl": w.url + "/v1", "path": path, "detokenize": true, "body": "{{ card }}"}))(t))
		return nil, err
	})})
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "A", Type: vault.ApplicationPrivate,
		Rules: []vault.AccessRule{bound(1, "/", "POST "+w.to+"/v1/charges/*")}}))(t)
	key := given.Authenticated(t, w.Vault.Vault, app.Key)
	x := must.Get(w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: w.url + "/v1/"}))(t)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: given.Code, ApplicationID: app.ID}))(t)
	rest := httptest.NewServer(httpserver.Handler(w.Vault.Vault, nil))
	defer rest.Close()
	ways := map[string]func(){
		"a stored proxy": func() {
			call := cardCall()
			call.Key, call.Method, call.Path = x.Key, method, path
			_ = must.Err(w.charge(t.Context(), key, call)) // the destination tells
		},
		"/proxy": func() {
			req := must.Get(http.NewRequestWithContext(t.Context(), method, rest.URL+"/proxy"+path, strings.NewReader(cardExpression)))(t)
			req.Header = http.Header{"Content-Type": {"application/json"}, "Svc-Api-Key": {app.Key}, "Svc-Proxy-Key": {x.Key}}
			must.Do(t, must.Get(rest.Client().Do(req))(t).Body.Close())
		},
		"code": func() { _ = must.Err(w.Private.React(t.Context(), reactor.ID, vault.ReactParams{})) },
	}
	for line, want := range map[string]string{
		"POST /charges/1": "POST /v1/charges/1", "POST /charges/%31": "POST /v1/charges/%31", "PUT /charges/1": "", "POST /charges": "",
		"POST /charges/1/": "", "POST /charges/1/refund": "", "POST /charges/%2e%2e": "", "POST /charges/1%2f2": "", "POST /charges/1;2": "", "POST /Charges/1": "",
	} {
		for name, send := range ways {
			w.got = nil
			method, path, _ = strings.Cut(line, " ")
			send()
			got := ""
			if w.got != nil {
				got = w.got.Method + " " + w.got.RequestURI
				must.Contain(t, name+": "+line, w.body, given.Visa)
			}
			given.Same(t, name+": "+line, got, want)
		}
	}
}

// A token in two containers, a session and its authorizer: each list is asked.
func TestEachListOfDestinationsIsAsked(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	given.Create(t, w.Private, vault.TokenParams{ID: "both", Type: vault.TypeGeneric, Data: "a secret text", Containers: []string{"/a/", "/b/"}})
	given.Create(t, w.Private, vault.TokenParams{ID: "none", Type: vault.TypeGeneric, Data: "a secret text", Containers: []string{"/a/", "/c/"}})
	key := given.Private(t, w.Vault, bound(1, "/a/", "GET,POST "+w.to), bound(2, "/b/", "PUT "+w.to, w.to+"/v1/*"), bound(3, "/c/", "PUT "+w.to, "x.test"))
	for line, want := range map[string]bool{"POST /v1/x": true, "PUT /v1/x": false, "POST /v1": false, "PUT /": false, "GET /v1/y": true} {
		method, path, _ := strings.Cut(line, " ")
		_, err := w.charge(t.Context(), key, vault.ProxyCall{Method: method, Path: path, Header: http.Header{"X-Key": {"{{ both }}"}}})
		given.WantAllowed(t, line, err, want)
		if !want {
			must.Contain(t, line, err.Error(), "limited to requests to GET,POST "+w.to+"/v1/*")
		}
	}
	_, err := w.charge(t.Context(), key, vault.ProxyCall{Header: http.Header{"X-Key": {"{{ none }}"}}})
	must.Match(t, "nothing in common", err, vault.ErrForbidden)
	must.Contain(t, "nothing in common", err.Error(), "no destination in common: GET,POST "+w.to+"; PUT "+w.to+", x.test")
}

// Credentials of Basic are filled in and encoded again, and nothing of them comes
// back, at whatever place and in whichever alphabet base64 writes them.
func TestBasicCredentials(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	given.Create(t, g.Private, vault.TokenParams{ID: "odd", Type: vault.TypeGeneric, Data: "p??ss>>wörd~~"})
	given.Create(t, g.Private, vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: "abcde"})
	given.Create(t, g.Private, vault.TokenParams{ID: "line", Type: vault.TypeGeneric, Data: "two\nlines"})
	encode := base64.StdEncoding.EncodeToString
	g.answer = func(rw http.ResponseWriter, r *http.Request, _ string) {
		value := r.Header.Get("Authorization")
		rw.Header().Set("X-Auth", value)
		plain, _ := base64.StdEncoding.DecodeString(value[strings.LastIndex(value, " ")+1:]) // r.BasicAuth takes one space only
		_, password, _ := strings.Cut(string(plain), ":")
		fmt.Fprintln(rw, value)
		for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			for _, around := range []string{"", "x", "xy", "xyz"} {
				fmt.Fprintln(rw, coding.EncodeToString([]byte(around+password)), coding.EncodeToString([]byte(around+password+around+"z")), url.QueryEscape(coding.EncodeToString([]byte(password+around))))
			}
		}
	}
	c := g.client(t, g.pass)
	for _, test := range []struct{ header, want, token string }{
		{"Basic " + encode([]byte("x:{{ secret }}")), "Basic " + encode([]byte("x:sk_live_secret")), "secret"},
		{"bAsIc  " + encode([]byte("{{secret}}:{{ odd }}")), "bAsIc  " + encode([]byte("sk_live_secret:p??ss>>wörd~~")), "secret"},
		{"Basic " + encode([]byte("x:{{ short }}")), "Basic " + encode([]byte("x:abcde")), "short"}, // too short to be searched for on its own
		{"Basic " + strings.TrimRight(encode([]byte("xy:{{ secret }}")), "=") + "=", "", ""},        // too much padding
		{"Basic " + base64.RawStdEncoding.EncodeToString([]byte("x:{{ secret }}")), "", ""},
		{"Basic " + base64.URLEncoding.EncodeToString([]byte("~?>:{{ secret }}")), "", ""},
		{"Basic " + strings.Replace(encode([]byte("x:{{ secret }}")), "0=", "1=", 1), "", ""}, // bits that do not count
		{"Basic\t" + encode([]byte("x:{{ secret }}")), "", ""},
		{"Basic " + encode([]byte("{{ secret }}")), "", ""},
		{"Basic " + encode([]byte("x:{{ secret }}\xff")), "", ""},
		{"Digest " + encode([]byte("x:{{ secret }}")), "", ""},
		{"Basic {{ secret }}", "", ""},
		{"basic x:{{ secret }}", "", ""},
	} {
		for name, send := range map[string]func() (http.Header, string){
			"the forward proxy": func() (http.Header, string) {
				req := g.request(t, "GET", "/", nil)
				req.Header.Set("Authorization", test.header)
				res, body := do(t, c, req)
				return res.Header, body
			},
			"RoundTripper": func() (http.Header, string) {
				req := g.request(t, "GET", "/", nil)
				req.Header.Set("Authorization", test.header)
				base := &http.Transport{TLSClientConfig: g.cert}
				defer base.CloseIdleConnections()
				res, body := do(t, &http.Client{Transport: g.key.RoundTripper(base)}, req)
				return res.Header, body
			},
			"InvokeProxy": func() (http.Header, string) {
				reply := must.Get(g.charge(t.Context(), g.key, vault.ProxyCall{Header: http.Header{"Authorization": {test.header}}}))(t)
				return reply.Header, reply.body
			},
		} {
			header, body := send()
			want := test.want
			if want == "" {
				want = strings.TrimRight(test.header, " ")
			}
			given.Same(t, name+": "+test.header, g.got.Header.Get("Authorization"), want)
			if test.want == "" {
				continue
			}
			for _, text := range append(strings.Fields(body), header.Get("X-Auth")) {
				for _, secret := range []string{"sk_live_secret", "p??ss>>wörd~~"} {
					for at := range 3 {
						plain, _ := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "%2B", "+", "%2F", "/", "%3D", "", "=", "").Replace(strings.Repeat("A", at) + text)) // as far as it is base64
						must.Lack(t, name+": "+text, string(plain), secret[:6])
						must.Lack(t, name+": "+text, string(plain), secret[len(secret)-6:])
					}
				}
			}
			scheme := test.want[:strings.LastIndex(test.want, " ")+1]
			given.Same(t, name+": the header", header.Get("X-Auth"), scheme+"{{ "+test.token+" }}")
		}
	}
	for name, header := range map[string]http.Header{
		"a value with a control character": {"Authorization": {"Basic " + encode([]byte("x:{{ line }}"))}},
		"a control character beside it":    {"Authorization": {"Basic " + encode([]byte("x\x07:{{ secret }}"))}},
	} {
		must.Match(t, name, must.Err(g.charge(t.Context(), g.key, vault.ProxyCall{Header: header})), vault.ErrInvalid)
	}
	must.Get(g.charge(t.Context(), g.key, vault.ProxyCall{Header: http.Header{"Proxy-Authorization": {"Basic " + encode([]byte("x:{{ secret }}"))}, "X-A": {"Basic " + encode([]byte("x:{{ secret }}")), "{{ secret }}"}}}))(t)
	given.Same(t, "Proxy-Authorization", g.got.Header.Get("Proxy-Authorization"), "")
	base := &http.Transport{TLSClientConfig: g.cert}
	defer base.CloseIdleConnections()
	req, sent := g.request(t, "GET", "/", nil), []string{"Basic " + encode([]byte("x:{{ secret }}")), "Bearer {{ secret }}"}
	req.Header = http.Header{"Authorization": {"Bearer {{ secret }}"}, "Proxy-Authorization": sent}
	proxied := g.got.Header
	do(t, &http.Client{Transport: g.key.RoundTripper(base)}, req)
	given.Same(t, "Proxy-Authorization of a RoundTripper", fmt.Sprint(g.got.Header["Proxy-Authorization"], g.got.Header["Authorization"]), fmt.Sprint(sent, []string{"Bearer sk_live_secret"}))
	given.Same(t, "another header", slices.Equal(proxied["X-A"], []string{"Basic " + encode([]byte("x:{{ secret }}")), "sk_live_secret"}), true)
}
