package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/script"
)

// snippet is a JavaScript block of reactors.md: its invocation, the code, and the
// response.
var snippet = regexp.MustCompile(`(?s)^// (react|request_transform, proxy|response_transform, proxy) (\{[^\n]*\})\n(.*)\n// (\d{3}) (\{[^\n]*\})\n$`)

// TestJavaScriptBlocksRun runs the code of reactors.md in reactors and
// proxies.
func TestJavaScriptBlocksRun(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, b := range blocksOf(t, "reactors.md") {
		if b.lang != "js" || strings.HasPrefix(b.text, "// verify") {
			continue
		}
		ran++
		t.Run(fmt.Sprintf("line %d", b.line), func(t *testing.T) {
			t.Parallel()
			m := snippet.FindStringSubmatch(b.text)
			if m == nil {
				t.Fatal("the block must begin with its invocation and end in a comment with its response")
			}
			kind, body, code, status, answer := m[1], m[2], m[3], m[4], m[5]
			w := newCommandServer(t)
			must.Get(w.Private.CreateToken(t.Context(), vault.TokenParams{ID: "jane-card", Type: vault.TypeCard,
				Data: vault.CardData{Number: "4242424242424242", ExpirationMonth: 12, ExpirationYear: 2030}}))(t)
			path, key := w.install(t, kind, code)
			got, text := w.post(t, path, key, body)
			must.Same(t, "status: "+text, status, strconv.Itoa(got))
			if diff := cmp.Diff(w.normal(t, answer), w.normal(t, text)); diff != "" {
				t.Errorf("the response differs (-shown +got):\n%s\n%s", diff, text)
			}
		})
	}
	if ran < 10 {
		t.Errorf("only %d blocks were found", ran)
	}
}

// install creates a reactor or a proxy with the code and returns its path and key.
func (w *commandServer) install(t *testing.T, kind, code string) (path, proxyKey string) {
	t.Helper()
	app := w.Private.ApplicationID()
	configuration := map[string]string{"url": w.variables["DESTINATION"] + "/json", "token": "gateway-secret"}
	if kind == "react" {
		r := must.Get(w.Management.CreateReactor(t.Context(), vault.ReactorParams{
			Name: "documented", Code: code, Configuration: configuration, ApplicationID: app}))(t)
		return "/reactors/" + r.ID.String() + "/react", ""
	}
	p := vault.ProxyParams{Name: "documented", DestinationURL: configuration["url"], Configuration: configuration, ApplicationID: app}
	transform := &vault.ProxyTransform{Code: code}
	if strings.HasPrefix(kind, "request") {
		p.RequestTransform = transform
	} else {
		p.ResponseTransform = transform
	}
	x := must.Get(w.Management.CreateProxy(t.Context(), p))(t)
	return "/proxy", x.Key
}

func (w *commandServer) post(t *testing.T, path, proxyKey, body string) (int, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+path, strings.NewReader(body)))(t)
	req.Header.Set("SVC-API-KEY", w.PrivateKey)
	req.Header.Set("Content-Type", "application/json")
	if proxyKey != "" {
		req.Header.Set("SVC-PROXY-KEY", proxyKey)
	}
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(text)
}

// words returns the words in backquotes between a line and a stop.
func words(t *testing.T, file, heading, stop string) []string {
	t.Helper()
	_, section, ok := strings.Cut(readText(t, file), "\n"+heading+"\n")
	section, _, stopped := strings.Cut(section, stop)
	if !ok || !stopped {
		t.Fatalf("%s has no %q with %q", file, heading, stop)
	}
	var all []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(section, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

// literalsOf returns the string literals in the value of a variable: the keys or the
// values of a map.
func literalsOf(t *testing.T, file, name string, keys bool) []string {
	t.Helper()
	parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
	var all []string
	add := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				all = append(all, strings.Fields(text)...)
			}
			return true
		})
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != name {
			return true
		}
		ast.Inspect(spec, func(n ast.Node) bool {
			if pair, ok := n.(*ast.KeyValueExpr); ok && keys {
				add(pair.Key)
			} else if ok {
				add(pair.Value)
			}
			return true
		})
		if len(all) == 0 {
			add(spec)
		}
		return false
	})
	slices.Sort(all)
	return all
}

// TestModulesAndGlobalsAreListed compares the lists with the runtime.
func TestModulesAndGlobalsAreListed(t *testing.T) {
	t.Parallel()
	listed := words(t, "reactors.md", "With or without the prefix `node:`:", "\n`http` and")
	const builtin = "../jsruntime/internal/modules/manifest.go"
	modules := slices.Sorted(slices.Values(slices.Concat(literalsOf(t, builtin, "sameNames", true), literalsOf(t, builtin, "otherNames", true))))
	must.Same(t, "modules (-runtime +document)", modules, listed)
	globals := words(t, "reactors.md", "In addition to the globals of the language:", "\nand the [error")
	for _, name := range words(t, "reactors.md", "| class | status | title |", "\n\nTheir argument") {
		globals = append(globals, strings.TrimSuffix(name, "({status, headers, body})"))
	}
	slices.Sort(globals)
	if diff := cmp.Diff(literalsOf(t, "../jsruntime/internal/node/prelude.go", "globalModules", false), globals); diff != "" {
		t.Errorf("globals (-runtime +document):\n%s", diff)
	}
}

// TestMissingModules requires the modules that the document lists as missing.
func TestMissingModules(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(readText(t, "reactors.md"), "(`MODULE_NOT_FOUND`), for example ")
	rest, _, ok := strings.Cut(rest, ". ")
	if !ok {
		t.Fatal("the list was not found")
	}
	names := strings.Fields(strings.ReplaceAll(rest, "`", ""))
	got := runJS(t, `module.exports = ({ args }) => args.filter((name) => {
		try { require(name); return true; } catch (err) { return err.code !== 'MODULE_NOT_FOUND'; }
	});`, names)
	if got != "[]" || len(names) < 5 {
		t.Errorf("of %v, these are found: %s", names, got)
	}
}

// bundleCommand is the start of the document's esbuild command.
const bundleCommand = "npx esbuild "

// TestBundles bundles a package with the command of the document and the esbuild
// that this module requires, and runs the bundle.
func TestBundles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"reactor.js":                      "import { createHash } from 'crypto';\nimport { twice } from 'twice';\nexport default ({ args }) => [twice(args), createHash('sha256').update(args).digest('hex').length];",
		"node_modules/twice/package.json": `{"name": "twice", "main": "main.js"}`,
		"node_modules/twice/main.js":      "exports.twice = (x) => x?.repeat(2) ?? '';",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	_, rest, ok := strings.Cut(readText(t, "reactors.md"), "    "+bundleCommand)
	line, _, _ := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("the command was not found")
	}
	esbuild := filepath.Join(dir, "esbuild")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", esbuild, "github.com/evanw/esbuild/cmd/esbuild").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), esbuild, strings.Fields(line)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code := must.Get(os.ReadFile(filepath.Join(dir, "bundle.js")))(t)
	must.Same(t, "the bundle returned", `["abab",64]`, runJS(t, string(code), "ab"))
}

// runJS runs code in a worker.
func runJS(t *testing.T, code string, args any) string {
	t.Helper()
	r := jsruntime.New(nil)
	t.Cleanup(func() { _ = r.Close() })
	input := must.Get(json.Marshal(map[string]any{"args": args}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out := must.Get(r.Run(ctx, script.Program{Tenant: "t", Source: code}, input, nil))(t)
	return string(out)
}

// callback is a signed callback with its secret.
type callback struct {
	secret, body string
	header       http.Header
}

func newCallback(t *testing.T) callback {
	t.Helper()
	c := callback{secret: runs.NewWebhookSecret(), body: `{"raw":{"ok":true}}`}
	var err error
	c.header, err = runs.SignWebhook([]string{runs.NewWebhookSecret(), c.secret}, "id-1", time.Now(), []byte(c.body))
	must.Do(t, err)
	return c
}

// receiverOf returns the block of reactors.md that verifies callbacks.
func receiverOf(t *testing.T, lang, marker string) string {
	t.Helper()
	for _, b := range blocksOf(t, "reactors.md") {
		if b.lang == lang && strings.HasPrefix(b.text, marker) {
			return b.text
		}
	}
	t.Fatalf("reactors.md has no %s block that starts with %q", lang, marker)
	return ""
}

func TestVerificationInNode(t *testing.T) {
	t.Parallel()
	c := newCallback(t)
	headers := map[string]string{}
	for name := range maps.Keys(c.header) {
		headers[strings.ToLower(name)] = c.header.Get(name)
	}
	code := receiverOf(t, "js", "// verify") + `
module.exports = ({ args: { secret, headers, body } }) => [
  verify(secret, headers, body),
  verify(secret, headers, body + ' '),
  verify('whsec_' + Buffer.alloc(32).toString('base64'), headers, body),
  verify(secret, headers, body, Date.now() + 600000),
  verify(secret, { ...headers, 'webhook-id': 'other' }, body),
];`
	got := runJS(t, code, map[string]any{"secret": c.secret, "headers": headers, "body": c.body})
	must.Same(t, "verify returned", "[true,false,false,false,false]", got)
}

func TestVerificationInGo(t *testing.T) {
	t.Parallel()
	c := newCallback(t)
	header := must.Get(json.Marshal(c.header))(t)
	check := fmt.Sprintf(`package receiver

import ("encoding/json"; "net/http"; "testing"; "time")

func TestVerify(t *testing.T) {
	var h http.Header
	if err := json.Unmarshal([]byte(%q), &h); err != nil {
		t.Fatal(err)
	}
	secret, body, now := %q, []byte(%q), time.Now()
	if err := Verify(secret, h, body, now); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"body": Verify(secret, h, append(body, ' '), now),
		"secret": Verify("whsec_AAAA", h, body, now),
		"time": Verify(secret, h, body, now.Add(10*time.Minute)),
	} {
		if err == nil {
			t.Errorf("another %%s passes", name)
		}
	}
}
`, header, c.secret, c.body)
	folder := t.TempDir()
	for name, text := range map[string]string{"receiver.go": receiverOf(t, "go", "package receiver"), "receiver_test.go": check} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1",
		filepath.Join(folder, "receiver.go"), filepath.Join(folder, "receiver_test.go")).CombinedOutput()
	must.Match(t, string(out), err, nil)
}
