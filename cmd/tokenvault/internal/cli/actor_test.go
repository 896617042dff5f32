package cli_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestLogNamesTheOperator runs commands without USER, as cron, systemd and
// containers do.
func TestLogNamesTheOperator(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	delete(w.env, "USER")
	run := func(user string, args ...string) (string, int) {
		var out bytes.Buffer
		code := cli.RunAs(t.Context(), user, args, func(name string) string { return w.env[name] }, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		return out.String(), code
	}
	for name, c := range map[string]struct {
		user, want string
		args       []string
	}{
		"the user":         {"backup", `"actor_name":"backup"`, nil},
		"a number":         {"", `"actor_name":"uid `, nil},
		"as the flag says": {"backup", `"actor_name":"jane"`, []string{"--actor", "jane"}},
	} {
		id := strings.ReplaceAll(name, " ", "-")
		if out, code := run(c.user, append([]string{"token", "create", "--data", "x", "--id", id}, c.args...)...); code != 0 {
			t.Fatalf("%s: exit %d\n%s", name, code, out)
		}
		if out, _ := run("reader", "log", "list", "--entity-id", id, "--json"); !strings.Contains(out, c.want) {
			t.Errorf("%s: %s", name, out)
		}
	}
	if out, code := run("", "export", "--clear", "--yes"); code != 2 || !strings.Contains(out, "--actor") || strings.Contains(out, `"x"`) {
		t.Errorf("a plaintext export without an operator: exit %d\n%s", code, out)
	}
	if out, code := run("", "export", "--clear", "--yes", "--actor", "jane"); code != 0 || !strings.Contains(out, `"x"`) {
		t.Errorf("a plaintext export by jane: exit %d\n%s", code, out)
	}
}

// TestConsoleLink prints a link for a user. The log will name that user.
func TestConsoleLink(t *testing.T) {
	t.Parallel()
	key, file := vault.NewKey(), filepath.Join(t.TempDir(), "vault.db")
	openVault(t, file, key)
	w := &toolVault{t: t, env: map[string]string{"TOKENVAULT_MASTER_KEY": key.Text(), "TOKENVAULT_DB": file, "USER": "jane"}}
	w.says(0, "http://127.0.0.1:8081/?link=", "console", "link")
	w.says(0, "https://console.example.com/vault/?link=", "console", "link", "--console-url", "https://console.example.com/vault")
	w.says(0, `"role":"viewer","user":"jane"`, "console", "link", "--json", "--role", "viewer")
	w.says(2, "--console-url", "console", "link", "--console", "127.0.0.1:0")
	w.says(2, "viewer, operator or owner", "console", "link", "--role", "root")
	w.says(2, "https://console.example.com/", "console", "link", "--console-url", "console.example.com")
}

// TestVersion checks the output of the version command.
func TestVersion(t *testing.T) {
	t.Parallel()
	w := &toolVault{t: t, env: map[string]string{}}
	if first, second := w.must("version"), w.must("--version"); first != second || !strings.HasPrefix(first, "tokenvault ") || !strings.Contains(first, "schema  sqlite ") {
		t.Errorf("%q %q", first, second)
	}
	w.says(0, `"schema":{"postgres":`, "version", "--json")
}

// TestElements checks the integrity of elements.js, and that serve refuses wrong origins.
func TestElements(t *testing.T) {
	t.Parallel()
	w := &toolVault{t: t, env: map[string]string{}}
	sum := sha512.Sum384(must.Get(os.ReadFile("../../../../elements/page/elements.js"))(t))
	must.Same(t, "the integrity", "sha384-"+base64.StdEncoding.EncodeToString(sum[:])+"\n", w.must("elements", "sri"))
	w.says(2, "--elements needs --elements-origins", "serve", "--elements", "127.0.0.1:0")
	w.says(2, "* in --elements-origins", "serve", "--elements", "127.0.0.1:0", "--elements-origins", "https://shop.example,*")
	w.says(2, "without a path", "serve", "--elements", "127.0.0.1:0", "--elements-origins", "https://shop.example/pay")
}
