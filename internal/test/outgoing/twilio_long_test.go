//go:build long

package outgoing

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const twilioPackage = "twilio@5.8.0"

// Twilio's unchanged package sends messages through the proxy to a server that responds
// as Twilio does. The key may create messages, and may not delete them.
func TestTwilioThroughTheForwardProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := must.Get(os.ReadFile("testdata/twilio.cjs"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "twilio.cjs"), text, 0o600))
	run(t, dir, nil, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--prefix", ".", twilioPackage)
	const account = "AC00000000000000000000000000000001"
	var mu sync.Mutex
	var sent []string
	g := newGate(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		user, given, _ := r.BasicAuth()
		sent = append(sent, user+" "+given+" "+r.Method+" "+r.PostFormValue("Body"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"sid": "SM1", "body": r.PostFormValue("Body") + " for " + given, "account_sid": account})
	}))
	key := g.key(t, "POST "+g.to+"/2010-04-01/Accounts/"+account+"/Messages.json")
	got := run(t, dir, []string{"HTTP_PROXY=http://x:" + key + "@" + g.proxy, "NODE_EXTRA_CA_CERTS=" + g.caFile(t), "no_proxy=", "NO_PROXY=", "NODE_NO_WARNINGS=1"}, "node", "twilio.cjs", g.url)
	lines := strings.Split(got, "\n")
	if len(lines) != 3 {
		t.Fatalf("the program printed %q", got)
	}
	must.Same(t, "the program sees", "SM1 order & 0 for {{ secret }}\nSM1 order & 1 for {{ secret }}", strings.Join(lines[:2], "\n"))
	must.Contain(t, "a deletion", lines[2], "403")
	must.Same(t, "the destination got", account+" "+password+" POST order & 0\n"+account+" "+password+" POST order & 1", strings.Join(sent, "\n"))
}
