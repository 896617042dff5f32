package outgoing

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// gitServer serves repositories with git http-backend to clients that know the
// password.
type gitServer struct {
	backend http.Handler

	mu   sync.Mutex
	seen []string // the request lines that got past the password
}

func (s *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, given, _ := r.BasicAuth()
	if user != "x" || given != password {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	body, err := io.ReadAll(r.Body) // CGI needs its length
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	s.backend.ServeHTTP(w, r)
}

// Git clones and pushes through the forward proxy with a token as its password. A key
// that is bound to the path of fetching cannot push.
func TestGitThroughTheForwardProxy(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := []string{
		"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "no_proxy=", "NO_PROXY=",
	}
	root := filepath.Join(home, "srv")
	run(t, home, env, "git", "init", "-q", "--bare", "-b", "main", filepath.Join(root, "repo.git"))
	run(t, filepath.Join(root, "repo.git"), env, "git", "config", "http.receivepack", "true")
	backend := filepath.Join(run(t, home, env, "git", "--exec-path"), "git-http-backend")
	server := &gitServer{backend: &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=x", "HOME=" + home}}}
	g := newGate(t, server)
	env = append(env, "GIT_SSL_CAINFO="+g.caFile(t))
	through := func(key string) []string { return append(slices.Clip(env), "https_proxy=http://x:"+key+"@"+g.proxy) }
	url := strings.Replace(g.url, "https://", "https://x:%7B%7B%20secret%20%7D%7D@", 1) + "/repo.git"

	first := filepath.Join(home, "first")
	run(t, home, through(g.pass), "git", "clone", "-q", url, first)
	large := make([]byte, 6<<20) // more than a body that is held in memory
	_, _ = rand.Read(large)
	must.Do(t, os.WriteFile(filepath.Join(first, "large"), large, 0o600))
	run(t, first, env, "git", "add", "large")
	run(t, first, env, "git", "commit", "-q", "-m", "large")
	run(t, first, through(g.pass), "git", "push", "-q", "origin", "HEAD:main")

	reader := g.key(t, "GET "+g.to+"/repo.git/info/refs", "POST "+g.to+"/repo.git/git-upload-pack")
	second := filepath.Join(home, "second")
	run(t, home, through(reader), "git", "clone", "-q", url, second)
	must.Same(t, "what was cloned", true, string(must.Get(os.ReadFile(filepath.Join(second, "large")))(t)) == string(large))
	run(t, second, env, "git", "commit", "-q", "--allow-empty", "-m", "more")
	out, err := program(t, second, through(reader), "git", "push", "origin", "HEAD:main")
	must.Match(t, "a push with the key for fetching", err, must.Text("exit status"))
	must.Contain(t, "a push with the key for fetching", out, "403")
	must.Lack(t, "what git prints", out, password)
	run(t, second, through(g.pass), "git", "push", "-q", "origin", "HEAD:main")

	server.mu.Lock()
	defer server.mu.Unlock()
	must.Contain(t, "requests", strings.Join(server.seen, "\n"), "POST /repo.git/git-receive-pack")
	for _, name := range []string{first, second} {
		config := must.Get(os.ReadFile(filepath.Join(name, ".git", "config")))(t)
		must.Lack(t, "the program's files", string(config), password)
	}
}
