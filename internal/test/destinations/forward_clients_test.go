package destinations_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// environ returns the environment of a client that uses the proxy.
func (g *gate) environ(t testing.TB) []string {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(ca, g.ca(t), 0o600))
	return append(os.Environ(), "CA="+ca, "PROXY=http://x:"+g.pass+"@"+g.proxy, "BODY="+cardExpression, "NO_PROXY=", "no_proxy=")
}

// runClient runs a program of the machine.
func runClient(t *testing.T, dir string, env []string, program ...string) string {
	t.Helper()
	path, err := exec.LookPath(program[0])
	if err != nil {
		t.Skipf("%s is not installed", program[0])
	}
	cmd := exec.CommandContext(t.Context(), path, program[1:]...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// Clients that others wrote accept the certificates for addresses and for names,
// and send what the program means.
func TestForwardProxyWithOtherClients(t *testing.T) {
	t.Parallel()
	g := newGate(t, vault.Config{})
	g.answer = func(rw http.ResponseWriter, r *http.Request, body string) {
		filled := body == `{"number":"`+given.Visa+`"}`
		fmt.Fprint(rw, filled, r.Header.Get("Authorization"), body)
	}
	env := g.environ(t)
	ca := strings.TrimPrefix(env[len(os.Environ())], "CA=")
	curl := []string{"curl", "-sS", "--proxy", "http://x:" + g.pass + "@" + g.proxy, "--cacert", ca, "-w", " %{http_code}",
		"-H", "Authorization: Bearer {{ secret }}", "-H", "Content-Type: application/json", "-d", cardExpression}
	for name, client := range map[string][]string{
		"curl": curl, "curl with Expect": append(curl, "-H", "Expect: 100-continue"),
		"Python": {"python3", "client.py"}, "Node": {"node", "client.cjs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runClient(t, "testdata/forward", env, append(client, g.url+"/v1/charges")...)
			must.Contain(t, "an address: got", got, "200")
			must.Contain(t, "an address: got", got, `trueBearer {{ secret }}{"number":"{{ card }}"}`)
			named := strings.Replace(g.url, "127.0.0.1", "localhost", 1) // the key is not for this destination
			if got := runClient(t, "testdata/forward", env, append(client, named)...); !strings.Contains(got, "403") || !strings.Contains(got, "proxy_error") {
				t.Errorf("a name: %s", got)
			}
		})
	}
}
