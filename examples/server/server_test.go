package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

const genericToken = `{"id":"a-token","type":"token","data":"secret-value"}`

func TestBannerCanBePasted(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	lines := p.curlLines()
	if len(lines) != 3 {
		t.Fatalf("%d curl lines:\n%s", len(lines), p.banner)
	}
	for range 2 { // pasting twice is harmless
		for i, want := range []string{`"number":"XXXXXXXXXXXX4242"`, `"number":"XXXXXXXXXXXX4242"`, `"data":"XXX-XX-6789"`} {
			out := p.paste(lines[i])
			if !strings.Contains(out, want) || strings.Contains(out, "4242424242424242") || !strings.HasSuffix(out, "}\n") {
				t.Errorf("%s\nanswered %q", lines[i], out)
			}
		}
	}
	c := p.credentials()
	for _, key := range []string{c.BaseURL, c.TenantID, c.PublicKey, c.PrivateKey, c.ManagementKey} {
		if key == "" || !strings.Contains(p.banner, key) {
			t.Errorf("%q is not in the banner", key)
		}
	}
	for _, file := range []string{"vault.key", "vault-credentials.json"} {
		must.Same(t, file, fs.FileMode(0o600), must.Get(os.Stat(filepath.Join(p.folder, file)))(t).Mode().Perm())
	}
	metrics := wants(t, 200, "GET", c.BaseURL+"/metrics", "", "")
	must.Contain(t, "the metrics", metrics, `vault_http_requests_total{method="POST",route="/tokens",status="201"} 2`)
	must.Contain(t, "the metrics", metrics, "vault_runtime_crashes_total 0")
	p.stop()
	for _, secret := range []string{"key_pub_", "key_prv_", "42424242"} {
		must.Lack(t, "the log", p.stderr.String(), secret)
	}
}

func TestPermissionsOfDemoApplications(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	c := p.credentials()
	for key, want := range map[string]string{
		c.PublicKey:     "token:create token:update",
		c.PrivateKey:    "token:create token:read token:update token:delete token:search token:use",
		c.ManagementKey: "", // everything else
	} {
		_, body := call(t, "GET", c.BaseURL+"/applications/key", key, "")
		var app vault.Application
		must.Do(t, json.Unmarshal([]byte(body), &app))
		if got := strings.Trim(fmt.Sprint(app.Permissions), "[]"); want != "" && got != want {
			t.Errorf("%s: %s", app.Type, got)
		}
		if app.Type == vault.ApplicationManagement && (len(app.Permissions) != 17 || strings.Contains(body, "token:")) {
			t.Errorf("management: %v", app.Permissions)
		}
	}
	p.stop()
}

// A restart keeps keys and tokens. Keys that do not work in another database are
// replaced.
func TestRestartKeepsKeysAndTokens(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	p := start(t, folder)
	before := p.credentials()
	wants(t, 201, "POST", before.BaseURL+"/tokens", before.PublicKey, genericToken)
	p.stop()

	p = start(t, folder)
	after := p.credentials()
	sameKeys := *after
	sameKeys.BaseURL = before.BaseURL
	must.Same(t, "the keys changed", *before, sameKeys)
	wants(t, 200, "GET", after.BaseURL+"/tokens/a-token", before.PrivateKey, "")
	for _, line := range p.curlLines() {
		must.Lack(t, line+" answered", p.paste(line), `"status"`)
	}
	p.stop()

	p = start(t, folder, "-db", "other.db")
	other := p.credentials()
	if other.PrivateKey == before.PrivateKey {
		t.Error("keys of another database were kept")
	}
	wants(t, 200, "GET", other.BaseURL+"/tokens", other.PrivateKey, "")
	p.stop()
}

func TestNewTenantWhileTheServerRuns(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]func(*testing.T) string{
		"sqlite":   func(*testing.T) string { return "vault.db" },
		"postgres": func(t *testing.T) string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, dsn := t.TempDir(), db(t)
			p := start(t, folder, "-db", dsn)
			var stderr bytes.Buffer
			cmd := command(folder, "", "-db", dsn, "-new-tenant", "Acme")
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var c credentials
			if err := json.Unmarshal(out, &c); err != nil || strings.Count(string(out), "\n") != 1 {
				t.Fatalf("not one line of JSON: %s", out)
			}
			wants(t, 201, "POST", c.BaseURL+"/tokens", c.PublicKey, genericToken)
			wants(t, 200, "GET", c.BaseURL+"/tokens/a-token", c.PrivateKey, "")
			wants(t, 404, "GET", c.BaseURL+"/tokens/a-token", p.credentials().PrivateKey, "")
			must.Contain(t, "the tenant", wants(t, 200, "GET", c.BaseURL+"/tenants/self", c.ManagementKey, ""), `"name":"Acme"`)
			p.stop()
		})
	}
}

func TestSIGTERMLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	c := p.credentials()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(c.BaseURL, "http://")))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "POST /tokens HTTP/1.1\r\nHost: x\r\nSVC-API-KEY: "+c.PublicKey+
		"\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"))(t)
	answers := bufio.NewReader(conn)
	must.Contain(t, "line", must.Get(answers.ReadString('\n'))(t), "100 Continue")
	must.Get(answers.ReadString('\n'))(t)
	must.Do(t, p.Process.Signal(syscall.SIGTERM))
	p.waitUntilClosed(strings.TrimPrefix(c.BaseURL, "http://"))
	chunk := "35\r\n" + genericToken + "\r\n0\r\n\r\n"
	if len(genericToken) != 0x35 {
		t.Fatalf("the chunk has %x bytes", len(genericToken))
	}
	must.Get(io.WriteString(conn, chunk))(t)
	res := must.Get(http.ReadResponse(answers, nil))(t)
	defer res.Body.Close()
	must.Same(t, "status", 201, res.StatusCode)
	if err := <-p.ended; err != nil {
		t.Errorf("exit: %v\n%s", err, p.stderr)
	}
}

// During the drain delay the server still serves. A second signal ends it at once.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "-drain-delay", "1h")
	c := p.credentials()
	must.Do(t, p.Process.Signal(syscall.SIGTERM))
	for {
		if status, _ := call(t, "GET", c.BaseURL+"/readyz", "", ""); status == http.StatusServiceUnavailable {
			break
		}
	}
	wants(t, http.StatusCreated, "POST", c.BaseURL+"/tokens", c.PublicKey, genericToken)
	must.Do(t, p.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	if err := <-p.ended; !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("after the second signal: %v", err)
	}
}

// waitUntilClosed waits until the server accepts no more connections.
func (p *process) waitUntilClosed(addr string) {
	p.t.Helper()
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
		<-pace.C
	}
}

func TestMasterKeyFromEnvironmentTakesPrecedence(t *testing.T) {
	t.Parallel()
	folder, key := t.TempDir(), vault.NewKey().Text()
	if out, err := command(folder, key, "-new-tenant", "Acme").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must.Fail(os.Stat(filepath.Join(folder, "vault.key")))(t, "a key file was created", fs.ErrNotExist)
	// Without it, a new key would have to be created, and it would open
	// nothing.
	out, err := command(folder, "", "-new-tenant", "Acme").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "TOKENVAULT_MASTER_KEY") {
		t.Errorf("%v\n%s", err, out)
	}
	must.Fail(os.Stat(filepath.Join(folder, "vault.key")))(t, "a key that opens nothing was left", fs.ErrNotExist)
	if out, err := command(folder, key, "-new-tenant", "Acme 2").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestConcurrentFirstStartsAgreeOnTheMasterKey(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if out, err := command(folder, "", "-new-tenant", "Acme").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
}

func TestPrivateEgressNeedsAFlag(t *testing.T) {
	t.Parallel()
	for status, args := range map[int][]string{400: nil, 201: {"-allow-private-egress"}} {
		p := start(t, t.TempDir(), args...)
		c := p.credentials()
		wants(t, status, "POST", c.BaseURL+"/proxies", c.ManagementKey, `{"name":"x","destination_url":"http://127.0.0.1:1"}`)
		p.stop()
	}
}

func TestForeignFileIsNotChanged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "precious.txt")
	must.Do(t, os.WriteFile(file, []byte("precious"), 0o600))
	out, err := command(folder, "", "-addr", "127.0.0.1:0", "-credentials", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not hold credentials") {
		t.Errorf("%v\n%s", err, out)
	}
	if text, _ := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("the file now contains %s", text)
	}
}
