package tree_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// root is the path of the module of the vault.
const root = "github.com/seed-72ea4aab/vault"

// released returns the folders of the modules that users fetch: all but examples and
// the tests of vaultoidc with SPIFFE.
func released(t *testing.T) []string {
	t.Helper()
	work := must.Get(modfile.ParseWork("go.work", must.Get(os.ReadFile(filepath.Join(top, "go.work")))(t), nil))(t)
	var folders []string
	for _, use := range work.Use {
		if folder := path.Clean(use.Path); !strings.HasPrefix(folder, "examples/") && folder != "vaultoidc/spiffetest" {
			folders = append(folders, folder)
		}
	}
	return folders
}

// together are the modules that are released with the vault at the same version, and
// so may import its internal packages: the program.
var together = []string{"cmd/tokenvault"}

// TestModulesAsFetched finds every package of the modules, and what it imports, in
// programs of others, and builds all of them in the long run. The programs get the
// modules of the tree as zip files from a module proxy, at the version
// that they require of each other. Other modules come from the module cache, or from
// the proxy if they are not in it.
func TestModulesAsFetched(t *testing.T) {
	t.Parallel()
	version := requiredVersion(t)
	host := &stranger{t: t, cache: t.TempDir(), proxy: t.TempDir()}
	host.linkCache()
	for _, folder := range released(t) {
		host.publish(folder, version)
	}
	for _, folder := range released(t) {
		at := modulePath(folder)
		host.program = t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(host.program, "go.mod"), fmt.Appendf(nil, "module example.com/user\n\ngo 1.26.0\n\nrequire %s %s\n", at, version), 0o600))
		host.run("list", "-deps", at+"/...")
		if long.Run {
			host.run("build", "-trimpath", at+"/...")
		}
		if all := host.run("list", "-m", "all"); !strings.Contains(all, root+" "+version+"\n") || strings.Contains(all, "=>") {
			t.Errorf("the modules of a program with %s: %s", at, all)
		}
	}
}

// modulePath returns the path of the module in a folder.
func modulePath(folder string) string { return path.Join(root, folder) }

// requiredVersion is the version of the vault that the other modules require: one
// version for all, without a replacement.
func requiredVersion(t *testing.T) string {
	t.Helper()
	versions := map[string]bool{}
	for _, folder := range released(t) {
		mod := must.Get(modfile.Parse("go.mod", must.Get(os.ReadFile(filepath.Join(top, folder, "go.mod")))(t), nil))(t)
		must.Same(t, folder+": replacements", 0, len(mod.Replace))
		for _, r := range mod.Require {
			if r.Mod.Path == root || strings.HasPrefix(r.Mod.Path, root+"/") {
				versions[r.Mod.Version] = true
			}
		}
	}
	for version := range versions {
		if len(versions) == 1 && !module.IsPseudoVersion(version) {
			return version
		}
	}
	t.Fatalf("the modules require the versions %v of each other, and not one version of a release", versions)
	return ""
}

// stranger is a machine on which others build programs with the modules.
type stranger struct {
	t            *testing.T
	cache, proxy string
	program      string // folder of the program
}

// linkCache fills the module cache of the stranger with links to the one of this
// machine, except for the modules of the vault.
func (s *stranger) linkCache() {
	real := strings.TrimSpace(goOutput(s.t, top, nil, "env", "GOMODCACHE"))
	owner, _, _ := strings.Cut(strings.TrimPrefix(root, "github.com/"), "/")
	for _, folder := range []string{".", "github.com", "cache", "cache/download", "cache/download/github.com"} {
		entries, err := os.ReadDir(filepath.Join(real, folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must.Do(s.t, err)
		must.Do(s.t, os.MkdirAll(filepath.Join(s.cache, folder), 0o700))
		for _, e := range entries {
			if slices.Contains([]string{"github.com", "cache", "download", "lock", owner}, e.Name()) {
				continue
			}
			must.Do(s.t, os.Symlink(filepath.Join(real, folder, e.Name()), filepath.Join(s.cache, folder, e.Name())))
		}
	}
}

// publish puts the module in a folder on the stranger's proxy.
func (s *stranger) publish(folder, version string) {
	t := s.t
	at := filepath.Join(s.proxy, filepath.FromSlash(modulePath(folder)), "@v")
	must.Do(t, os.MkdirAll(at, 0o700))
	var archive bytes.Buffer
	must.Do(t, zip.CreateFromDir(&archive, module.Version{Path: modulePath(folder), Version: version}, filepath.Join(top, folder)))
	info := must.Get(json.Marshal(map[string]string{"Version": version}))(t)
	mod := must.Get(os.ReadFile(filepath.Join(top, folder, "go.mod")))(t)
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod, version + ".zip": archive.Bytes()} {
		must.Do(t, os.WriteFile(filepath.Join(at, name), text, 0o600))
	}
}

// run runs the go command in the folder of the stranger's program.
func (s *stranger) run(args ...string) string {
	s.t.Helper()
	proxies := "file://" + filepath.ToSlash(s.proxy) + "," + strings.TrimSpace(goOutput(s.t, top, nil, "env", "GOPROXY"))
	return goOutput(s.t, s.program, []string{"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE=" + s.cache, "GOPROXY=" + proxies,
		"GONOPROXY=none", "GONOSUMDB=*", "GOTOOLCHAIN=local"}, args...)
}

// goOutput returns the output of the go command.
func goOutput(t *testing.T, folder string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.String()
}

// TestModulesKeepToTheirInternals checks that no package of a released module imports
// internal packages of another, which a later version of the other may change. Tests
// may, because they do not run elsewhere, and so may the modules in together.
func TestModulesKeepToTheirInternals(t *testing.T) {
	t.Parallel()
	for _, folder := range released(t) {
		if slices.Contains(together, folder) {
			continue
		}
		own := modulePath(folder)
		form := `{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}`
		for line := range strings.Lines(goOutput(t, filepath.Join(top, folder), nil, "list", "-f", form, "./...")) {
			from, imported, _ := strings.Cut(strings.TrimSpace(line), " ")
			of, _, internal := strings.Cut(imported+"/", "/internal/")
			if internal && strings.HasPrefix(imported, root) && !strings.HasPrefix(of+"/", own+"/") {
				t.Errorf("%s imports %s of another module", from, imported)
			}
		}
	}
}
