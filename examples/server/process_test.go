package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "vault-server-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(folder, "server")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic("go build: " + err.Error() + "\n" + string(out))
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// process is a running server.
type process struct {
	*exec.Cmd
	t      *testing.T
	folder string
	banner string
	stderr *bytes.Buffer // to be read after the end
	ended  chan error
}

// command returns a command that runs the program in a folder. The
// environment has only the given master key.
func command(folder, masterKey string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "TOKENVAULT_MASTER_KEY="+masterKey)
	return cmd
}

// start starts a server and waits until it listens.
func start(t *testing.T, folder string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: command(folder, "", append([]string{"-addr", "127.0.0.1:0", "-drain-delay", "0"}, args...)...), t: t, folder: folder,
		stderr: &bytes.Buffer{}, ended: make(chan error, 1)}
	p.Stderr = p.stderr
	stdout := must.Get(p.StdoutPipe())(t)
	must.Do(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		p.banner += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdout)
		p.ended <- p.Wait()
	}()
	if !strings.Contains(p.banner, "Ctrl-C") {
		t.Fatalf("the server did not start: %v\n%s", <-p.ended, p.stderr)
	}
	return p
}

// stop sends SIGTERM and expects the exit code 0.
func (p *process) stop() {
	p.t.Helper()
	must.Do(p.t, p.Process.Signal(syscall.SIGTERM))
	if err := <-p.ended; err != nil {
		p.t.Fatalf("after SIGTERM: %v\n%s", err, p.stderr)
	}
}

// curlLines returns the lines of the banner to paste.
func (p *process) curlLines() []string {
	var lines []string
	for line := range strings.Lines(p.banner) {
		if strings.HasPrefix(line, "curl ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// paste runs a line in a shell, as a person would.
func (p *process) paste(line string) string {
	p.t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = p.folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// credentials is the content of the credentials file, and the output of
// -new-tenant.
type credentials struct {
	BaseURL       string `json:"base_url"`
	TenantID      string `json:"tenant_id"`
	PublicKey     string `json:"public_key"`
	PrivateKey    string `json:"private_key"`
	ManagementKey string `json:"management_key"`
}

// credentials reads the credentials file of the folder.
func (p *process) credentials() *credentials {
	p.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(p.folder, "vault-credentials.json")))(p.t)
	c := &credentials{}
	must.Do(p.t, json.Unmarshal(text, c))
	return c
}

// call sends a request and returns status and body.
func call(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	req.Header.Set("SVC-API-KEY", key)
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(text)
}

// wants sends a request whose response must have a status, and returns the body.
func wants(t *testing.T, status int, method, url, key, body string) string {
	t.Helper()
	got, text := call(t, method, url, key, body)
	must.Same(t, method+" "+url+": "+text, status, got)
	return text
}
