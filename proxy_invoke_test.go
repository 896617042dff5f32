package vault_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/script"
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
