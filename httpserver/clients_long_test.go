//go:build long

package httpserver

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Versions of the third-party clients and of the tools that generate clients.
const (
	basisTheoryJS  = "@basis-theory/basis-theory-js@2.9.0"
	nodeSDK        = "@basis-theory/node-sdk@5.7.0"
	typescript     = "typescript@5.9.3"
	openAPITypes   = "openapi-typescript@7.13.0"
	oapiCodegen    = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.1"
	oapiRuntime    = "github.com/oapi-codegen/runtime@v1.8.0"
	installTimeout = 5 * time.Minute
)

// run runs a program of the machine and fails the test with its output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// install installs npm packages into a new directory.
func install(t *testing.T, packages ...string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("there is no npm on this machine, so JavaScript clients cannot be tested")
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600))
	run(t, dir, nil, "npm", append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--prefer-offline"}, packages...)...)
	return dir
}

// copyInto copies a file of testdata into a directory.
func copyInto(t *testing.T, dir, name string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "clients", name)))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, strings.TrimSuffix(name, ".txt")), text, 0o600))
}

// liveServer starts a server with the header prefix that a client uses. It
// returns the environment for the client.
func liveServer(t *testing.T, prefix string) []string {
	t.Helper()
	v := vaulttest.Open(t, ":memory:", &vault.Config{
		Runtime: jsruntime.New(nil), Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	})
	srv := httptest.NewServer(Handler(v.Vault, &Options{Prefix: prefix}))
	t.Cleanup(srv.Close)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(echo.Close)
	return []string{
		"VAULT=" + strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), "DESTINATION=" + echo.URL, "CALLBACK=" + echo.URL,
		"PUBLIC_KEY=" + v.PublicKey, "PRIVATE_KEY=" + v.PrivateKey, "MANAGEMENT_KEY=" + v.ManagementKey,
	}
}

// TestVendorSDKs runs the vendor's unchanged SDKs on every resource that the
// server supports. docs/migrating.md lists them.
func TestVendorSDKs(t *testing.T) {
	t.Parallel()
	dir := install(t, basisTheoryJS, nodeSDK)
	for _, name := range []string{"basis-theory-js.cjs", "node-sdk.cjs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copyInto(t, dir, name)
			out := run(t, dir, liveServer(t, "BT-"), "node", name)
			resources := []string{"tokens", "tokenize", "applications", "reactors", "proxies", "sessions", "logs", "tenants", "permissions"}
			if name == "node-sdk.cjs" {
				resources = append(resources, "keys") // the older SDK has none
			}
			for _, resource := range resources {
				must.Contain(t, resource+" was not tested", out, "ok "+resource+"\n")
			}
		})
	}
}

// TestTypeScriptFromOpenAPI generates types from the document, and compiles a
// program that uses them.
func TestTypeScriptFromOpenAPI(t *testing.T) {
	t.Parallel()
	dir := install(t, openAPITypes, typescript)
	must.Do(t, os.WriteFile(filepath.Join(dir, "openapi.json"), openAPIDocument, 0o600))
	quiet := []string{"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true"}
	run(t, dir, quiet, "npx", "--no-install", "openapi-typescript", "openapi.json", "-o", "api.d.ts")
	copyInto(t, dir, "use.ts.txt")
	run(t, dir, nil, "npx", "--no-install", "tsc", "--noEmit", "--strict", "--target", "es2022", "use.ts")
}

// TestGoClientFromOpenAPI generates a client from the document, builds it,
// and runs a program that uses it against a live server.
func TestGoClientFromOpenAPI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"openapi.json": string(openAPIDocument), "go.mod": "module example.com/generated\n\ngo " + strings.TrimPrefix(strings.SplitN(runtime.Version(), " ", 2)[0], "go") + "\n"}
	must.Do(t, os.Mkdir(filepath.Join(dir, "vaultapi"), 0o700))
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	copyInto(t, dir, "main.go.txt")
	alone := []string{"GOWORK=off", "GOFLAGS=-mod=mod"}
	run(t, dir, alone, "go", "run", oapiCodegen, "-generate", "types,client", "-package", "vaultapi", "-o", "vaultapi/client.go", "openapi.json")
	run(t, dir, alone, "go", "get", oapiRuntime)
	out := run(t, dir, append(alone, liveServer(t, "SVC-")...), "go", "run", ".")
	if !strings.HasSuffix(out, "done\n") {
		t.Errorf("the program printed %q", out)
	}
}
