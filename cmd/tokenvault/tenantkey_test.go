package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestTenantKeyIsSwitched takes the own key of a tenant away in each way, on two servers
// with a second tenant, and returns it.
func TestTenantKeyIsSwitched(t *testing.T) {
	t.Parallel()
	h, master := newHolder(t), vault.NewKey().Text()
	env := append(kmsDatabase(t, master), "TOKENVAULT_MASTER_KEY="+master, "TOKENVAULT_KEY_AGE=1s", "TOKENVAULT_KEY_GRACE=2s")
	succeed(t, t.TempDir(), env, "tenant", "create", "Other")
	key, otherKey := apiKey(t, env), apiKey(t, append(env, "TOKENVAULT_TENANT=Other"))
	first, second := serve(t, t.TempDir(), env...), serve(t, t.TempDir(), env...)
	l, other := newLoad(t, key, first.url, second.url), newLoad(t, otherKey, first.url, second.url)
	succeed(t, t.TempDir(), env, "token", "create", "--id", "tok-1", "--data", "x")
	succeed(t, t.TempDir(), env, "tenant", "set-key", "Acme", h.uri())
	if calls := l.end(); len(calls) != 1 || calls[http.StatusCreated] == 0 {
		t.Errorf("calls while the key is set: %v, want successes only", calls)
	}
	for _, mode := range []string{"denied", "ended", "hanging"} {
		l := newLoad(t, key, first.url, second.url)
		other.p99()
		l.until(t, http.StatusCreated)
		before, off := other.p99(), time.Now()
		h.set(t, mode)
		served := l.until(t, http.StatusServiceUnavailable).Sub(off)
		if mode == "denied" {
			checkDenied(t, env, first.url)
		}
		during, on := other.p99(), time.Now()
		h.set(t, "ok")
		back := l.until(t, http.StatusCreated).Sub(on)
		calls := l.end()
		t.Logf("%s: the last success came %s after the switch, the last 503 %s after the return; calls: %v; p99 of the other tenant: %s before, %s during",
			mode, served.Round(time.Millisecond), back.Round(time.Millisecond), calls, before, during)
		if len(calls) != 2 {
			t.Errorf("%s: other outcomes than 201 and a 503 with its detail and Retry-After: %v", mode, calls)
		}
	}
	if calls := other.end(); len(calls) != 1 || calls[http.StatusCreated] == 0 {
		t.Errorf("calls of the other tenant: %v, want successes only", calls)
	}
	succeed(t, t.TempDir(), env, "tenant", "set-key", "Acme", "--remove")
	entries := succeed(t, t.TempDir(), env, "log", "list", "--operation", "key", "--json")
	var messages []string
	for _, m := range regexp.MustCompile(`"message":"(Key [a-z ]*[a-z])`).FindAllStringSubmatch(entries, -1) {
		messages = append(messages, m[1])
	}
	messages = slices.Compact(messages) // nodes that see a change at the same time each have an entry
	back := "Key available again"       // newest first
	must.Same(t, "entries", []string{"Key removed", back, "Key unreachable", back, "Key unreachable", back, "Key denied", "Key set"}, messages)
	t.Logf("%s", succeed(t, t.TempDir(), env, "log", "verify"))
	h.set(t, "denied")
	succeed(t, t.TempDir(), env, "token", "get", "tok-1")
}

// TestToolWithADeniedTenant checks a backup with a tenant whose own key is denied,
// erases a token of the tenant, and deletes it.
func TestToolWithADeniedTenant(t *testing.T) {
	t.Parallel()
	h, dir := newHolder(t), t.TempDir()
	env := newDatabase(t, dir, "vault.db")
	succeed(t, dir, env, "token", "create", "--id", "tok-1", "--data", "x")
	var tenant struct{ ID string }
	if out := succeed(t, dir, env, "tenant", "set-key", "Acme", h.uri(), "--json"); json.Unmarshal([]byte(out), &tenant) != nil || tenant.ID == "" {
		t.Fatal(out)
	}
	succeed(t, dir, env, "tenant", "create", "Other")
	succeed(t, dir, env, "backup", "backup.db")
	h.set(t, "denied")
	out := succeed(t, dir, env, "restore", "backup.db", "--check")
	must.Contain(t, "restore", out, "2 tenants, 0 tokens, and 0 read. The own keys of 1 tenant are not available")
	erase := []string{"erase", "--id", "tok-1", "--reason", "case 1"}
	if out, err := command(t, dir, env, erase...).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("use its id")) {
		t.Errorf("an erasure by the name of the tenant: %v\n%s", err, out)
	}
	env = append(env, "TOKENVAULT_TENANT="+tenant.ID)
	succeed(t, dir, env, erase...)
	must.Contain(t, "the log", succeed(t, dir, env, "log", "list", "--operation", "delete", "--json"), "Token erased (unopened)")
	succeed(t, dir, env, "tenant", "delete", tenant.ID, "--yes")
	if tenants := succeed(t, dir, env, "tenant", "list"); strings.Contains(tenants, "Acme") || !strings.Contains(tenants, "Other") {
		t.Errorf("the tenants: %s", tenants)
	}
}

// checkDenied checks what the operator gets and sees while the key of a tenant is
// denied.
func checkDenied(t *testing.T, env []string, url string) {
	t.Helper()
	out, err := command(t, t.TempDir(), env, "detokenize", "{{ tok-1 }}").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !bytes.Contains(out, []byte("denies its use")) {
		t.Errorf("detokenize with the master key: %v\n%s", err, out)
	}
	out, _ = command(t, t.TempDir(), env, "doctor").CombinedOutput()
	if !regexp.MustCompile(`warning +key +the key of tenant \S+ is denied`).Match(out) {
		t.Errorf("doctor:\n%s", out)
	}
	res := must.Get(http.Get(url + "/metrics"))(t)
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for _, want := range []string{`vault_tenant_keys{state="denied"} 1`, `vault_tenant_keys{state="ok"} 0`, "vault_tenants 2"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
