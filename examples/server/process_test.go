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
	"sync"
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
	stderr *lockedBuffer
	ended  chan error
}

// lockedBuffer collects output that can be read concurrently.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
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
		stderr: &lockedBuffer{}, ended: make(chan error, 1)}
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

// paste runs a line in a shell, as a person would. If curl is missing, it
// sends the same request.
func (p *process) paste(line string) string {
	p.t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		return p.sendLine(line)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = p.folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// sendLine sends the request that a curl line of the banner describes.
func (p *process) sendLine(line string) string {
	p.t.Helper()
	method, target, body, header, end := "GET", "", "", http.Header{}, ""
	client := &http.Client{}
	words := shellWords(line)
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-sS":
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-w":
			i++
			end = strings.ReplaceAll(words[i], `\n`, "\n")
		case "-d":
			i++
			method, body = "POST", words[i]
		case "--cacert":
			i++
			client.Transport = trusting(p.t, filepath.Join(p.folder, words[i]))
		default:
			target = words[i]
		}
	}
	req := must.Get(http.NewRequestWithContext(p.t.Context(), method, target, strings.NewReader(body)))(p.t)
	req.Header = header
	res := must.Get(client.Do(req))(p.t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(p.t)
	return string(text) + end
}

// shellWords splits a line at spaces, but not within single quotes, as a
// shell does.
func shellWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
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
