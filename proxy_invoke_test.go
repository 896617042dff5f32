package vault_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// echo is a destination that answers with the body that it got.
func echo(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	return server
}

// A browser stored the text of an expression. Code that forwards it forwards a
// text, and not the data of the token that it names.
func TestCodeForwardsDataAsItIs(t *testing.T) {
	t.Parallel()
	server := echo(t)
	hosted(t, func(ctx context.Context, v *vaulttest.Vault, _ *spy, host script.Host) {
		create(t, v.Private, vault.TokenParams{ID: "VICTIM", Type: vault.CardNumber, Data: visa})
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
			"when asked for":    {map[string]any{"body": map[string]any{"name": attack}, "detokenize": true}, `{"name":"` + visa + `"}`},
			"text, when asked":  {map[string]any{"body": "n " + attack, "detokenize": true}, `"n ` + visa + `"`},
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
			same(t, "a bad expression", hostError(err).Status, http.StatusBadRequest)
		}
		_, err := host.Call(ctx, "proxy.post", mustJSON(map[string]any{"proxyUrl": server.URL, "detokenize": "yes"}))
		same(t, "an option of another type", hostError(err).Status, http.StatusBadRequest)
	})
}

// Only bodies are filled in. A header or a parameter that is an expression of a
// token is a mistake of the sender; anything else there is not ours to judge.
func TestExpressionsOutsideOfTheBody(t *testing.T) {
	t.Parallel()
	server := echo(t)
	v, s := spiedWith(t, &vault.Config{Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	soon, later := v.Clock.Now().Add(time.Second), v.Clock.Now().Add(time.Hour)
	create(t, v.Private, vault.TokenParams{ID: "tok", Type: vault.Generic, Data: "secret"})
	create(t, v.Private, vault.TokenParams{ID: "card", Type: vault.Card, Data: vault.CardData{Number: visa}})
	create(t, v.Private, vault.TokenParams{ID: "later", Type: vault.Generic, Data: "secret", ExpiresAt: &later})
	create(t, v.Private, vault.TokenParams{ID: "gone", Type: vault.Generic, Data: "secret", ExpiresAt: &soon})
	v.Clock.Advance(time.Minute)
	_, other := v.NewTenant(t, "other")
	create(t, other, vault.TokenParams{ID: "theirs", Type: vault.Generic, Data: "secret"})
	general := private(t, v, rule(1, "/general/", vault.Reveal, "token:use"))
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
		"no token:use":           {private(t, v, rule(1, "/", vault.Reveal, "token:read")), "q={{tok}}", "{{ tok }}", nil, 0},
		"no token:use, no token": {private(t, v, rule(1, "/", vault.Reveal, "token:read")), "q={{nobody}}", "{{ nobody }}", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := v.Management.CreateProxy(t.Context(), vault.ProxyParams{Name: "x", DestinationURL: server.URL, RequireAuth: new(bool)})
			if err != nil {
				t.Fatal(err)
			}
			header := http.Header{"Authorization": {"Basic x"}}
			if tt.header != "" {
				header.Set("X-Name", tt.header)
			}
			read := 0
			s.before = func(call string, _ *storage.Change) error {
				if call == "Tokens" {
					read++
				}
				return nil
			}
			defer func() { s.before = nil }()
			answer, err := tt.c.InvokeProxy(t.Context(), vault.ProxyCall{Key: x.Key, Query: tt.query, Header: header})
			if tt.bad == nil && err != nil {
				t.Fatal(err)
			}
			if err == nil {
				answer.Body.Close()
			}
			if tt.bad != nil {
				wantFields(t, name, err, tt.bad...)
			}
			same(t, "reads of tokens", read, tt.reads)
		})
	}
}
