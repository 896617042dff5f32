package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// binary is the program under test, built once. It uses the same build
// settings as go vet, which has already compiled the packages. The long run
// also builds the program for the image.
var binary string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == keyProgram {
		holdKey(os.Args[2])
		return
	}
	folder, err := os.MkdirTemp("", "tokenvault-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "tokenvault")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic("go build: " + err.Error() + "\n" + string(out))
	}
	code := browser.Main(m)
	os.RemoveAll(folder)
	os.Exit(code)
}

// command returns a command that runs the program in a folder, with the given
// environment.
func command(t *testing.T, folder string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = folder
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}, env...)
	return cmd
}

// succeed runs a command that has to succeed, and returns its output.
func succeed(t *testing.T, folder string, env []string, args ...string) string {
	t.Helper()
	cmd := command(t, folder, env, args...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tokenvault %s: %v\n%s%s", strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}

// newDatabase creates a vault with a tenant, and returns the environment for
// it.
func newDatabase(t *testing.T, folder, db string) []string {
	t.Helper()
	env := []string{"TOKENVAULT_DB=" + db, "TOKENVAULT_MASTER_KEY=" + strings.TrimSpace(succeed(t, folder, nil, "key", "new")), "TOKENVAULT_TENANT=Acme"}
	succeed(t, folder, env, "migrate", "up")
	succeed(t, folder, env, "tenant", "create", "Acme")
	return env
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	env := newDatabase(t, folder, "vault.db")
	for want, args := range map[int][]string{
		0: {"tenant", "list"},
		1: {"token", "create", "--type", "card", "--data", `{"number":"1"}`},
		2: {"token", "nonsense"},
		3: {"token", "get", "nothing"},
	} {
		err := command(t, folder, env, args...).Run()
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		must.Same(t, fmt.Sprintf("tokenvault %v: exit", args), want, code)
	}
}

// TestKilledImportIsResumed kills an import in the middle, more than once,
// and resumes it until it is done. Every row must exist once. The rows come
// through a pipe that stays open until the kill, so that no import can finish
// before it.
func TestKilledImportIsResumed(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]func() string{
		"sqlite":   func() string { return "vault.db" },
		"postgres": func() string { return pgtest.URL(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			env := newDatabase(t, folder, db())
			args := []string{"import", "-", "--format", "csv", "--type", "token", "--resume", "state", "--json"}
			rows := long.Rounds(1000, 200_000)
			for range 2 {
				at := savedRows(folder) + rows/4
				rows = max(rows, killAt(t, command(t, folder, env, args...), folder, at))
			}
			last := command(t, folder, env, args...)
			last.Stdin = strings.NewReader(csvHead + csvRows(0, rows))
			var problems bytes.Buffer
			last.Stderr = &problems
			out, err := last.Output()
			var report struct{ Rows, Created, Skipped, Failed int }
			if err := errors.Join(err, json.Unmarshal(out, &report)); err != nil || report.Rows != rows || report.Failed != 0 {
				t.Errorf("%s%s%v", out, problems.String(), err)
			}
			stats := succeed(t, folder, env, "stats", "--json")
			if !strings.HasPrefix(stats, fmt.Sprintf(`{"tokens":%d,`, rows)) {
				t.Errorf("of %d rows: %s", rows, stats)
			}
		})
	}
}

const csvHead = "id,data\n"

// csvRows returns rows of a file. Half of them have an id.
func csvRows(first, end int) string {
	var rows strings.Builder
	for n := first; n < end; n++ {
		if n%2 == 0 {
			fmt.Fprintf(&rows, "row-%d", n)
		}
		fmt.Fprintf(&rows, ",value %d\n", n)
	}
	return rows.String()
}

// killAt sends rows to an import, kills it once its saved state has the given
// number of rows, and returns how many were sent.
func killAt(t *testing.T, cmd *exec.Cmd, folder string, rows int) (sent int) {
	t.Helper()
	in := must.Get(cmd.StdinPipe())(t)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	must.Do(t, cmd.Start())
	_, err := io.WriteString(in, csvHead)
	pace := time.NewTicker(20 * time.Millisecond) // a state is saved once a second
	defer pace.Stop()
	for err == nil && savedRows(folder) < rows {
		const chunk = 100
		_, err = io.WriteString(in, csvRows(sent, sent+chunk))
		sent += chunk
		if !long.Run {
			<-pace.C
		}
	}
	_ = cmd.Process.Kill()
	if wait := cmd.Wait(); err != nil || wait == nil {
		t.Fatalf("the import ended by itself after %d rows: %v\n%s", sent, err, problems.String())
	}
	return sent
}

// savedRows returns the number of rows in the saved state.
func savedRows(folder string) int {
	var state struct{ Rows int }
	if text, err := os.ReadFile(filepath.Join(folder, "state")); err == nil {
		_ = json.Unmarshal(text, &state) // on error, the previous state will do
	}
	return state.Rows
}

// TestProgramIsAWorker lets a runtime use the program to run tenants'
// code.
func TestProgramIsAWorker(t *testing.T) {
	t.Parallel()
	out, err := command(t, t.TempDir(), nil, "worker").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "WorkerPath") {
		t.Errorf("by hand: %v\n%s", err, out)
	}
	rt := jsruntime.New(&jsruntime.Options{WorkerPath: binary})
	defer rt.Close()
	must.Do(t, rt.Check(t.Context(), script.Program{Source: "module.exports = async req => ({raw: req.args})"}))
	must.Match(t, "code that throws", rt.Check(t.Context(), script.Program{Source: "throw new Error('no')"}), script.ErrInvalid)
}

// server is a running tokenvault serve.
type server struct {
	*exec.Cmd
	url   string
	ended chan error
}

// serve starts a server with the given environment.
func serve(t *testing.T, folder string, env ...string) *server {
	t.Helper()
	return startServer(t, command(t, folder, append(env, "TOKENVAULT_ADDR=127.0.0.1:0", "TOKENVAULT_DRAIN_DELAY=0s"), "serve"))
}

// startServer starts a server and waits until it listens. With --console it also
// waits for the console.
func startServer(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{Cmd: cmd, ended: make(chan error, 1)}
	out := must.Get(s.StdoutPipe())(t)
	var problems bytes.Buffer
	s.Stderr = &problems
	must.Do(t, s.Start())
	t.Cleanup(func() { _ = s.Process.Kill() })
	last := "listening at "
	if slices.Contains(cmd.Args, "--console") {
		last = "The console is at "
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "listening at "); ok {
			s.url = url
		}
		if strings.Contains(lines.Text(), last) {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		s.ended <- s.Wait()
	}()
	if s.url == "" {
		t.Fatalf("the server did not start: %v\n%s", <-s.ended, problems.String())
	}
	return s
}

// TestServeByEnvironment starts several servers on one database. They share
// the demo tenant, and exit with status 0. The other commands find the tables
// in the same schema.
func TestServeByEnvironment(t *testing.T) {
	t.Parallel()
	key := "TOKENVAULT_MASTER_KEY=" + vault.NewKey().Text()
	db, schema := "TOKENVAULT_DB="+pgtest.URL(t), "TOKENVAULT_SCHEMA="+pgtest.Schema(t)
	servers := make([]*server, 3)
	var all sync.WaitGroup
	for i := range servers {
		folder := t.TempDir()
		all.Go(func() { servers[i] = serve(t, folder, key, db, schema, "TOKENVAULT_DEMO=true") })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for _, s := range servers {
		res := must.Get(http.Get(s.url + "/readyz"))(t)
		res.Body.Close()
		must.Same(t, s.url, http.StatusOK, res.StatusCode)
	}
	folder := t.TempDir()
	if out := succeed(t, folder, []string{key, db, schema}, "tenant", "list", "--json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"name":"Demo"`) {
		t.Errorf("tenants: %s", out)
	}
	for _, s := range servers {
		must.Do(t, s.Process.Signal(syscall.SIGTERM))
		must.Match(t, "after SIGTERM", <-s.ended, nil)
	}
	quiet := serve(t, folder, key, db, schema)
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("without a demo there are files: %v %v", entries, err)
	}
	_ = quiet.Process.Kill()
}

// TestBashCompletes gets completions from a real bash.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for line, want := range map[string]string{
		"tokenvault tok":                "token tokenize",
		"tokenvault token ":             "create delete get list search update",
		"tokenvault token list --li":    "--limit",
		"tokenvault completion ":        "bash fish zsh",
		"tokenvault tenant create --en": "--ensure",
	} {
		words := strings.Split(line, " ")
		quoted := make([]string, len(words))
		for i, word := range words {
			quoted[i] = "'" + word + "'"
		}
		program := fmt.Sprintf(`eval "$(tokenvault completion bash)"; COMP_WORDS=(%s); COMP_CWORD=%d; _tokenvault; echo "${COMPREPLY[@]}"`,
			strings.Join(quoted, " "), len(words)-1)
		cmd := exec.CommandContext(t.Context(), bash, "-c", program)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q, want %q (%v)", line, got, want, err)
		}
	}
}

// TestDocumentedCommands runs the commands of operations.md in a shell.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/operations.md"))(t)
	_, block, found := strings.Cut(string(text), "```sh\ntokenvault migrate up")
	block, _, closed := strings.Cut("tokenvault migrate up"+block, "```")
	if !found || !closed {
		t.Fatal("operations.md has no such block")
	}
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, "cards.csv"), []byte("ref,pan\ncard-1,4242424242424242\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", block)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "TOKENVAULT_EGRESS_URL=http://127.0.0.1:1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Imported 1 row: 1 created") || !strings.Contains(string(out), "Tokens  1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
