package jsruntime_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// packagesDiffer lists the packages whose use has a different result here than
// in Node, with the reason. docs/reactors.md lists them too.
var packagesDiffer = map[string]string{}

// TestPackagesAgainstNode installs packages that are popular in such code, and
// compares a small use of each with Node. The short run compares a few of them
// with the installed Node, and the long run all of them with Node 16.
func TestPackagesAgainstNode(t *testing.T) {
	t.Parallel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	dir, node := install(t, npm)
	uses := readUses(t, dir)
	args := useArgs(t)
	want := runInNode(t, node, dir, uses, args)
	r := newWorkers(t, &jsruntime.Options{Modules: dir, CheckTimeout: useTimeout})
	got := runHere(r, uses, args)
	for _, u := range uses {
		if reason := packagesDiffer[u.name]; (got[u.name] == want[u.name]) == (reason != "") {
			t.Errorf("%s: got %s\nNode has %s\nknown to differ: %q", u.name, got[u.name], want[u.name], reason)
		}
		if strings.HasPrefix(want[u.name], "throws") {
			t.Errorf("%s fails in Node: %s", u.name, want[u.name])
		}
	}
	if want := long.Rounds(10, 39); len(uses) != want {
		t.Errorf("%d packages were used, want %d", len(uses), want)
	}
}

// use is a small use of a package.
type use struct{ name, code string }

// readUses returns the uses of the packages that are installed in a folder.
func readUses(t *testing.T, dir string) []use {
	t.Helper()
	var out []use
	for name, code := range readParts(t, "testdata/packages/uses.js") {
		if _, err := os.Stat(filepath.Join(dir, "node_modules", name)); err == nil {
			out = append(out, use{name, code})
		}
	}
	return out
}

// readParts reads a file of JavaScript. Its parts begin with a name after four
// slashes.
func readParts(t testing.TB, file string) iter.Seq2[string, string] {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return func(yield func(name, code string) bool) {
		for _, part := range strings.Split(string(text), "//// ")[1:] {
			if name, code, _ := strings.Cut(part, "\n"); !yield(name, code) {
				return
			}
		}
	}
}

// nodePath returns the path of Node, or skips the test.
func nodePath(t testing.TB) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	return node
}

// install installs packages of testdata, and in the long run Node 16. It
// returns the folder of the packages and the path of Node.
func install(t *testing.T, npm string) (dir, node string) {
	t.Helper()
	dir = t.TempDir()
	from := "testdata/packages/few/"
	if long.Run {
		from = "testdata/packages/"
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text := must.Get(os.ReadFile(from + name))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	must.Do(t, npmRun(t.Context(), npm, dir, "ci"))
	if long.Run {
		return dir, installNode(t, npm)
	}
	return dir, nodePath(t)
}

// installNode installs Node 16 and returns its path.
func installNode(t *testing.T, npm string) string {
	t.Helper()
	dir := t.TempDir()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	name := "node-" + runtime.GOOS + "-" + arch
	must.Do(t, npmRun(t.Context(), npm, dir, "install", "--no-save", name+"@16.20.2"))
	return filepath.Join(dir, "node_modules", name, "bin", "node")
}

func npmRun(ctx context.Context, npm, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, npm, append(args, "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// useArgs returns the arguments of all uses: keys, and a server to connect to.
func useArgs(t *testing.T) json.RawMessage {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(mirror))
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().(*net.TCPAddr)
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	ecKey := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	public := must.Get(x509.MarshalPKIXPublicKey(&rsaKey.PublicKey))(t)
	return must.Get(json.Marshal(map[string]any{
		"url": server.URL, "host": addr.IP.String(), "port": addr.Port,
		"rsa": privatePEM(t, rsaKey), "ec": privatePEM(t, ecKey),
		"rsaPublic": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
	}))(t)
}

func privatePEM(t *testing.T, key any) string {
	t.Helper()
	raw := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

var statusPath = regexp.MustCompile(`/status/(\d{3})$`)

// mirror responds with the request that it got, or with the status in the path.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Answer", "yes")
	w.Header().Set("ETag", `"17"`)
	if m := statusPath.FindStringSubmatch(r.URL.Path); m != nil {
		status, _ := strconv.Atoi(m[1])
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{
		"id": "x_1", "method": r.Method, "path": r.URL.RequestURI(), "type": r.Header.Get("Content-Type"), "body": string(body),
	})
}

// runInNode returns the results of the uses in Node, by name.
func runInNode(t *testing.T, node, dir string, uses []use, args json.RawMessage) map[string]string {
	t.Helper()
	var files [][2]string
	for i, u := range uses {
		file := filepath.Join(dir, fmt.Sprintf("use-%d.js", i))
		must.Do(t, os.WriteFile(file, []byte(u.code), 0o600))
		files = append(files, [2]string{u.name, file})
	}
	input := must.Get(json.Marshal(map[string]any{"args": args, "files": files}))(t)
	answer := filepath.Join(dir, "answer.json")
	runner := must.Get(filepath.Abs("testdata/node/uses.js"))(t)
	cmd := exec.CommandContext(t.Context(), node, runner, answer)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	raw := must.Get(os.ReadFile(answer))(t)
	got := map[string]string{}
	must.Do(t, json.Unmarshal(raw, &got))
	return got
}

// runHere returns the results of the uses in the runtime, by name. It runs two
// at a time, to leave other tests their share of the machine.
func runHere(r script.Runtime, uses []use, args json.RawMessage) map[string]string {
	got := map[string]string{}
	next := make(chan use)
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for u := range next {
				outcome := useHere(r, u, args)
				mu.Lock()
				got[u.name] = outcome
				mu.Unlock()
			}
		})
	}
	for _, u := range uses {
		next <- u
	}
	close(next)
	wait.Wait()
	return got
}

// useTimeout is the time limit to check and run a use, on a busy machine.
const useTimeout = 2 * time.Minute

// useHere returns the result of a use in the runtime.
func useHere(r script.Runtime, u use, args json.RawMessage) string {
	ctx, cancel := context.WithTimeout(context.Background(), useTimeout)
	defer cancel()
	p := script.Program{Tenant: u.name, Name: u.name, Source: u.code}
	if err := r.Check(ctx, p); err != nil {
		return "cannot be stored: " + explain(err)
	}
	input := json.RawMessage(`{"args":` + string(args) + `}`)
	out, err := r.Run(ctx, p, input, &fakeHost{answer: fetchForReal})
	if err != nil {
		return "throws " + explain(err)
	}
	return string(out)
}

// fetchForReal performs the operation fetch.
func fetchForReal(ctx context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Method, URL, Body string
		Headers           [][2]string
	}
	if err := json.Unmarshal(args, &in); err != nil || op != "fetch" {
		return nil, fmt.Errorf("no operation %s: %w", op, err)
	}
	body, bad := base64.StdEncoding.DecodeString(in.Body)
	req, err := http.NewRequestWithContext(ctx, in.Method, in.URL, bytes.NewReader(body))
	if err := errors.Join(bad, err); err != nil {
		return nil, err
	}
	for _, h := range in.Headers {
		req.Header.Add(h[0], h[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	headers := [][2]string{}
	for name, values := range res.Header {
		for _, value := range values {
			headers = append(headers, [2]string{name, value})
		}
	}
	return json.Marshal(map[string]any{"status": res.StatusCode, "status_text": "", "url": in.URL, "headers": headers, "body": text})
}
