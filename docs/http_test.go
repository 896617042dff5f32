package docs_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// commandServer is the server for the commands of http.md.
type commandServer struct {
	*vaulttest.Vault
	server    *httptest.Server
	variables map[string]string // of the shell
	callbacks *lines

	mu   sync.Mutex
	seen map[string]bool // routes that succeeded, such as "GET /tokens/{id}"
}

// lines collects the bodies sent to a fake destination.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(s string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
}

// Observe implements httpserver.Observer.
func (w *commandServer) Observe(_ context.Context, r httpserver.RequestInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Status < 400 {
		w.seen[r.Method+" "+r.Route] = true
	}
}

// newCommandServer starts a server, a destination that echoes requests, and a receiver of
// callbacks.
func newCommandServer(t *testing.T) *commandServer {
	t.Helper()
	w := &commandServer{seen: map[string]bool{}, callbacks: &lines{}}
	destination := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/json" {
			fmt.Fprintf(out, "%s %s %s\n", r.Method, r.URL.RequestURI(), body)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"method": %q, "authorization": %q, "body": %s}`, r.Method, r.Header.Get("Authorization"), body)
	}))
	t.Cleanup(destination.Close)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.callbacks.add(string(body))
	}))
	t.Cleanup(receiver.Close)
	roots := x509.NewCertPool()
	roots.AddCert(destination.Certificate())
	roots.AddCert(receiver.Certificate())
	config := configOf(t)
	config.Runtime, config.Egress.RootCAs = jsruntime.New(nil), roots
	w.Vault = vaulttest.Open(t, ":memory:", config)
	w.server = httptest.NewServer(httpserver.Handler(w.Vault.Vault, &httpserver.Options{Observer: w}))
	t.Cleanup(w.server.Close)
	w.variables = map[string]string{
		"VAULT": w.server.URL, "DESTINATION": destination.URL, "CALLBACK": receiver.URL,
		"PUBLIC_KEY": w.PublicKey, "PRIVATE_KEY": w.PrivateKey, "MANAGEMENT_KEY": w.ManagementKey,
	}
	return w
}

// configOf returns the configuration of the server that http.md starts.
func configOf(t *testing.T) *vault.Config {
	t.Helper()
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	evident := flags.Bool("evidence", false, "")
	origin := flags.String("evidence-origin", "", "")
	private := flags.Bool("allow-private-egress", false, "")
	for _, b := range blocksOf(t, "http.md") {
		if command, ok := strings.CutPrefix(b.text, "go run ./examples/server"); ok {
			must.Do(t, flags.Parse(strings.Fields(command)))
		}
	}
	config := &vault.Config{Egress: vault.EgressPolicy{AllowHTTP: *private, AllowPrivate: *private}}
	if *evident {
		config.Evidence = &vault.EvidenceConfig{Origin: *origin}
	}
	return config
}

// shell runs commands with the variables and returns their output.
func (w *commandServer) shell(t *testing.T, commands string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	cmd.Env = os.Environ()
	for name, value := range w.variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

var (
	statusComment = regexp.MustCompile(`^# (\d{3})\b(.*)`)
	captured      = regexp.MustCompile(`its (\w+) is \$(\w+)`)
)

// TestCurlLines runs the commands of http.md in order.
func TestCurlLines(t *testing.T) { //nolint:tparallel // the commands build on each other
	t.Parallel()
	w := newCommandServer(t)
	blocks := blocksOf(t, "http.md")
	for i, b := range blocks {
		if b.lang != "sh" || !strings.Contains(b.text, "curl ") {
			continue
		}
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			comment := statusComment.FindStringSubmatch(b.text)
			if comment == nil || strings.Count(b.text, "curl ") != 1 {
				t.Fatal("the block must be a comment with the status and one curl line")
			}
			out := w.shell(t, `curl() { command curl -w '\n%{http_code}' "$@"; }`+"\n"+b.text)
			body, status, _ := cutLast(out, "\n")
			must.Same(t, "status: "+body, comment[1], status)
			w.capture(t, comment[2], body)
			if next := i + 1; next < len(blocks) {
				w.compare(t, blocks[next], body)
			}
		})
	}
	w.checkCallback(t)
	w.checkEveryEndpoint(t)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// capture stores the values that a comment names for later commands.
func (w *commandServer) capture(t *testing.T, comment, body string) {
	t.Helper()
	for _, c := range captured.FindAllStringSubmatch(comment, -1) {
		var fields map[string]any
		must.Do(t, json.Unmarshal([]byte(body), &fields))
		if page, ok := fields["data"].([]any); ok && len(page) > 0 && fields["pagination"] != nil {
			fields, _ = page[0].(map[string]any) // the first item of a page
		}
		value, ok := fields[c[1]].(string)
		if !ok {
			t.Fatalf("the response has no text %s", c[1])
		}
		w.variables[c[2]] = value
	}
}

// compare compares a response with the block that shows it. A paragraph may be
// between the command and the block.
func (w *commandServer) compare(t *testing.T, shown block, body string) {
	t.Helper()
	switch shown.lang {
	case "json":
		want, got := abridge(w.normal(t, shown.text), w.normal(t, body))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the response differs from line %d (-shown +got):\n%s\n%s", shown.line, diff, body)
		}
	case "http":
		body = strings.ReplaceAll(body, "\r", "")
		for line := range strings.Lines(shown.text) {
			must.Contain(t, fmt.Sprint("line ", shown.line, " shows: ", body), body+"\n", line)
		}
	}
}

// volatile are the forms of texts that differ from call to call.
var volatile = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`^20\d\d-\d\d-\d\dT12:\d\d:\d\d(\.\d+)?Z$`), "NOW"},
	{regexp.MustCompile(`^key_(pub|prv|mgt|sess)_[1-9A-Za-z]{38}$`), "KEY"},
	{regexp.MustCompile(`^whsec_[+/=0-9A-Za-z]{40,}$`), "SECRET"},
	{regexp.MustCompile(`^[1-9A-Za-z]{22,44}$`), "RANDOM"}, // nonces, proxy keys, fingerprints
}

// rest marks what a document leaves out: the last element of an array, or a member
// of an object.
const rest = "..."

// abridge removes from a response the elements and members that the document
// leaves out.
func abridge(shown, got any) (want, kept any) {
	switch shown := shown.(type) {
	case map[string]any:
		return abridgeObject(shown, got)
	case []any:
		return abridgeArray(shown, got)
	}
	return shown, got
}

func abridgeObject(shown map[string]any, got any) (want, kept any) {
	members, ok := got.(map[string]any)
	if !ok {
		return shown, got
	}
	_, partial := shown[rest]
	delete(shown, rest)
	for name := range members {
		if _, ok := shown[name]; ok {
			shown[name], members[name] = abridge(shown[name], members[name])
		} else if partial {
			delete(members, name)
		}
	}
	return shown, members
}

func abridgeArray(shown []any, got any) (want, kept any) {
	elements, ok := got.([]any)
	if !ok {
		return shown, got
	}
	if n := len(shown) - 1; n >= 0 && shown[n] == rest {
		shown, elements = shown[:n], elements[:min(n, len(elements))]
	}
	for i := range min(len(shown), len(elements)) {
		shown[i], elements[i] = abridge(shown[i], elements[i])
	}
	return shown, elements
}

// normal reads JSON and replaces volatile texts with their names.
func (w *commandServer) normal(t *testing.T, text string) any {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return w.normalValue(v)
}

func (w *commandServer) normalValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = w.normalValue(member)
		}
		return v
	case []any:
		for i := range v {
			v[i] = w.normalValue(v[i])
		}
		return v
	case string:
		if v == w.variables["DESTINATION"] {
			return "https://gateway.example"
		}
		for _, known := range volatile {
			v = known.form.ReplaceAllString(v, known.name)
		}
		return v
	}
	return v
}

// checkCallback checks that the asynchronous run of the document was delivered.
func (w *commandServer) checkCallback(t *testing.T) {
	t.Helper()
	must.Do(t, w.Work(t.Context()))
	w.callbacks.mu.Lock()
	defer w.callbacks.mu.Unlock()
	must.Same(t, "callbacks", 1, len(w.callbacks.all))
}

// checkEveryEndpoint checks that the commands have called each endpoint of the
// OpenAPI document with success.
func (w *commandServer) checkEveryEndpoint(t *testing.T) {
	t.Helper()
	res := must.Get(http.Get(w.server.URL + "/openapi.json"))(t)
	defer res.Body.Close()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	must.Do(t, json.NewDecoder(res.Body).Decode(&document))
	if len(document.Paths) < 20 {
		t.Fatalf("the OpenAPI document has only %d paths", len(document.Paths))
	}
	w.server.Close() // an observer hears of a request after its response
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for method := range document.Paths[path] {
			route := strings.ToUpper(method) + " " + strings.TrimSuffix(path, "/{path}")
			if !w.seen[route] {
				t.Errorf("http.md has no curl line for %s", route)
			}
		}
	}
}

// TestSetUpReadsTheCredentials runs the commands that read the credentials file.
func TestSetUpReadsTheCredentials(t *testing.T) {
	t.Parallel()
	var setUp string
	for _, b := range blocksOf(t, "http.md") {
		if b.lang == "sh" && strings.Contains(b.text, "vault-credentials.json") {
			setUp = b.text
		}
	}
	folder := t.TempDir()
	file := `{
  "base_url": "http://127.0.0.1:8080",
  "tenant_id": "t",
  "public_key": "key_pub",
  "private_key": "key_prv",
  "management_key": "key_mgt"
}
`
	must.Do(t, os.WriteFile(filepath.Join(folder, "vault-credentials.json"), []byte(file), 0o600))
	w := &commandServer{variables: map[string]string{"VAULT": "", "FOLDER": folder}}
	got := w.shell(t, `cd "$FOLDER"`+"\n"+setUp+`echo $VAULT $PUBLIC_KEY $PRIVATE_KEY $MANAGEMENT_KEY`)
	must.Same(t, "the variables", "http://127.0.0.1:8080 key_pub key_prv key_mgt\n", got)
}
