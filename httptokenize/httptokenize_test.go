package httptokenize_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httptokenize"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// behind sends a body through the middleware. It returns the body that the
// application saw, or the response if the application saw nothing.
func behind(t testing.TB, c *vault.Client, contentType, body string, fields ...httptokenize.Field) (seen string, res *httptest.ResponseRecorder) {
	t.Helper()
	h := httptokenize.Requests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength {
			t.Errorf("%d bytes, length %d, %v", len(b), r.ContentLength, err)
		}
		seen = string(b)
	}), c, fields...)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/orders", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	res = httptest.NewRecorder()
	h.ServeHTTP(res, r)
	return seen, res
}

var aToken = regexp.MustCompile(`"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"`)

func TestRequestsReplaceFields(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	fields := []httptokenize.Field{
		{Path: "card", Type: vault.TypeCard}, {Path: "buyer.ssn", Type: vault.TypeSocialSecurityNumber, Containers: []string{"/own/"}},
		{Path: "items[].note"}, {Path: "grid[][]"},
	}
	for name, tc := range map[string]struct{ body, want, data string }{
		"object":            {`{ "card" : {"number":"4242424242424242", "cvc":"123"} , "n":1.10}`, `{ "card" : @ , "n":1.10}`, `{"number":"4242424242424242","cvc":"123"}`},
		"nested":            {`{"buyer":{"ssn":"123-45-6789"}}`, `{"buyer":{"ssn":@}}`, `"123-45-6789"`},
		"elements":          {`{"items":[{"note":"a"},{"note":null},{}, 1]}`, `{"items":[{"note":@},{"note":null},{}, 1]}`, `"a"`},
		"arrays in arrays":  {`{"grid":[[true],[]]}`, `{"grid":[[@],[]]}`, `true`},
		"number":            {`{"items":[{"note":1.10}]}`, `{"items":[{"note":@}]}`, `1.10`},
		"names in any case": {`{"CARD":{"number":"4242424242424242"}}`, `{"CARD":@}`, `{"number":"4242424242424242"}`},
		"escaped name":      {`{"\u0063ard":{"number":"4242424242424242"}}`, `{"\u0063ard":@}`, `{"number":"4242424242424242"}`},
		"missing":           {`{"a":{"card":1},"buyer":"x"}`, `{"a":{"card":1},"buyer":"x"}`, ""},
		"no object":         {` 5`, ` 5`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, res := behind(t, v.Private, "application/json", tc.body, fields...)
			if res.Code != 200 {
				t.Fatalf("%d %s", res.Code, res.Body)
			}
			id := aToken.FindStringSubmatch(seen)
			if got := aToken.ReplaceAllString(seen, "@"); got != tc.want {
				t.Fatalf("the application saw %s, want %s", got, tc.want)
			}
			if tc.data == "" {
				return
			}
			back, err := v.Private.Detokenize(t.Context(), "{{"+id[1]+"}}")
			if err != nil || string(back) != tc.data {
				t.Errorf("the token holds %s, %v", back, err)
			}
		})
	}
	seen, _ := behind(t, v.Private, "application/json", `{"card":{"number":"4242424242424242"},"card":{"number":"5555555555554444"}}`, fields...)
	if strings.Contains(seen, "42424242") || strings.Contains(seen, "55555555") {
		t.Errorf("a duplicate field was not replaced: %s", seen)
	}
}

func TestRequestsAreRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	fields := []httptokenize.Field{{Path: "name"}, {Path: "pay[].card", Type: vault.TypeCard}}
	for name, tc := range map[string]struct {
		c         *vault.Client
		typ, body string
		status    int
		field     string
	}{
		"another type":    {v.Private, "text/plain", `{"card":1}`, 415, ""},
		"malformed":       {v.Private, "application/json", `{"name":`, 400, ""},
		"two values":      {v.Private, "application/json", `{"a":1} {"name":"x"}`, 400, ""},
		"too deep":        {v.Private, "application/json", strings.Repeat(`[`, 20_000), 400, ""},
		"no card":         {v.Private, "application/json", `{"name":"x","pay":[{"card":{"number":"4242424242424241"}}]}`, 400, "pay[].card.number"},
		"no permission":   {v.Management, "application/json", `{"name":"x"}`, 403, ""},
		"over the limit":  {v.Private, "application/json", `"` + strings.Repeat("x", 5<<20) + `"`, 413, ""},
		"invalid in UTF8": {v.Private, "application/json", `{"name":"` + "\xff" + `"}`, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, res := behind(t, tc.c, tc.typ, tc.body, fields...)
			if res.Code != tc.status || seen != "" {
				t.Fatalf("%d, want %d; the application saw %q: %s", res.Code, tc.status, seen, res.Body)
			}
			var body struct {
				Status int
				Errors map[string][]string
			}
			if err := json.Unmarshal(res.Body.Bytes(), &body); err != nil || body.Status != tc.status {
				t.Fatalf("%s", res.Body)
			}
			if tc.field != "" && body.Errors[tc.field] == nil {
				t.Errorf("errors: %v", body.Errors)
			}
			must.Lack(t, "a value in the response", res.Body.String(), "42424242")
		})
	}
	page, err := v.Private.ListTokens(t.Context(), vault.ListTokensParams{})
	if err != nil || page.Pagination.TotalItems != 0 {
		t.Errorf("tokens of refused requests were kept: %v, %v", page, err)
	}
}

// An incomplete body does not reach the handler.
func TestIncompleteRequestsAreRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	h := httptokenize.Requests(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("an incomplete request was passed on")
	}), v.Private, httptokenize.Field{Path: "x"})
	for err, status := range map[error]int{io.ErrUnexpectedEOF: 400, os.ErrDeadlineExceeded: 408} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader(`{"x":`), iotest.ErrReader(err)))
		r.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		h.ServeHTTP(res, r)
		must.Same(t, fmt.Sprintf("the status for %v", err), status, res.Code)
	}
}

func TestRequestsWithoutABody(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	called := false
	h := httptokenize.Requests(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }), v.Private, httptokenize.Field{Path: "x"})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if !called {
		t.Error("a request without a body was not passed on")
	}
	for _, path := range []string{"", "a..b", "a.", "[a]", "a[", "a.[]", "a][b"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the path %q was accepted", path)
				}
			}()
			httptokenize.Requests(h, v.Private, httptokenize.Field{Path: path})
		}()
	}
}

// A field can set everything that a token can have, and the next handler gets
// the masked token without reading it.
func TestRequestsWithEveryOption(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	field := httptokenize.Field{
		Path: "items[].card", Type: vault.TypeCardNumber, ID: "card-{{ data | last4 }}-x", Mask: "{{ data | last4 }}", Containers: []string{"/own/"},
		Metadata:  func(r *http.Request) map[string]string { return map[string]string{"path": r.URL.Path} },
		ExpiresAt: func(*http.Request) time.Time { return vaulttest.Start.Add(time.Hour) },
	}
	called := false
	h := httptokenize.Requests(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called = true
		var order struct{ Items []struct{ Card string } }
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || len(order.Items) != 2 {
			t.Fatalf("%v, %v", order, err)
		}
		for i, last4 := range []string{"4242", "4444"} {
			tok := httptokenize.Token(r, order.Items[i].Card)
			if tok == nil || string(tok.Data) != `"`+last4+`"` || !tok.ExpiresAt.Equal(vaulttest.Start.Add(time.Hour)) || tok.Metadata["path"] != "/orders" {
				t.Errorf("the handler sees %+v", tok)
			}
		}
		if httptokenize.Token(r, "other") != nil {
			t.Error("the handler sees a token that the request did not create")
		}
	}), v.Private, field)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/orders", strings.NewReader(`{"items":[{"card":"4242424242424242"},{"card":"5555555555554444"}]}`))
	r.Header.Set("Content-Type", "application/json")
	res := httptest.NewRecorder()
	h.ServeHTTP(res, r)
	if !called {
		t.Fatalf("%d %s", res.Code, res.Body)
	}
	got, err := v.Owner.GetToken(t.Context(), "card-4242-x")
	if err != nil || got.Containers[0] != "/own/" || got.Metadata["path"] != "/orders" || !got.ExpiresAt.Equal(vaulttest.Start.Add(time.Hour)) {
		t.Errorf("stored: %+v, %v", got, err)
	}
	logs, err := v.Management.ListLogs(t.Context(), vault.ListLogsParams{EntityID: "card-4444-x"})
	if err != nil || len(logs.Data) != 1 {
		t.Errorf("the token was read: %v, %v", logs, err)
	}
	if httptokenize.Token(r, "card-4242-x") != nil {
		t.Error("a request outside of the middleware has tokens")
	}
}

// Each request has the client that the function returns for it.
func TestRequestsByTenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	_, other := v.NewTenant(t, "Other")
	clients := map[string]*vault.Client{"acme": v.Owner.Client, "other": other.Client}
	seen := map[string]string{}
	h := httptokenize.RequestsBy(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := must.Get(io.ReadAll(r.Body))(t)
		seen[r.Host] = aToken.FindStringSubmatch(string(body))[1]
	}), func(r *http.Request) (*vault.Client, error) {
		if r.Host == "nobody" {
			return nil, vault.ErrUnauthenticated
		}
		return clients[r.Host], nil
	}, httptokenize.Field{Path: "card", Type: vault.TypeCardNumber})
	for host, status := range map[string]int{"acme": 200, "other": 200, "nobody": 401, "unknown": 401} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/orders", strings.NewReader(`{"card": "4242424242424242"}`))
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		h.ServeHTTP(res, r)
		must.Same(t, host, status, res.Code)
	}
	for host, c := range clients {
		must.Get(c.GetToken(t.Context(), seen[host]))(t)
	}
	must.Same(t, "requests that reached the handler", 2, len(seen))
}
