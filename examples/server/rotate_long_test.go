//go:build long && linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

// rotationRun is a run of -rotate-keys next to a server.
type rotationRun struct {
	name           string
	server         *process
	width          int // of the terminal; negative for no terminal
	terminal       *terminaltest.Terminal
	stdout, stderr lockedBuffer
	ended          chan error
	over           bool
}

// TestRotateKeysWhileServersRun rotates on both databases, with and without a
// terminal, all concurrently while servers write. A rotation mostly waits.
func TestRotateKeysWhileServersRun(t *testing.T) {
	t.Parallel()
	var runs []*rotationRun
	for _, c := range []struct {
		name, db, which string
		width           int
	}{
		{"one tenant, no terminal", "vault.db", "", -1},
		{"all tenants, no terminal", pgtest.URL(t), "all", -1},
		{"terminal", "vault.db", "all", 80},
		{"narrow terminal", "vault.db", "", 24},
	} {
		p := start(t, t.TempDir(), "-db", c.db)
		makeTokens(t, p)
		if c.which == "" {
			c.which = p.credentials().TenantID
		}
		runs = append(runs, startRotation(t, c.name, p, c.width, "-db", c.db, "-rotate-keys", c.which))
	}
	if n := writeDuringRotations(t, runs); n < 10 {
		t.Errorf("%d writes during the rotations", n)
	}
	for _, r := range runs {
		r.checkVault(t)
		r.checkOutput(t)
		r.server.stop()
	}
}

// makeTokens creates tokens for a rotation.
func makeTokens(t *testing.T, p *process) {
	t.Helper()
	c := p.credentials()
	values := make([]string, 1000)
	for i := range values {
		values[i] = fmt.Sprintf("value %d", i)
	}
	body := must.Get(json.Marshal(values))(t)
	if status, text := call(t, "POST", c.BaseURL+"/tokenize", c.PrivateKey, string(body)); status != http.StatusOK {
		t.Fatalf("tokenize: %d %s", status, text)
	}
}

func startRotation(t *testing.T, name string, p *process, width int, args ...string) *rotationRun {
	t.Helper()
	r := &rotationRun{name: name, server: p, width: width, ended: make(chan error, 1)}
	cmd := command(p.folder, "", args...)
	cmd.Stdout, cmd.Stderr = &r.stdout, &r.stderr
	if width >= 0 {
		r.terminal = terminaltest.New(t, width)
		cmd.Stderr = r.terminal.TTY
	}
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go func() { r.ended <- cmd.Wait() }()
	return r
}

// writeDuringRotations writes tokens to all servers and reads them until the last
// rotation is over. It returns their number.
func writeDuringRotations(t *testing.T, runs []*rotationRun) int {
	t.Helper()
	pace := time.NewTicker(50 * time.Millisecond) // the machine has other tests to run
	defer pace.Stop()
	for n, left := 0, len(runs); ; n++ {
		for _, r := range runs {
			select {
			case err := <-r.ended:
				if left, r.over = left-1, true; err != nil {
					t.Errorf("%s: %v\n%s", r.name, err, r.stderr.String())
				}
			default:
			}
			if r.over {
				continue
			}
			c, id := r.server.credentials(), fmt.Sprintf("meanwhile-%d", n)
			body := fmt.Sprintf(`{"id":%q,"type":"token","data":"a value"}`, id)
			if status, text := call(t, "POST", c.BaseURL+"/tokens", c.PrivateKey, body); status != http.StatusCreated {
				t.Errorf("%s: create: %d %s", r.name, status, text)
			}
			if status, text := call(t, "GET", c.BaseURL+"/tokens/"+id, c.PrivateKey, ""); status != http.StatusOK {
				t.Errorf("%s: read: %d %s", r.name, status, text)
			}
		}
		if left == 0 {
			return n
		}
		<-pace.C
	}
}

// checkVault checks that the old key was destroyed, and nothing else was
// lost.
func (r *rotationRun) checkVault(t *testing.T) {
	t.Helper()
	c := r.server.credentials()
	if _, logs := call(t, "GET", c.BaseURL+"/logs?entity_type=tenant", c.ManagementKey, ""); !strings.Contains(logs, "Data keys before 2 destroyed") {
		t.Errorf("%s: the old key was not destroyed: %s", r.name, logs)
	}
	_, list := call(t, "GET", c.BaseURL+"/tokens?size=100&page=5", c.PrivateKey, "")
	if got := strings.Count(list, `"data":"XXX`); got != 100 {
		t.Errorf("%s: %d of 100 tokens are read", r.name, got)
	}
}

var rotatedLine = regexp.MustCompile(`^Rotated the keys of (tenant [0-9a-f-]{36}|all tenants \([0-9]+\)): 1[0-9]{3} rows resealed in ([0-9]+m)?[0-9]+s\.\n$`)

// checkOutput checks that there is one line. On a terminal, progress must
// have been drawn within its width, and erased.
func (r *rotationRun) checkOutput(t *testing.T) {
	t.Helper()
	if got := r.stdout.String(); !rotatedLine.MatchString(got) {
		t.Errorf("%s: printed %q", r.name, got)
	}
	if r.width < 0 {
		if got := r.stderr.String(); got != "" {
			t.Errorf("%s: without a terminal there is %q", r.name, got)
		}
		return
	}
	drawn := r.terminal.Finish()
	if left := terminaltest.Screen(drawn); left != "" {
		t.Errorf("%s: left on the screen: %q", r.name, left)
	}
	seen := terminaltest.States(drawn)
	if len(seen) < 20 || !strings.Contains(seen[0], "Rotating keys") {
		t.Errorf("%s: drawn: %q", r.name, seen)
	}
	for _, state := range seen {
		if len(state) >= r.width {
			t.Errorf("%s: %q is too long for %d columns", r.name, state, r.width)
		}
	}
}
