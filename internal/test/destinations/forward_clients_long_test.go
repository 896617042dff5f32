//go:build long

package destinations_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const stripePackage = "stripe@18.5.0"

// Stripe's unchanged package charges a card through the proxy at a server that
// responds as Stripe does.
func TestForwardProxyWithStripe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"client.cjs", "stripe.cjs"} {
		text, err := os.ReadFile("testdata/forward/" + name)
		if err == nil {
			err = os.WriteFile(dir+"/"+name, text, 0o600)
		}
		must.Do(t, err)
	}
	runClient(t, dir, os.Environ(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--prefix", ".", stripePackage)
	g := newGate(t, vault.Config{})
	var sent []string
	g.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		form, _ := url.ParseQuery(body) // what Stripe would read
		sent = append(sent, r.Header.Get("Authorization")+" "+form.Get("card[number]")+form.Get("amount"))
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/tokens" {
			_ = json.NewEncoder(rw).Encode(map[string]any{"id": "tok_1", "object": "token", "card": map[string]any{"number": form.Get("card[number]")}})
			return
		}
		fmt.Fprint(rw, `{"id":"ch_1","object":"charge","paid":true,"amount":4200}`)
	}
	got := runClient(t, dir, g.environ(t), "node", "stripe.cjs", g.url)
	given.Same(t, "the program sees", got, strings.Repeat("tok_1 {{ card }} true 4200\n", 2)+"400 Invalid input; source: Failed to detokenize some tokens: nobody.")
	one := []string{"Bearer sk_live_secret " + given.Visa, "Bearer sk_live_secret 4200"}
	given.Same(t, "the destination got", strings.Join(sent, "\n"), strings.Join(append(one, one...), "\n"))
}
