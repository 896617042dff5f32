package destinations_test

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// till is a vault with a card, a destination behind TLS, and a key that may send
// the card to this destination only.
type till struct {
	*vaulttest.Vault
	key  *vault.Client
	to   string // host and port of the destination
	url  string
	conn atomic.Int64 // connections to the destination
	cert *tls.Config  // trusts the destination

	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request, body string)
	got    *http.Request
	body   string
}

// bound returns a rule that lets token:use send data to destinations.
func bound(priority int, container string, destinations ...string) vault.AccessRule {
	r := given.Rule(priority, container, vault.TransformReveal, vault.PermissionTokenUse)
	r.Destinations = destinations
	return r
}

func newTill(t testing.TB, cfg vault.Config) *till {
	t.Helper()
	w := &till{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			w.conn.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	w.url, w.to = server.URL, strings.TrimPrefix(server.URL, "https://")
	cfg.Egress = vault.EgressPolicy{AllowPrivate: true, RootCAs: x509.NewCertPool()}
	cfg.Egress.RootCAs.AddCert(server.Certificate())
	w.cert = &tls.Config{RootCAs: cfg.Egress.RootCAs}
	w.Vault = vaulttest.Open(t, ":memory:", &cfg)
	w.key = given.Private(t, w.Vault, bound(1, "/", w.to))
	given.Create(t, w.Private, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "737", ExpirationMonth: 12, ExpirationYear: 2040}})
	return w
}

func (w *till) serve(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body is kept as it is
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.body = r, string(body)
	if w.answer != nil {
		w.answer(rw, r, string(body))
	}
}

// reply is a response with its body.
type reply struct {
	*vault.ProxyAnswer
	body string
}

// charge sends a body with the key.
func (w *till) charge(ctx context.Context, c *vault.Client, p vault.ProxyCall) (*reply, error) {
	if p.Key == "" && p.URL == "" {
		p.URL = w.url
	}
	if p.Header == nil {
		p.Header = http.Header{"Content-Type": {"application/json"}}
	}
	answer, err := c.InvokeProxy(ctx, p)
	if err != nil {
		return &reply{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return &reply{answer, string(body)}, err
}

const cardExpression = `{"number":"{{ card | json: '$.number' }}"}`

func cardCall() vault.ProxyCall {
	return vault.ProxyCall{Method: http.MethodPost, Body: strings.NewReader(cardExpression)}
}

// limited is the detail of a refusal.
func (w *till) limited(t testing.TB, what string, err error) {
	t.Helper()
	must.Match(t, what, err, vault.ErrForbidden)
	if want := "vault: the use of this token is limited to requests to " + w.to; err != nil && err.Error() != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// A bound use is refused wherever the caller or code would see the data.
func TestBoundUseShowsNothing(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{Runtime: given.Runtime(func(_ context.Context, in map[string]any, host script.Host) (any, error) {
		call := in["args"].(map[string]any)
		args, err := json.Marshal(call["args"])
		if err != nil {
			return nil, err
		}
		text := strings.NewReplacer("((", "{{", "))", "}}").Replace(string(args)) // the caller's own arguments must not be filled in
		out, err := host.Call(t.Context(), call["call"].(string), json.RawMessage(text))
		return map[string]any{"raw": map[string]any{"out": string(out), "err": fmt.Sprint(err)}}, nil
	})})
	app := must.Get(w.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "Code", Type: vault.ApplicationPrivate, Rules: []vault.AccessRule{bound(1, "/", w.to)}}))(t)
	reactor := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}, ApplicationID: app.ID}))(t)
	_, err := w.key.Detokenize(t.Context(), "{{ card }}")
	w.limited(t, "detokenize", err)
	_, err = w.key.Detokenize(t.Context(), map[string]string{"x": "{{ card | json: '$.expiration_month' }}"})
	w.limited(t, "detokenize a part", err)
	_, err = w.key.React(t.Context(), reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ card }}"}})
	w.limited(t, "react", err)
	_, err = w.key.ReactAsync(t.Context(), reactor.ID, vault.ReactParams{Args: map[string]string{"x": "{{ card }}"}, CallbackURL: w.url})
	w.limited(t, "react later", err)
	for _, err := range w.key.Export(t.Context(), nil) {
		w.limited(t, "export", err)
	}
	proxy := must.Get(w.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: w.url, RequestTransform: &vault.ProxyTransform{Code: "x"}}))(t)
	call := cardCall()
	call.Key = proxy.Key
	w.limited(t, "request transform", must.Err(w.charge(t.Context(), w.key, call)))
	code := func(call string, args any) string {
		t.Helper()
		out := must.Get(w.Private.React(t.Context(), reactor.ID, vault.ReactParams{Args: map[string]any{"call": call, "args": args}}))(t)
		return string(out.Raw)
	}
	must.Contain(t, "code", code("detokenize", map[string]string{"x": "(( card ))"}), "limited to requests to "+w.to)
	if w.conn.Load() > 0 {
		t.Errorf("%d connections", w.conn.Load())
	}
	w.answer = func(rw http.ResponseWriter, _ *http.Request, body string) { fmt.Fprint(rw, body) }
	got := code("proxy.post", map[string]any{"proxyUrl": w.url, "detokenize": true, "headers": map[string]string{"content-type": "application/json"}, "body": map[string]string{"number": "(( card | json: '$.number' ))"}})
	if !strings.Contains(w.body, given.Visa) || strings.Contains(got, given.Visa) || !strings.Contains(got, "{{ card }}") {
		t.Errorf("code sent %s and got %s", w.body, got)
	}
}

// A request to another host is refused before a connection is opened.
func TestBoundUseToAnotherHost(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{FullAudit: true})
	host, port, _ := net.SplitHostPort(w.to)
	key := given.Private(t, w.Vault, bound(1, "/", "api.stripe.com", "pay.test:"+port))
	for name, url := range map[string]string{
		"another":           w.url,
		"name before it":    "https://api.stripe.com.evil.example/",
		"name after it":     "https://evil-api.stripe.com/",
		"another port":      "https://api.stripe.com:444/",
		"an address":        "https://[::1]:" + port,
		"an address, short": "https://127.1:" + port,
		"punycode":          "https://xn--pi-6kc.stripe.com/",
		"user name":         "https://api.stripe.com@" + host + ":" + port,
		"http":              "http://api.stripe.com/",
		"Unicode":           "https://аpi.stripe.com/",
		"a label more":      "https://x.api.stripe.com/",
	} {
		call := cardCall()
		call.URL = url
		_, err := w.charge(t.Context(), key, call)
		if !errors.Is(err, vault.ErrForbidden) && !errors.Is(err, vault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, vault.ErrForbidden) && !strings.HasSuffix(err.Error(), "limited to requests to api.stripe.com, pay.test:"+port) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.conn.Load() > 0 {
		t.Errorf("%d connections", w.conn.Load())
	}
	denied := given.Messages(t, w.Owner.Client, vault.ListLogsParams{Operation: "denied"})
	must.Contain(t, "the log", strings.Join(denied, "\n"), "Denied: InvokeProxy to api.stripe.com.evil.example")
}

// The destination gets the data in body, headers and query, and not elsewhere.
func TestBoundRequestsAreFilledIn(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	given.Create(t, w.Private, vault.TokenParams{ID: "secret", Type: vault.TypeGeneric, Data: "sk_live_Zürich 1"})
	given.Create(t, w.Private, vault.TokenParams{ID: "lines", Type: vault.TypeGeneric, Data: "sk_live\r\nX: 1"})
	upper := strings.Replace(w.url, "https://", "HTTPS://", 1)
	call := cardCall()
	call.URL, call.Path, call.Query = upper, "/v1/%7B%7Bsecret%7D%7D", "key={{ secret }}&b=%7B%7B+card+%7C+json%3A+%27%24.expiration_month%27+%7D%7D&c={{"
	call.Query = strings.ReplaceAll(call.Query, " ", "+")
	call.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer {{ secret }}"}, "X-Two": {"a", "{{ secret }}-{{ secret }}"},
		"Range": {"bytes=0-5"}, "If-Range": {"x"}, "Accept-Charset": {"utf-16"}, "Accept-Encoding": {"gzip"}, "Host": {"{{ secret }}"}, "Keep-Alive": {"{{ secret }}"}}
	must.Get(w.charge(t.Context(), w.key, call))(t)
	got := map[string]any{
		"body": w.body, "query": w.got.URL.RawQuery, "path": w.got.URL.EscapedPath(), "host": w.got.Host, "authorization": w.got.Header["Authorization"],
		"two": w.got.Header["X-Two"], "encoding": w.got.Header["Accept-Encoding"], "dropped": w.got.Header.Get("Range") + w.got.Header.Get("If-Range") + w.got.Header.Get("Accept-Charset"),
	}
	want := map[string]any{
		"body": `{"number":"` + given.Visa + `"}`, "query": "key=sk_live_Z%C3%BCrich+1&b=12&c={{", "path": "/v1/%7B%7Bsecret%7D%7D", "host": w.to,
		"authorization": []string{"Bearer sk_live_Zürich 1"}, "two": []string{"a", "sk_live_Zürich 1-sk_live_Zürich 1"}, "encoding": []string{"identity"}, "dropped": "",
	}
	given.Same(t, "request", got, want)
	for _, id := range []string{"secret", "card"} {
		found := given.Entries(t, w.Vault, vault.ListLogsParams{EntityID: id, Operation: "use"})
		if len(found) != 1 || found[0].Message != "Token used in a request to "+w.to {
			t.Errorf("the log has %v", found)
		}
	}
	given.WantFields(t, "control characters", must.Err(w.charge(t.Context(), w.key, vault.ProxyCall{Header: http.Header{"X": {"{{ lines }}"}}})), "headers.X")
	_, err := w.charge(t.Context(), w.key, vault.ProxyCall{Header: http.Header{"X": {"{{ secret }}"}, "Y": {"{{ nobody }}"}}})
	given.WantFields(t, "an unknown token", err, "headers.Y")
	given.WantFields(t, "without a limit", must.Err(w.charge(t.Context(), w.Private, vault.ProxyCall{Header: http.Header{"X": {"{{ secret }}"}}})), "headers.X")
}

// The data is replaced wherever the destination returns it.
func TestEchoesAreRemoved(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	compress := func(encoding string, open func(io.Writer) io.WriteCloser) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Encoding", encoding)
			c := open(rw)
			fmt.Fprintf(c, "<%s>", given.Visa)
			c.Close()
		}
	}
	write := func(text string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) { fmt.Fprint(rw, text) }
	}
	header := func(name, value string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) { rw.Header().Set(name, value) }
	}
	escaped := strings.ReplaceAll(given.Visa, "4", `\u0034`)
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string // the body, or the status of a refusal
	}{
		"plain":        {write(`{"number":"` + given.Visa + `","last4":"4242"}`), `{"number":"{{ card }}","last4":"4242"}`},
		"escapes":      {write(`{"number":"` + escaped + `"}`), `{"number":"{{ card }}"}`},
		"percent":      {write("n=" + strings.ReplaceAll(given.Visa, "2", "%32")), "n={{ card }}"},
		"a number":     {write(`{"n":` + given.Visa + `}`), `{"n":{{ card }}}`},
		"untouched":    {write(`{"amount":1200}`), `{"amount":1200}`},
		"gzip":         {compress("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), "<{{ card }}>"},
		"deflate":      {compress("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }), "<{{ card }}>"},
		"br":           {compress("br", func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }), "<{{ card }}>"},
		"not gzip":     {func(rw http.ResponseWriter) { rw.Header().Set("Content-Encoding", "gzip"); fmt.Fprint(rw, "plain") }, ""},
		"zstd":         {compress("zstd", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }), ""},
		"partial":      {func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusPartialContent); fmt.Fprint(rw, given.Visa) }, ""},
		"UTF-16":       {header("Content-Type", "text/plain; charset=utf-16"), ""},
		"Latin-1":      {header("Content-Type", "application/json;charset=ISO-8859-1"), ""},
		"two charsets": {header("Content-Type", "text/html; charset=utf-16; charset=utf-8"), ""},
		"UTF-8":        {header("Content-Type", `text/plain; charset="UTF-8"`), ""},
		"header":       {header("X-Card", "n="+given.Visa), ""},
		"header name":  {header("X-"+given.Visa, "1"), ""},
		"Location": {func(rw http.ResponseWriter) {
			rw.Header().Set("Location", "https://evil.example/?n="+strings.ReplaceAll(given.Visa, "4", "%34"))
			rw.WriteHeader(http.StatusFound)
		}, ""},
		"trailer": {func(rw http.ResponseWriter) {
			rw.Header().Set("Trailer", "X-Card")
			fmt.Fprint(rw, "x")
			rw.Header().Set("X-Card", given.Visa)
		}, "x"},
		"early hints": {func(rw http.ResponseWriter) {
			rw.Header().Set("Link", given.Visa)
			rw.WriteHeader(http.StatusEarlyHints)
			rw.Header().Del("Link")
			fmt.Fprint(rw, "x")
		}, "x"},
		"chunks": {func(rw http.ResponseWriter) {
			for _, b := range []byte("<" + escaped + "|" + given.Visa + ">") {
				_, _ = rw.Write([]byte{b})
				rw.(http.Flusher).Flush()
			}
		}, "<{{ card }}|{{ card }}>"},
	} {
		w.answer = func(rw http.ResponseWriter, _ *http.Request, body string) {
			must.Contain(t, name+": the destination", body, given.Visa)
			test.answer(rw)
		}
		answer, err := w.charge(t.Context(), w.key, cardCall())
		refused := name == "not gzip" || name == "zstd" || name == "partial" || name == "UTF-16" || name == "Latin-1" || name == "two charsets"
		if refused {
			must.Match(t, name, err, vault.ErrUnreachable)
			continue
		}
		must.Do(t, err)
		given.Same(t, name, answer.body, test.want)
		if all := fmt.Sprint(answer.Header); strings.Contains(all, given.Visa) || strings.Contains(all, "%34") || answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: headers %v", name, answer.Header)
		}
		switch name {
		case "header":
			given.Same(t, name, answer.Header.Get("X-Card"), "n={{ card }}")
		case "Location":
			given.Same(t, name, answer.Header.Get("Location"), "https://evil.example/?n={{ card }}")
			given.Same(t, "status", answer.Status, http.StatusFound)
		}
	}
}

// Expressions must not take the data apart.
func TestBoundExpressions(t *testing.T) {
	t.Parallel()
	w := newTill(t, vault.Config{})
	given.Create(t, w.Private, vault.TokenParams{ID: "text", Type: vault.TypeGeneric, Data: "a secret text"})
	given.Create(t, w.Private, vault.TokenParams{ID: "short", Type: vault.TypeGeneric, Data: "abcde"})
	for _, test := range []struct {
		expression string
		want       string // empty if it is refused
	}{
		{"{{ text }}", "a secret text"},
		{"{{ text | to_string }}", "a secret text"},
		{"{{ text | stringify }}", "a secret text"},
		{"{{ text | json: '$' }}", "a secret text"},
		{"{{ card | json: '$.number' }}", given.Visa},
		{"{{ card | json: '$.number' | to_string }}", given.Visa},
		{"{{ token: card | json: '$.data.number' }}", given.Visa},
		{"{{ card | json: '$.cvc' | append: '!' }}", "737!"},
		{"{{ card | json: '$.expiration_year' | slice: 2, 2 }}", "40"},
		{"{{ short | upcase | append: 'fgh' | slice: 0, 6 }}", "ABCDEf"},
		{"{{ card | stringify }}", `{"number":"` + given.Visa + `","expiration_month":12,"expiration_year":2040,"cvc":"737"}`},
		{"{{ text | slice: 0, 5 }}", ""},
		{"{{ text | upcase }}", ""},
		{"{{ text | size }}", ""},
		{"{{ text | last4 }}", ""},
		{"{{ text | base64_encode }}", ""},
		{"{{ text | to_string | reverse }}", ""},
		{"{{ text | append: '' }}", ""},
		{"{{ card | json: '$.number' | slice: 0, 5 }}", ""},
		{"{{ card | json: '$.number' | to_number | plus: 1 }}", ""},
		{"{{ card | size }}", ""},
		{"{{ card | json: '$' }}", ""},
		{"{{ token: card | json: '$.data' }}", ""},
		{"{{ card | json: '$.*' }}", ""},
		{"{{ card | json: '$..number' }}", ""},
		{`{{ card | json: '$[?@ == "` + given.Visa + `"]' }}`, ""},
		{`{{ card | json: '$[?match(@, "42.*")]' }}`, ""},
		{`{{ token: card | json: "$[?@.number > '5']" }}`, ""},
		{"{{ card | stringify | slice: 0, 5 }}", ""},
		{"{{ card | default: 'x' }}", ""},
	} {
		_, err := w.charge(t.Context(), w.key, vault.ProxyCall{Method: "POST", Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader(test.expression)})
		if test.want == "" {
			must.Match(t, test.expression, err, vault.ErrForbidden)
			continue
		}
		must.Match(t, test.expression, err, nil)
		given.Same(t, test.expression, w.body, test.want)
	}
	must.Match(t, "in a query", must.Err(w.charge(t.Context(), w.key, vault.ProxyCall{URL: w.url + "?" + url.Values{"q": {"{{ text | upcase }}"}}.Encode()})), vault.ErrForbidden)
}
