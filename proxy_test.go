package vault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// captured is a transport that records requests.
type captured struct {
	req  *http.Request
	body string
}

func (c *captured) RoundTrip(req *http.Request) (*http.Response, error) {
	c.req = req
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		c.body = string(body)
		req.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

// through sends a body of a type through a client's transport.
func through(t testing.TB, c *vault.Client, contentType, body string, header ...string) (*captured, error) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gateway.example/charge", strings.NewReader(body)))(t)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	seen := &captured{}
	res, err := c.RoundTripper(seen).RoundTrip(req)
	if err == nil {
		res.Body.Close()
	}
	return seen, err
}

// nasty is data that would break out of any format that inserts it unescaped.
const nasty = `a"b\c&d=e<f>'g` + "\r\n--XX\r\nh {{ i }} %41+"

func TestRoundTripperReplacesExpressionsByContentType(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: nasty})
	given.Create(t, v.Private, vault.TokenParams{ID: "num", Type: vault.TypeGeneric, Data: 42})
	given.Create(t, v.Private, vault.TokenParams{ID: "obj", Type: vault.TypeGeneric, Data: vault.JSON(`{"a":1.10}`)})
	const form = "application/x-www-form-urlencoded"
	part := func(head, body string) string { return "--XX-Y\r\n" + head + "\r\n\r\n" + body + "\r\n" }
	const field = `Content-Disposition: form-data; name="f"`
	escaped := "a&#34;b\\c&amp;d=e&lt;f&gt;&#39;g&#xD;&#xA;--XX&#xD;&#xA;h {{ i }} %41+"
	asJSON := `"a\"b\\c&d=e<f>'g\r\n--XX\r\nh {{ i }} %41+"`
	asForm := "a%22b%5Cc%26d%3De%3Cf%3E%27g%0D%0A--XX%0D%0Ah+%7B%7B+i+%7D%7D+%2541%2B"
	for name, tc := range map[string]struct{ typ, body, want string }{
		"JSON string":             {"application/json", `{ "x" : "{{ tok }}" , "y":1.10 }`, `{ "x" : ` + asJSON + ` , "y":1.10 }`},
		"JSON typed":              {"application/json", `["{{num}}","{{ obj }}","n={{ num }}"]`, `[42,{"a":1.10},"n=42"]`},
		"JSON filter":             {"application/json; charset=utf-8", `"{{ num | plus: 1 }}"`, `43`},
		"JSON escapes in a spot":  {"application/json", `{"\u007ba":"\ud83d\ude00 \"{{num}}\"","b":"\u0041"}`, `{"\u007ba":"😀 \"42\"","b":"\u0041"}`},
		"JSON escaped braces":     {"application/json", `["\u007b{num}}","{{num}}"]`, `[42,42]`},
		"JSON keys":               {"application/json", `{"{{ tok }}": 1}`, `{"{{ tok }}": 1}`},
		"JSON keys and values":    {"application/json", `{"{{ tok" : "{{num}}"}`, `{"{{ tok" : 42}`},
		"JSON suffix":             {"application/vnd.api+json", `{"x":"{{num}}"}`, `{"x":42}`},
		"JSON lines":              {"application/x-ndjson", "{\"x\": \"{{tok}}\"}\n{\"n\":\"{{num}}\"}\n", "{\"x\": " + asJSON + "}\n{\"n\":42}\n"},
		"JSON sequence":           {"application/json-seq", "\x1e{\"x\": \"{{tok}}\"}\n", "\x1e{\"x\": " + asJSON + "}\n"},
		"JSON of another name":    {"text/x-json", `{"x": "{{tok}}"}`, `{"x": ` + asJSON + `}`},
		"JSON without a type":     {"", `{"x": "{{tok}}"}`, `{"x": ` + asJSON + `}`},
		"JSON without":            {"application/json", "{ not even JSON", "{ not even JSON"},
		"form":                    {form, "a=%20&card={{ tok }}&b={{num}}", "a=%20&card=" + asForm + "&b=42"},
		"form, encoded braces":    {form, "card=x%20%7B%7B+num+%7d%7D%20y&c", "card=x%2042%20y&c"},
		"form, filter":            {form, "n={{+num+|+plus:+1+}}", "n=43"},
		"form keys":               {form, "{{num}}=1&{{num}}", "{{num}}=1&{{num}}"},
		"text":                    {"text/plain", "card: {{ tok }}!", "card: " + nasty + "!"},
		"text in Latin-1":         {"text/plain; charset=iso-8859-1", "\xe9 {{num}}", "\xe9 42"},
		"CSV":                     {"text/csv", "a,{{num}}\r\n", "a,42\r\n"},
		"no type":                 {"", "{{ num }}", "42"},
		"unknown type":            {"application/x-own", "n {{num}}", "n 42"},
		"unknown type, binary":    {"application/x-own", "\xff\x00 {{num}}", "\xff\x00 {{num}}"},
		"XML":                     {"application/xml", `<n a="{{ tok }}">&amp;{{num}}</n>`, `<n a="` + escaped + `">&amp;42</n>`},
		"XML alone":               {"text/xml", `{{ tok }}`, escaped},
		"SOAP":                    {"application/soap+xml", `<n>{{num}}</n>`, `<n>42</n>`},
		"SVG is XML":              {"image/svg+xml", `<n>{{num}}</n>`, `<n>42</n>`},
		"image":                   {"image/png", "{{num}}", "{{num}}"},
		"octets":                  {"application/octet-stream", "{{num}} {{", "{{num}} {{"},
		"multipart text":          {"multipart/form-data; boundary=XX-Y", "pre\r\n" + part(field, "{{num}}") + "--XX-Y--\r\n", "pre\r\n" + part(field, "42") + "--XX-Y--\r\n"},
		"multipart not in header": {"multipart/form-data; boundary=XX-Y", part(field+"; filename=\"{{num}}\"", "x") + "--XX-Y--", part(field+"; filename=\"{{num}}\"", "x") + "--XX-Y--"},
		"multipart by part": {"multipart/mixed; boundary=XX-Y",
			part(field+"\r\nContent-Type: application/json", `{"x": "{{tok}}"}`) + part(field+"\r\nContent-Type: image/png", "{{num}}") +
				part(field+"\r\nContent-Transfer-Encoding: base64", "{{num}}") + part(field+"\r\nContent-Type: "+form, "x=%7B%7Bnum%7D%7D") + "--XX-Y--\r\nepilogue {{",
			part(field+"\r\nContent-Type: application/json", `{"x": `+asJSON+`}`) + part(field+"\r\nContent-Type: image/png", "{{num}}") +
				part(field+"\r\nContent-Transfer-Encoding: base64", "{{num}}") + part(field+"\r\nContent-Type: "+form, "x=42") + "--XX-Y--\r\nepilogue {{"},
		"multipart without headers": {"multipart/mixed; boundary=XX-Y", "--XX-Y\r\n\r\n{{num}}\r\n--XX-Y--", "--XX-Y\r\n\r\n42\r\n--XX-Y--"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := must.Get(through(t, v.Private, tc.typ, tc.body))(t)
			given.Same(t, "sent", got.body, tc.want)
			given.Same(t, "Content-Length", got.req.ContentLength, int64(len(tc.want)))
		})
	}
}

func TestRoundTripperLeavesEncodedBodiesAlone(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	got := must.Get(through(t, v.Private, "application/json", `"{{ nobody }}"`, "Content-Encoding", "gzip"))(t)
	given.Same(t, "sent", got.body, `"{{ nobody }}"`)
	_, err := through(t, v.Private, "application/json", `"{{ nobody }}"`, "Content-Encoding", "identity")
	must.Match(t, "identity is no encoding", err, vault.ErrInvalid)
}

func TestRoundTripperRefuses(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{MaxBytes: 2000})
	given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: nasty})
	given.Create(t, v.Private, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	general := given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, "token:use"))
	redacted := given.Private(t, v, given.Rule(1, "/", vault.TransformRedact, "token:use"))
	const mixed = "multipart/mixed; boundary=XX"
	var many strings.Builder
	for i := range 101 {
		fmt.Fprintf(&many, "{{t%d}}", i)
	}
	for name, tc := range map[string]struct {
		c         *vault.Client
		typ, body string
		want      error
		path      string
	}{
		"unknown token":            {v.Private, "application/json", `{"x":"{{ nobody }} {{ none }}"}`, vault.ErrInvalid, "x"},
		"unknown token in a form":  {v.Private, "application/x-www-form-urlencoded", "a=1&b={{ nobody }}", vault.ErrInvalid, "b"},
		"unknown token in text":    {v.Private, "text/plain", "it is {{ nobody }}", vault.ErrInvalid, "$"},
		"unknown token in a list":  {v.Private, "application/json", `{"a":[{"b":"{{ nobody }}"}]}`, vault.ErrInvalid, "a[0].b"},
		"bad expression":           {v.Private, "application/json", `{"x":["{{ tok | nope }}"]}`, vault.ErrInvalid, "x[0]"},
		"no end":                   {v.Private, "text/plain", `{{ tok`, vault.ErrInvalid, ""},
		"failing filter":           {v.Private, "application/json", `{"x":"{{tok}}","y":"{{ tok | plus: 1 }}"}`, vault.ErrInvalid, "y"},
		"failing filter in a form": {v.Private, "application/x-www-form-urlencoded", `a=1&amount={{ tok | plus: 1 }}`, vault.ErrInvalid, "amount"},
		"bad form":                 {v.Private, "application/x-www-form-urlencoded", `amount={{%zz}}`, vault.ErrInvalid, "amount"},
		"malformed JSON":           {v.Private, "application/json", `{"x":"{{ tok }}"`, vault.ErrInvalid, ""},
		"not strict JSON":          {v.Private, "application/json5", `{x:"{{ tok }}"}`, vault.ErrInvalid, ""},
		"malformed JSON line":      {v.Private, "application/x-ndjson", "1\n\"{{ tok }}", vault.ErrInvalid, "[1]"},
		"too many tokens":          {v.Private, "text/plain", many.String(), vault.ErrInvalid, ""},
		"boundary in a value":      {v.Private, mixed, "--XX\r\n\r\n{{tok}}\r\n--XX--", vault.ErrInvalid, ""},
		"no boundary":              {v.Private, "multipart/mixed", "{{tok}}", vault.ErrInvalid, ""},
		"not multipart":            {v.Private, mixed, "{{tok}}", vault.ErrInvalid, ""},
		"multipart cut off":        {v.Private, mixed, "--XX\r\n\r\n{{tok}}", vault.ErrInvalid, ""},
		"part without a body":      {v.Private, mixed, "--XX\r\n{{tok}}\r\n--XX--", vault.ErrInvalid, ""},
		"nested multipart":         {v.Private, mixed, "--XX\nContent-Type: multipart/mixed; boundary=Y\n\n{{\n--XX--", nil, ""},
		"another container":        {general, "text/plain", `{{ card }}`, vault.ErrForbidden, ""},
		"redacted":                 {redacted, "text/plain", `{{ card }}`, vault.ErrForbidden, ""},
		"no token:use":             {v.Public, "text/plain", `{{ nobody }}`, vault.ErrForbidden, ""},
		"no token:use, no need":    {v.Public, "text/plain", `nothing`, nil, ""},
		"too large":                {v.Private, "text/plain", strings.Repeat("x", 2001), vault.ErrTooLarge, ""},
		"large, but not looked at": {v.Private, "image/png", strings.Repeat("x", 2001), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, err := through(t, tc.c, tc.typ, tc.body)
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
			if tc.want == nil {
				return
			}
			if seen.req != nil {
				t.Error("something was sent")
			}
			var bad *vault.InvalidError
			if errors.As(err, &bad) && len(bad.Fields[tc.path]) == 0 {
				t.Errorf("%v, want an error at %q", err, tc.path)
			}
			given.WantSilent(t, err, nasty, given.Visa)
		})
	}
	_, err := through(t, v.Private, "text/plain", "{{ one }} {{ two }} {{ tok }}")
	if err == nil || !strings.Contains(err.Error(), "Failed to detokenize some tokens: one, two") {
		t.Errorf("%v does not name the ids", err)
	}
}

func TestRoundTripperBoundsParts(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	parts := func(n int) string { return "{{" + strings.Repeat("\n--XX\n\n", n) + "\n--XX--" }
	const mixed = "multipart/mixed; boundary=XX"
	must.Match(t, "999 parts", must.Err(through(t, v.Private, mixed, parts(999))), nil)
	must.Match(t, "1000 parts", must.Err(through(t, v.Private, mixed, parts(1000))), vault.ErrInvalid)
}

func TestRoundTripperLogsEachTokenOnceInOneWrite(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "one", Type: vault.TypeGeneric, Data: "x"})
	given.Create(t, v.Private, vault.TokenParams{ID: "two", Type: vault.TypeGeneric, Data: "y"})
	must.Get(through(t, v.Private, "text/plain", "{{one}}{{ two }}{{ one }}"))(t)
	for _, id := range []string{"one", "two"} {
		given.Same(t, "log of "+id, given.Operations(t, v, id), []string{"create", "use"})
	}
}

func TestRoundTripperKeepsTheRequestAndCanSendAgain(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"})
	closed := make(chan struct{})
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://gateway.example/", closer{strings.NewReader("{{tok}}"), closed}))(t)
	req.Header.Set("Content-Length", "7")
	seen := &captured{}
	res := must.Get(v.Private.RoundTripper(seen).RoundTrip(req))(t)
	res.Body.Close()
	<-closed
	if seen.req == req || req.Header.Get("Content-Length") != "7" || seen.req.Header.Get("Content-Length") != "" {
		t.Error("the request was changed")
	}
	again := must.Get(seen.req.GetBody())(t)
	text := must.Get(io.ReadAll(again))(t)
	given.Same(t, "the second body", string(text), "secret")
	given.Same(t, "the first body", seen.body, "secret")
}

// closer is a body that records whether it is closed.
type closer struct {
	io.Reader
	closed chan struct{}
}

func (c closer) Close() error {
	close(c.closed)
	return nil
}

// FuzzRoundTripper checks that bodies without expressions are unchanged, and that
// JSON stays JSON whatever is inserted.
func FuzzRoundTripper(f *testing.F) {
	v := vaulttest.New(f)
	given.Create(f, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: nasty})
	types := []string{"application/json", "application/x-www-form-urlencoded", "text/plain", "text/xml", "multipart/form-data; boundary=B", "", "image/png"}
	for i := range types {
		for _, body := range []string{`{"a":"{{tok}}"}`, "a={{tok}}&b=%7B%7Btok%7D%7D", "--B\r\n\r\n{{tok}}\r\n--B--", "plain", `["{{tok`, "--B\n\n--B--{{", `{"{{":"\u007b{tok}}"}`} {
			f.Add(uint8(i), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		typ := types[int(kind)%len(types)]
		got, err := through(t, v.Private, typ, string(body))
		lower := bytes.ToLower(body)
		if err == nil && !bytes.Contains(lower, []byte("{{")) && !bytes.Contains(lower, []byte("7b")) && got.body != string(body) {
			t.Fatalf("a body without expressions became %q", got.body)
		}
		if err == nil && typ == "image/png" && got.body != string(body) {
			t.Fatal("a binary body was changed")
		}
		if err != nil && !slices.ContainsFunc([]error{vault.ErrInvalid, vault.ErrTooLarge}, func(e error) bool { return errors.Is(err, e) }) {
			t.Fatalf("unexpected error: %v", err)
		}
		if err == nil && typ == "application/json" && bytes.Contains(body, []byte("{{tok}}")) && !isJSONText(got.body) {
			t.Fatalf("%q became %q, which is not JSON", body, got.body)
		}
	})
}

func isJSONText(text string) bool {
	var v any
	return vault.JSON(text).Decode(&v) == nil
}

// echo is a destination that returns the request body.
func echo(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	return server
}

// A browser stored the text of an expression. Code that forwards it sends the text,
// not the data of the token that it names.
func TestCodeForwardsDataUnchanged(t *testing.T) {
	t.Parallel()
	server := echo(t)
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, _ *given.Spy, host script.Host) {
		given.Create(t, v.Private, vault.TokenParams{ID: "VICTIM", Type: vault.TypeCardNumber, Data: given.Visa})
		const attack, wrong = "{{ VICTIM }}", `{{ not | an expression`
		for name, tt := range map[string]struct {
			with map[string]any
			want string
		}{
			"JSON":              {map[string]any{"body": map[string]any{"name": attack}}, `{"name":"{{ VICTIM }}"}`},
			"text":              {map[string]any{"body": attack}, `"{{ VICTIM }}"`},
			"a form":            {map[string]any{"body": "n=" + attack, "headers": map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}, `"n={{ VICTIM }}"`},
			"false":             {map[string]any{"body": attack, "detokenize": false}, `"{{ VICTIM }}"`},
			"not an expression": {map[string]any{"body": wrong}, `"{{ not | an expression"`},
			"headers and query": {map[string]any{"body": "x", "headers": map[string]string{"X-Name": attack}, "query": map[string]string{"q": attack}}, `"x"`},
			"when asked for":    {map[string]any{"body": map[string]any{"name": attack}, "detokenize": true}, `{"name":"` + given.Visa + `"}`},
			"text, when asked":  {map[string]any{"body": "n " + attack, "detokenize": true}, `"n ` + given.Visa + `"`},
		} {
			tt.with["proxyUrl"] = server.URL
			out, err := host.Call(ctx, "proxy.post", mustJSON(tt.with))
			var answer struct{ Body json.RawMessage }
			if err == nil {
				err = json.Unmarshal(out, &answer)
			}
			if err != nil || string(answer.Body) != tt.want {
				t.Errorf("%s: %s arrived (%v), want %s", name, answer.Body, err, tt.want)
			}
		}
		for _, bad := range []any{wrong, map[string]any{"x": "{{ nobody }}"}} {
			_, err := host.Call(ctx, "proxy.post", mustJSON(map[string]any{"proxyUrl": server.URL, "body": bad, "detokenize": true}))
			given.Same(t, "a bad expression", hostError(err).Status, http.StatusBadRequest)
		}
		_, err := host.Call(ctx, "proxy.post", mustJSON(map[string]any{"proxyUrl": server.URL, "detokenize": "yes"}))
		given.Same(t, "an option of another type", hostError(err).Status, http.StatusBadRequest)
	})
}

// Expressions are replaced only in bodies. A header or parameter that is an
// expression of a token is a mistake of the sender; other values there are
// forwarded unchecked.
func TestExpressionsOutsideOfTheBody(t *testing.T) { //nolint:tparallel // the cases share what the store was asked
	t.Parallel()
	server := echo(t)
	v, s := given.SpiedWith(t, &vault.Config{Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	soon, later := v.Clock.Now().Add(time.Second), v.Clock.Now().Add(time.Hour)
	given.Create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"})
	given.Create(t, v.Private, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}})
	given.Create(t, v.Private, vault.TokenParams{ID: "later", Type: vault.TypeGeneric, Data: "secret", ExpiresAt: later})
	given.Create(t, v.Private, vault.TokenParams{ID: "gone", Type: vault.TypeGeneric, Data: "secret", ExpiresAt: soon})
	v.Clock.Advance(time.Minute)
	_, other := v.NewTenant(t, "other")
	given.Create(t, other.Client, vault.TokenParams{ID: "theirs", Type: vault.TypeGeneric, Data: "secret"})
	general := given.Private(t, v, given.Rule(1, "/general/", vault.TransformReveal, "token:use"))
	for name, tt := range map[string]struct {
		c             *vault.Client
		query, header string
		bad           []string
		reads         int
	}{
		"header":                 {v.Private, "", "{{ tok }}", []string{"headers.X-Name"}, 1},
		"header, filter":         {v.Private, "", "{{ tok | upcase }}", []string{"headers.X-Name"}, 1},
		"whole token":            {v.Private, "", "{{ token: tok }}", []string{"headers.X-Name"}, 1},
		"query":                  {v.Private, "a=1&q={{tok}}", "", []string{"query.q"}, 1},
		"query, encoded":         {v.Private, "q%3d=%7B%7B+tok+%7D%7D", "", []string{"query.q="}, 1},
		"both":                   {v.Private, "q=%7b%7Btok}}", "{{later}}", []string{"headers.X-Name", "query.q"}, 1},
		"another container":      {general, "", "{{ card }}", []string{"headers.X-Name"}, 1},
		"expired":                {v.Private, "q={{gone}}", "{{ gone }}", nil, 1},
		"no such token":          {v.Private, "q={{nobody}}", "{{ nobody }}", nil, 1},
		"of another tenant":      {v.Private, "q={{theirs}}", "{{ theirs }}", nil, 1},
		"an impossible id":       {v.Private, "", "{{ " + strings.Repeat("x", 3000) + " }}", nil, 0},
		"text around":            {v.Private, "q=a{{tok}}", "Bearer {{ tok }}", nil, 0},
		"two expressions":        {v.Private, "q={{tok}}{{tok}}", "{{ tok }} {{ tok }}", nil, 0},
		"malformed":              {v.Private, "q={{tok", "{{ tok | nope }}", nil, 0},
		"not encoded well":       {v.Private, "q={{tok}}%zz", "", nil, 0},
		"a name":                 {v.Private, "{{tok}}=1&{{tok}}", "", nil, 0},
		"a template of theirs":   {v.Private, "q={{user.name}}", "{{#each}}{{/each}}", nil, 1},
		"no token:use":           {given.Private(t, v, given.Rule(1, "/", vault.TransformReveal, "token:read")), "q={{tok}}", "{{ tok }}", nil, 0},
		"no token:use, no token": {given.Private(t, v, given.Rule(1, "/", vault.TransformReveal, "token:read")), "q={{nobody}}", "{{ nobody }}", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := must.Get(v.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: server.URL, RequireAuth: new(bool)}))(t)
			header := http.Header{"Authorization": {"Basic x"}}
			if tt.header != "" {
				header.Set("X-Name", tt.header)
			}
			read := 0
			s.Before = func(call string, _ *storage.Change) error {
				if call == "Tokens" {
					read++
				}
				return nil
			}
			defer func() { s.Before = nil }()
			answer, err := tt.c.InvokeProxy(t.Context(), vault.ProxyCall{Key: x.Key, Query: tt.query, Header: header})
			if tt.bad == nil && err != nil {
				t.Fatal(err)
			}
			if err == nil {
				answer.Body.Close()
			}
			if tt.bad != nil {
				given.WantFields(t, name, err, tt.bad...)
			}
			given.Same(t, "reads of tokens", read, tt.reads)
		})
	}
}

// An unknown token is reported at the path of its expression. If an id has a path
// appended, the error suggests the right form.
func TestUnknownTokensHavePaths(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	card := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa}}).ID
	failed := func(ids string) string { return "Failed to detokenize some tokens: " + ids }
	hint := func(expression string) string { return "did you mean `{{ " + expression + " }}`?" }
	for doc, want := range map[string]map[string][]string{
		`{"a":{"b":["x","{{ nobody }}"]},"c":"{{ ` + card + ` }}"}`: {"a.b[1]": {failed("nobody")}},
		`{"a":"{{ nobody }} and {{ no-one }}","b":"{{ nobody }}"}`:  {"a": {failed("nobody, no-one")}, "b": {failed("nobody")}},
		`"{{ nobody }}"`:                                  {"$": {failed("nobody")}},
		`{"n":"{{ ` + card + `.number }}"}`:               {"n": {failed(card + ".number"), hint(card + " | json: '$.number'")}},
		`{"n":"{{ ` + card + `.a.b_1 | last4 }}"}`:        {"n": {failed(card + ".a.b_1"), hint(card + " | json: '$.a.b_1'")}},
		`{"n":"{{ token: ` + card + `.metadata.user }}"}`: {"n": {failed(card + ".metadata.user"), hint("token: " + card + " | json: '$.metadata.user'")}},
		`{"n":"{{ a.b }} {{ nobody. }}"}`:                 {"n": {failed("a.b, nobody.")}},
	} {
		_, err := v.Private.Detokenize(t.Context(), vault.JSON(doc))
		var bad *vault.InvalidError
		if !errors.As(err, &bad) {
			t.Fatalf("%s: %v", doc, err)
		}
		given.Same(t, doc, bad.Fields, want)
	}
	// The suggestion works, and a token whose id has a dot is found.
	dotted := given.Create(t, v.Private, vault.TokenParams{ID: card + ".number", Type: vault.TypeGeneric, Data: "dotted"})
	out := must.Get(v.Private.Detokenize(t.Context(), vault.JSON(fmt.Sprintf(`["{{ %s | json: '$.number' }}","{{ %s }}"]`, card, dotted.ID))))(t)
	given.Same(t, "out", string(out), `["`+given.Visa+`","dotted"]`)
}

// A taken id is reported at its place in the batch, and nothing is created.
func TestTakenIDsInABatch(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	given.Create(t, v.Private, vault.TokenParams{ID: "taken", Type: vault.TypeGeneric, Data: "first"})
	request := func(id string) map[string]any { return map[string]any{"type": "token", "data": "second", "id": id} }
	large := make([]any, 4000)
	for i := range large {
		large[i] = request(fmt.Sprint("tok-", i))
	}
	large[3711] = request("taken")
	for path, doc := range map[string]any{
		"[1].id":    []any{request("new"), request("taken")},
		"[2].id":    []any{request("twice"), 1, request("twice")},
		"[3711].id": large,
		"a.b[0].id": map[string]any{"a": map[string]any{"b": []any{request("taken")}}},
	} {
		_, err := v.Private.Tokenize(t.Context(), doc)
		var taken *vault.ConflictError
		if !errors.As(err, &taken) || !errors.Is(err, vault.ErrConflict) || errors.Is(err, vault.ErrInvalid) {
			t.Fatalf("%s: %v", path, err)
		}
		given.Same(t, path, taken.Fields, map[string][]string{path: {"is the id of another token"}})
		must.Contain(t, "the error", err.Error(), path)
		given.WantSilent(t, err, "first", "second")
	}
	err := must.Err(v.Private.Tokenize(t.Context(), request("taken")))
	must.Match(t, "a single token", err, vault.ErrConflict)
	given.WantSilent(t, err, "first", "second")
	if _, total := given.List(t, v.Private, vault.ListTokensParams{}); total != 1 {
		t.Errorf("%d tokens", total)
	}
}

// A mask cannot have tags, because their text would be shown, not evaluated.
func TestMasksHaveNoTags(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	tok := given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: map[string]any{"a": "s3cr3t"}})
	for path, mask := range map[string]string{
		"mask":      `"{% if data.a %}x{% endif %}"`,
		"mask.a":    `{"a":"{{ data.a | last4 }} {%- raw %}"}`,
		"mask.b[1]": `{"b":["x","{%"]}`,
		"mask.c.d":  `{"c":{"d":"text {% comment %}"}}`,
	} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x", Mask: vault.JSON(mask)})
		given.WantFields(t, mask, err, path)
		given.WantFields(t, "patch "+mask, must.Err(v.Owner.PatchToken(t.Context(), tok.ID, vault.JSON(`{"mask":`+mask+`}`))), path)
	}
	given.Create(t, v.Private, vault.TokenParams{Type: vault.TypeGeneric, Data: "100 {% of it", Mask: "100 % {"})
}
