package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaultkms"
)

// keyProgram is the first argument of this test binary as the program of an exec:
// key. The second is a file with its behaviour.
const keyProgram = "key-program"

// rsaKey is the key of a program that anybody can encrypt for.
const rsaKey = "rsa"

// holdKey is the program of a key.
func holdKey(file string) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var in struct {
			ID   int64
			Data []byte
		}
		_ = json.Unmarshal(lines.Bytes(), &in)
		for i := range in.Data {
			in.Data[i] ^= 0x55
		}
		mode, _ := os.ReadFile(file)
		switch string(mode) {
		case rsaKey: // a ciphertext has the length of a modulus
			if len(in.Data) == 256 {
				in.Data = in.Data[:32]
			} else {
				in.Data = append(in.Data, make([]byte, 256-len(in.Data))...)
			}
			fmt.Printf(`{"id": %d, "data": "%s"}`+"\n", in.ID, base64.StdEncoding.EncodeToString(in.Data))
		case "denied":
			fmt.Printf(`{"id": %d, "error": "the key is disabled", "denied": true}`+"\n", in.ID)
		case "hanging":
		case "ended":
			os.Exit(1)
		default:
			fmt.Printf(`{"id": %d, "data": "%s"}`+"\n", in.ID, base64.StdEncoding.EncodeToString(in.Data))
		}
	}
}

// holder is an exec: key whose behaviour a file switches.
type holder struct{ file string }

func newHolder(t *testing.T) *holder {
	t.Helper()
	h := &holder{filepath.Join(t.TempDir(), "mode")}
	h.set(t, "ok")
	return h
}

func (h *holder) set(t *testing.T, mode string) {
	t.Helper()
	next := h.file + ".next" // the program reads the old mode or the new one
	must.Do(t, errors.Join(os.WriteFile(next, []byte(mode), 0o600), os.Rename(next, h.file)))
}

func (h *holder) uri() string { return "exec:" + os.Args[0] + " " + keyProgram + " " + h.file }

// kmsDatabase creates a vault with a tenant on PostgreSQL, and returns the
// environment for it without the key.
func kmsDatabase(t *testing.T, key string) []string {
	t.Helper()
	env := []string{"TOKENVAULT_DB=" + pgtest.URL(t), "TOKENVAULT_SCHEMA=" + pgtest.Schema(t), "TOKENVAULT_TENANT=Acme"}
	withKey := append(env[:len(env):len(env)], "TOKENVAULT_MASTER_KEY="+key)
	succeed(t, t.TempDir(), withKey, "migrate", "up")
	succeed(t, t.TempDir(), withKey, "tenant", "create", "Acme")
	return env
}

// load calls a server until it is stopped, and keeps when each status was last
// seen.
type load struct {
	mu    sync.Mutex
	last  map[int]time.Time
	calls map[int]int
	took  []time.Duration
	stop  chan struct{}
	ended sync.WaitGroup
}

func newLoad(t *testing.T, key string, urls ...string) *load {
	t.Helper()
	l := &load{last: map[int]time.Time{}, calls: map[int]int{}, stop: make(chan struct{})}
	for _, url := range urls {
		l.ended.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
				began := time.Now()
				l.note(call(url, key, n), began)
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

// call creates a token and returns the status, or 0 without a response.
func call(url, key string, n int) int {
	body := fmt.Sprintf(`{"type": "token", "data": "value %d"}`, n)
	req, err := http.NewRequest(http.MethodPost, url+"/tokens", strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("SVC-API-KEY", key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusServiceUnavailable && (res.Header.Get("Retry-After") == "" || !bytes.Contains(text, []byte(`"The key of this tenant is not available."`))) {
		return 0
	}
	return res.StatusCode
}

func (l *load) note(status int, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[status] = time.Now()
	l.calls[status]++
	l.took = append(l.took, time.Since(began))
}

// p99 returns the time that 99 % of the calls since the last p99 took at most.
func (l *load) p99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	p99 := l.took[len(l.took)*99/100]
	l.took = nil
	return p99.Round(100 * time.Microsecond)
}

// end stops the load, and returns the number of calls of each status.
func (l *load) end() map[int]int {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.ended.Wait()
	return l.calls
}

// until waits until the calls have had one status alone for 300 ms, and returns
// when another was last seen.
func (l *load) until(t *testing.T, status int) (other time.Time) {
	t.Helper()
	look, limit := time.NewTicker(20*time.Millisecond), time.After(2*time.Minute)
	defer look.Stop()
	for {
		select {
		case <-limit:
			t.Fatalf("calls do not become %d: %v", status, l.end())
		case <-look.C:
		}
		l.mu.Lock()
		seen := l.last[status]
		other = time.Time{}
		for s, at := range l.last {
			if s != status && at.After(other) {
				other = at
			}
		}
		l.mu.Unlock()
		if seen.Sub(other) > 300*time.Millisecond {
			return other
		}
	}
}

// TestKeyIsSwitched takes the key of two servers away in each way, and returns it.
func TestKeyIsSwitched(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	env := append(kmsDatabase(t, h.uri()), "TOKENVAULT_MASTER_KEY="+h.uri(), "TOKENVAULT_KEY_AGE=1s", "TOKENVAULT_KEY_GRACE=2s")
	key := apiKey(t, env)
	first, second := serve(t, t.TempDir(), env...), serve(t, t.TempDir(), env...)
	for _, mode := range []string{"denied", "ended", "hanging"} {
		l := newLoad(t, key, first.url, second.url)
		l.until(t, http.StatusCreated)
		off := time.Now()
		h.set(t, mode)
		served := l.until(t, http.StatusServiceUnavailable).Sub(off)
		on := time.Now()
		h.set(t, "ok")
		back := l.until(t, http.StatusCreated).Sub(on)
		calls := l.end()
		t.Logf("%s: the last success came %s after the switch, the last 503 %s after the return; calls: %v",
			mode, served.Round(time.Millisecond), back.Round(time.Millisecond), calls)
		if len(calls) != 2 {
			t.Errorf("%s: other outcomes than 201 and a 503 with its detail and Retry-After: %v", mode, calls)
		}
	}
}

// apiKey creates a private application, and returns its key.
func apiKey(t *testing.T, env []string) string {
	t.Helper()
	var app struct {
		Key string `json:"key"`
	}
	text := succeed(t, t.TempDir(), env, "app", "create", "--name", "load", "--type", "private", "--permission", "token:create", "--json")
	if err := json.Unmarshal([]byte(text), &app); err != nil || app.Key == "" {
		t.Fatalf("%v\n%s", err, text)
	}
	return app.Key
}

// TestRewrapOnline moves a vault from a key in a file to an exec: key and back,
// with two servers under load.
func TestRewrapOnline(t *testing.T) {
	t.Parallel()
	file, h := vault.NewKey().Text(), newHolder(t)
	env := kmsDatabase(t, file)
	key := apiKey(t, append(env, "TOKENVAULT_MASTER_KEY="+file))
	var before []*server
	var l *load
	for _, keys := range [][]string{{file, h.uri()}, {h.uri(), file}, nil, {file, h.uri()}, nil, {file}} {
		if keys == nil { // the servers have both keys, the new one first
			out := succeed(t, t.TempDir(), before[0].keys(env), "key", "rewrap", "--yes")
			must.Contain(t, "rewrap", out, "wrapped with the new master key")
			continue
		}
		now := append(env[:len(env):len(env)], "TOKENVAULT_MASTER_KEY="+keys[0])
		if len(keys) > 1 {
			now = append(now, "TOKENVAULT_OTHER_MASTER_KEY="+keys[1])
		}
		servers := []*server{serve(t, t.TempDir(), now...), serve(t, t.TempDir(), now...)}
		next := newLoad(t, key, servers[0].url, servers[1].url)
		next.until(t, http.StatusCreated)
		if l != nil {
			if calls := l.end(); len(calls) != 1 || calls[http.StatusCreated] == 0 {
				t.Errorf("calls: %v, want successes only", calls)
			}
		}
		for _, s := range before {
			_ = s.Process.Signal(syscall.SIGTERM)
			<-s.ended
		}
		before, l = servers, next
	}
	if calls := l.end(); len(calls) != 1 || calls[http.StatusCreated] == 0 {
		t.Errorf("calls: %v, want successes only", calls)
	}
	if out, err := command(t, t.TempDir(), append(env, "TOKENVAULT_MASTER_KEY="+h.uri()), "key", "check").CombinedOutput(); err == nil {
		t.Errorf("the former key still opens the vault: %s", out)
	}
}

// keys returns an environment with the keys of the server.
func (s *server) keys(env []string) []string {
	out := env[:len(env):len(env)]
	for _, variable := range s.Env {
		if strings.Contains(variable, "MASTER_KEY=") {
			out = append(out, variable)
		}
	}
	return out
}

// TestKilledRewrap kills key rewrap before its only write, while it waits for the row of
// the root, and after it. The vault always opens with both keys, and with the key that
// has wrapped the root.
func TestKilledRewrap(t *testing.T) {
	t.Parallel()
	h, old := newHolder(t), vault.NewKey()
	env := kmsDatabase(t, old.Text())
	opens := func(key vault.AEAD) bool {
		store := must.Get(postgres.OpenOptions(t.Context(), strings.TrimPrefix(env[0], "TOKENVAULT_DB="), &postgres.Options{Schema: strings.TrimPrefix(env[1], "TOKENVAULT_SCHEMA="), MaxConns: 2}))(t)
		v, err := vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1})
		if err != nil {
			must.Match(t, "a key that does not open", err, vault.ErrWrongKey)
			return false
		}
		defer v.Close()
		sum := must.Get(v.Totals(t.Context(), math.MaxInt))(t)
		must.Same(t, "tenants that open and that do not", [2]int{1, 0}, [2]int{sum.Tenants, sum.Unreadable})
		return true
	}
	held := must.Get(vaultkms.Open(t.Context(), h.uri()))(t)
	t.Cleanup(func() { must.Do(t, held.(io.Closer).Close()) })
	env = append(env, "TOKENVAULT_MASTER_KEY="+h.uri(), "TOKENVAULT_OTHER_MASTER_KEY="+old.Text())
	db := must.Get(sql.Open("postgres", pgtest.URL(t)))(t)
	defer db.Close()
	tx := must.Get(db.BeginTx(t.Context(), nil))(t)
	var holder int
	must.Do(t, tx.QueryRowContext(t.Context(), "SELECT pg_backend_pid() FROM "+strings.TrimPrefix(env[1], "TOKENVAULT_SCHEMA=")+
		".vault_records WHERE tenant_id = $1 AND kind = 'ring' FOR UPDATE", make([]byte, 16)).Scan(&holder))
	cmd := command(t, t.TempDir(), env, "key", "rewrap", "--yes")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for waits := false; !waits; {
		must.Do(t, db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))", holder).Scan(&waits))
		select {
		case err := <-ended:
			t.Fatalf("the command ended before it was killed: %v\n%s", err, &out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	_ = cmd.Process.Kill()
	must.Match(t, "the command", <-ended, must.Text("killed"))
	must.Same(t, "old, new and both keys after a kill", [3]bool{true, false, true}, [3]bool{opens(old), opens(held), opens(vault.JoinKeys(held, old))})
	must.Do(t, tx.Rollback()) // the database may now finish the write
	if !opens(vault.JoinKeys(held, old)) {
		t.Error("the vault does not open")
	}
	for range 2 { // also when it is done
		succeed(t, t.TempDir(), env, "key", "rewrap", "--yes")
		must.Same(t, "old, new and both keys", [3]bool{false, true, true}, [3]bool{opens(old), opens(held), opens(vault.JoinKeys(held, old))})
	}
}

// TestStartWithoutItsKey starts servers whose key is denied or does not respond.
func TestStartWithoutItsKey(t *testing.T) {
	t.Parallel()
	const retried = "it is tried again"
	h := newHolder(t)
	env := append(kmsDatabase(t, h.uri()), "TOKENVAULT_MASTER_KEY="+h.uri(), "TOKENVAULT_ADDR=127.0.0.1:0")
	h.set(t, "denied")
	out, err := command(t, t.TempDir(), env, "serve").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || bytes.Contains(out, []byte(retried)) {
		t.Errorf("denied: %v, want exit code 1 at once\n%s", err, out)
	}
	h.set(t, "ended")
	cmd := command(t, t.TempDir(), env, "serve")
	log := must.Get(cmd.StderrPipe())(t)
	cmd.Stdout = cmd.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	warnings, started := 0, false
	for lines := bufio.NewScanner(log); !started && lines.Scan(); {
		if strings.Contains(lines.Text(), retried) {
			warnings++
		}
		if warnings == 2 {
			h.set(t, "ok")
		}
		started = strings.Contains(lines.Text(), "listening")
	}
	if warnings < 2 || !started {
		t.Errorf("unreachable: %d warnings, started: %v", warnings, started)
	}
}

// TestKeyURIsHideSecrets checks what the tool says about keys and URIs.
func TestKeyURIsHideSecrets(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	env, secret := kmsDatabase(t, h.uri()), vault.NewKey().Text()
	for _, flag := range []string{"--master-key", "--other-master-key"} {
		out, err := command(t, t.TempDir(), env, "serve", flag, secret).CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || bytes.Contains(out, []byte(secret)) {
			t.Errorf("a key in %s: %v\n%s", flag, err, out)
		}
	}
	for _, uri := range []string{"awskms:///alias/k?region=x&token=hunter2", "hashivault://u:hunter2@k", "awskms:///k?region=x&Pin=hunter2", "exec:no-such-program --pin=hunter2"} {
		out, err := command(t, t.TempDir(), append(env, "TOKENVAULT_MASTER_KEY="+uri), "key", "check").CombinedOutput()
		if err == nil || bytes.Contains(out, []byte("hunter2")) {
			t.Errorf("%s: %v\n%s", uri, err, out)
		}
	}
	var report struct {
		URI    string `json:"uri"`
		Root   string `json:"root"`
		TookMS *int   `json:"took_ms"`
	}
	out := succeed(t, t.TempDir(), env, "key", "check", "--json", "--master-key", h.uri())
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.URI != "exec:"+filepath.Base(os.Args[0]) || report.TookMS == nil || len(report.Root) != 32 {
		t.Errorf("%v: %s", err, out)
	}
	must.Contain(t, "key check", succeed(t, t.TempDir(), env, "key", "check", "--master-key", h.uri()), report.Root)
}

// TestPublicKey runs a vault whose key anybody can encrypt for: the first command prints
// the fingerprint of the root, and later commands need it.
func TestPublicKey(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.set(t, rsaKey)
	env := []string{"TOKENVAULT_DB=" + filepath.Join(t.TempDir(), "vault.db"), "TOKENVAULT_MASTER_KEY=" + h.uri()}
	succeed(t, t.TempDir(), env, "migrate", "up")
	out := must.Get(command(t, t.TempDir(), env, "tenant", "create", "Acme").CombinedOutput())(t)
	found := regexp.MustCompile(`root=([0-9a-f]{32})`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no fingerprint: %s", out)
	}
	refused, err := command(t, t.TempDir(), env, "tenant", "list").CombinedOutput()
	if err == nil || !bytes.Contains(refused, []byte("--root")) || bytes.Contains(refused, found[1]) {
		t.Errorf("without the fingerprint: %v\n%s", err, refused)
	}
	must.Contain(t, "tenants", succeed(t, t.TempDir(), env, "tenant", "list", "--root", string(found[1])), "Acme")
	other := strings.Repeat("0", 32)
	wrong, err := command(t, t.TempDir(), env, "tenant", "list", "--root", other).CombinedOutput()
	if err == nil || bytes.Contains(wrong, found[1]) {
		t.Errorf("with another fingerprint: %v\n%s", err, wrong)
	}
}
