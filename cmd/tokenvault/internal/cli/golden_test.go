package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	keyring.Horizon = 0 // no other node has the keys that a rotation destroys
	os.Exit(m.Run())
}

// Ways in which scripts access a vault.
const (
	local  = "local"
	remote = "remote"
)

// TestGolden runs the scripts in testdata, in process and over HTTP, and
// compares their output with the golden files next to them.
//
// A script has one command per line. "as TYPE" selects the API key for
// commands over HTTP. "local" or "remote" before a command restricts it to
// one way. "NAME=field" keeps a field of its JSON, "file" writes a file, and
// "env" sets a variable. Text after <<< is standard input. $DIR is a
// temporary folder.
func TestGolden(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*.script")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".script")
		for _, way := range []string{local, remote} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := newToolVault(t, way)
				w.play(script)
				w.compare(filepath.Join("testdata", name+"."+way+".golden"))
			})
		}
	}
}

// toolVault is a vault in a temporary folder, and the output of a script.
type toolVault struct {
	t      *testing.T
	way    string
	dir    string
	env    map[string]string
	keys   map[string]string // API keys by type
	out    strings.Builder
	hidden []string // pairs of a value that differs between runs, and its replacement
}

// newToolVault creates a vault with the tenant Acme and an application of each
// type.
func newToolVault(t *testing.T, way string) *toolVault {
	t.Helper()
	dir := t.TempDir()
	key := vault.NewKey()
	w := &toolVault{t: t, way: way, dir: dir, keys: map[string]string{}, env: map[string]string{
		"DIR": dir, "USER": "jane", "TOKENVAULT_ALLOW_PRIVATE_EGRESS": "true",
	}}
	file := filepath.Join(dir, "vault.db")
	v := openVault(t, file, key)
	acme := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	for _, typ := range []vault.ApplicationType{vault.ApplicationPublic, vault.ApplicationPrivate, vault.ApplicationManagement} {
		w.keys[string(typ)] = newKey(t, v.Tenant(acme.ID).Client, typ)
	}
	w.env["SESSION_KEY"] = newSession(t, v, w.keys["public"])
	srv := httptest.NewServer(httpserver.Handler(v, nil))
	t.Cleanup(srv.Close)
	echo := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		if strings.HasSuffix(r.URL.Path, "/missing") {
			rw.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(rw, "%s %s %s\n", r.Method, r.URL.Path, body.String())
	}))
	t.Cleanup(echo.Close)
	w.env["ECHO"] = echo.URL
	w.hidden = []string{dir, "$DIR", srv.URL, "$URL", echo.URL, "$ECHO", strings.TrimPrefix(srv.URL, "http://"), "$HOST", strings.TrimPrefix(echo.URL, "http://"), "$ECHOHOST"}
	w.env["DB"], w.env["KEY"], w.env["URL"] = file, key.Text(), srv.URL
	if way == local {
		w.env["TOKENVAULT_DB"], w.env["TOKENVAULT_MASTER_KEY"], w.env["TOKENVAULT_TENANT"] = file, key.Text(), "Acme"
	} else {
		w.env["TOKENVAULT_URL"], w.env["TOKENVAULT_API_KEY"] = srv.URL, w.keys["private"]
	}
	return w
}

func openVault(t *testing.T, file string, key *vault.Key) *vault.Vault {
	t.Helper()
	store := must.Get(sqlite.Open(t.Context(), file))(t)
	v := must.Get(vault.Open(t.Context(), store, key, &vault.Config{SweepEvery: -1, WorkEvery: -1, Runtime: jsruntime.New(&jsruntime.Options{Lazy: true}),
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}}))(t)
	t.Cleanup(func() {
		must.Match(t, "Close", v.Close(), nil)
	})
	return v
}

// newKey creates an application with all permissions of its type.
func newKey(t *testing.T, c *vault.Client, typ vault.ApplicationType) string {
	t.Helper()
	all := must.Get(c.ListPermissions(t.Context()))(t)
	p := vault.ApplicationParams{Name: "The " + string(typ) + " one", Type: typ}
	for _, permission := range all {
		for _, may := range permission.ApplicationTypes {
			if may == typ {
				p.Permissions = append(p.Permissions, permission.Type)
			}
		}
	}
	app := must.Get(c.CreateApplication(t.Context(), p))(t)
	return app.Key
}

func newSession(t *testing.T, v *vault.Vault, key string) string {
	t.Helper()
	c := must.Get(v.Authenticate(t.Context(), key))(t)
	s := must.Get(c.CreateSession(t.Context()))(t)
	return s.SessionKey
}

// play runs a script.
func (w *toolVault) play(script string) {
	w.t.Helper()
	text := must.Get(os.ReadFile(script))(w.t)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		if verb == local || verb == remote {
			if verb != w.way {
				continue
			}
			line = rest
			verb, rest, _ = strings.Cut(rest, " ")
		}
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case verb == "as" && w.way == remote:
			w.env["TOKENVAULT_API_KEY"] = w.keys[rest]
		case verb == "as":
		case verb == "env":
			name, value, _ := strings.Cut(rest, "=")
			w.env[name] = os.Expand(value, func(name string) string { return w.env[name] })
		case verb == "file":
			name, content, _ := strings.Cut(rest, " ")
			path := filepath.Join(w.dir, filepath.FromSlash(name))
			must.Do(w.t, os.MkdirAll(filepath.Dir(path), 0o700))
			content = strings.NewReplacer(`\n`, "\n", "$ECHO", w.env["ECHO"]).Replace(content)
			must.Do(w.t, os.WriteFile(path, []byte(content+"\n"), 0o600))
		case verb == "tokenvault":
			w.command(rest, "")
		case strings.Contains(verb, "="):
			w.command(strings.TrimPrefix(rest, "tokenvault "), verb)
		default:
			w.t.Fatalf("%s: %q", script, line)
		}
	}
}

// command runs a command and records its output.
func (w *toolVault) command(line, keep string) {
	w.t.Helper()
	text, input, _ := strings.Cut(line, " <<< ")
	var out, problems bytes.Buffer
	code := cli.Run(w.t.Context(), w.words(text), func(name string) string { return w.env[name] },
		cli.Streams{In: strings.NewReader(strings.ReplaceAll(input, `\n`, "\n")), Out: &out, Err: &problems})
	fmt.Fprintf(&w.out, "$ tokenvault %s\n%s", line, out.String())
	for line := range strings.Lines(problems.String()) {
		fmt.Fprintf(&w.out, "! %s", line)
	}
	if code != 0 {
		fmt.Fprintf(&w.out, "exit %d\n", code)
	}
	if name, field, ok := strings.Cut(keep, "="); ok {
		var object map[string]any
		first, _, _ := strings.Cut(out.String(), "\n")
		if err := json.Unmarshal([]byte(first), &object); err != nil {
			w.t.Fatalf("%s: %v\n%s%s", line, err, out.String(), problems.String())
		}
		w.env[name] = fmt.Sprint(object[field])
	}
}

// words splits a line at spaces, like a shell. Single quotes keep spaces and
// prevent the expansion of variables.
func (w *toolVault) words(line string) []string {
	var words []string
	begun := false
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			if !begun {
				words = append(words, "")
			}
			words[len(words)-1] += part
			begun = true
			continue
		}
		part = os.Expand(part, func(name string) string { return w.env[name] })
		for j, word := range strings.Split(part, " ") {
			if j > 0 {
				begun = false
			}
			if word == "" {
				continue
			}
			if !begun {
				words = append(words, "")
			}
			words[len(words)-1] += word
			begun = true
		}
	}
	return words
}

var (
	uuidForm        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	keyForm         = regexp.MustCompile(`(key_[a-z]+_|vaultkey_|whsec_)[A-Za-z0-9+/=]+`)
	proxyKeyForm    = regexp.MustCompile(`("key":"|key {10,}  )[0-9A-Za-z]{20,40}`)
	timeForm        = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z`)
	shownTimeForm   = regexp.MustCompile(`20\d\d-\d\d-\d\d \d\d:\d\d:\d\d`)
	fingerprintForm = regexp.MustCompile(`\b[1-9A-HJ-NP-Za-km-z]{42,44}\b`)
	rootForm        = regexp.MustCompile(`(root is |"root":")[0-9a-f]{32}`)
	appliedForm     = regexp.MustCompile(`(?m)^(\d{4} +(applied|pending)\n|\{"version":\d+,"state":"(applied|pending)"\}\n)+`)
	ranForm         = regexp.MustCompile(`ran [1-9]\d* migrations?`)
	originForm      = regexp.MustCompile(`"origin":"[^"]*"`)
	sizeForm        = regexp.MustCompile(`\d+\.\d KiB|"bytes":\d+`)
)

// compare compares the output with a golden file. Values that differ between
// runs are replaced first.
func (w *toolVault) compare(golden string) {
	w.t.Helper()
	got := strings.NewReplacer(w.hidden...).Replace(w.out.String())
	ids := map[string]string{}
	got = uuidForm.ReplaceAllStringFunc(got, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(ids)+1)
		}
		return ids[id]
	})
	got = keyForm.ReplaceAllString(got, "${1}x")
	got = proxyKeyForm.ReplaceAllString(got, "${1}proxykey")
	got = timeForm.ReplaceAllString(got, "2026-01-01T12:00:00Z")
	got = shownTimeForm.ReplaceAllString(got, "2026-01-01 12:00:00")
	got = fingerprintForm.ReplaceAllString(got, "fingerprint")
	got = rootForm.ReplaceAllString(got, "${1}fingerprint")
	got = appliedForm.ReplaceAllString(got, "${2}${3}\n") // any number of lines
	got = ranForm.ReplaceAllString(got, "ran some migrations")
	got = originForm.ReplaceAllString(got, `"origin":"host"`)
	got = sizeForm.ReplaceAllString(got, "(size)")
	if *update {
		must.Do(w.t, os.WriteFile(golden, []byte(got), 0o600))
		return
	}
	want := must.Get(os.ReadFile(golden))(w.t)
	must.Same(w.t, golden, string(want), got)
}
