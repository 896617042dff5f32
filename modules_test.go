package vault_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// released are the folders of the modules that users fetch, beside the root.
var released = []string{"otelvault", "vaultpgx"}

// TestModulesResolve fetches the modules from a clone with the tags of a release,
// as go get does for a user. Other modules come from the module cache, or from the
// proxy if they are not in it.
func TestModulesResolve(t *testing.T) {
	t.Parallel()
	version := requiredVersion(t)
	clone := filepath.Join(t.TempDir(), "clone.git")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--bare", ".", clone).CombinedOutput(); err != nil {
		t.Skipf("this is no clone: %v\n%s", err, out)
	}
	for _, tag := range append([]string{version}, tagsOf(version)...) {
		if out, err := exec.CommandContext(t.Context(), "git", "-C", clone, "tag", tag, "HEAD").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	user := t.TempDir()
	writeGoFile(t, user, "go.mod", "module example.com/user\n\ngo 1.26.0\n")
	var imports strings.Builder
	for _, folder := range released {
		imports.WriteString("import _ \"github.com/seed-72ea4aab/vault/" + folder + "\"\n")
	}
	writeGoFile(t, user, "user.go", "package user\n\nimport _ \"github.com/seed-72ea4aab/vault\"\n"+imports.String())
	for _, folder := range append([]string{""}, released...) {
		goAsUser(t, user, clone, "get", strings.TrimSuffix("github.com/seed-72ea4aab/vault/"+folder, "/")+"@"+version)
	}
	packages := goAsUser(t, user, clone, "list", "-deps", "./...")
	for _, folder := range released {
		if !strings.Contains(packages, "github.com/seed-72ea4aab/vault/"+folder+"\n") {
			t.Errorf("%s is not among the packages of the user: %s", folder, packages)
		}
	}
	if all := goAsUser(t, user, clone, "list", "-m", "all"); !strings.Contains(all, "github.com/seed-72ea4aab/vault "+version+"\n") || strings.Contains(all, "=>") {
		t.Errorf("the modules of the user: %s", all)
	}
}

// requiredVersion is the version of the vault that the other modules require: one
// version for all, without a replacement.
func requiredVersion(t *testing.T) string {
	t.Helper()
	version := ""
	for _, folder := range released {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.Parse("go.mod", text, nil)
		if err != nil || len(mod.Replace) > 0 {
			t.Fatalf("%s: %d replacements, %v", folder, len(mod.Replace), err)
		}
		for _, r := range mod.Require {
			if r.Mod.Path != "github.com/seed-72ea4aab/vault" {
				continue
			}
			if version != "" && version != r.Mod.Version {
				t.Errorf("%s requires %s, and others require %s", folder, r.Mod.Version, version)
			}
			version = r.Mod.Version
		}
	}
	if strings.HasPrefix(version, "v0.0.0") || version == "" {
		t.Fatalf("the modules require version %q of the vault, which will never be released", version)
	}
	return version
}

// tagsOf are the tags of the released modules in folders.
func tagsOf(version string) []string {
	tags := make([]string, len(released))
	for i, folder := range released {
		tags[i] = folder + "/" + version
	}
	return tags
}

// goAsUser runs the go command in a folder of a user. It knows the clone under the
// name of the repository, and has a module cache of its own.
func goAsUser(t *testing.T, folder, clone string, args ...string) string {
	t.Helper()
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE="+filepath.Join(filepath.Dir(clone), "cache"),
		"GOPRIVATE=github.com/seed-72ea4aab", "GONOSUMDB=*", "GOTOOLCHAIN=local",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download"))+","+goProxy(t),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+clone+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/seed-72ea4aab/vault")
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.String()
}

// goProxy is where modules come from that are not in the cache.
func goProxy(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func writeGoFile(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
