//go:build long && linux

package main

import (
	"debug/elf"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// built builds the program for the image once, next to the program under
// test.
var built = sync.OnceValues(func() (string, error) {
	path := binary + "-image"
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	return path, build.Run()
})

// forImage returns the path of the program for the image.
func forImage(t *testing.T) string {
	t.Helper()
	path := must.Get(built())(t)
	return path
}

// TestProgramIsStatic checks that the program needs no loader and no
// library, because an image from scratch has neither.
func TestProgramIsStatic(t *testing.T) {
	t.Parallel()
	f := must.Get(elf.Open(forImage(t)))(t)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %s", p.Type)
		}
	}
	if f.Section(".dynamic") != nil {
		t.Error("the program has a dynamic section")
	}
}

// TestProgramRunsInAnEmptyImage runs the program in an otherwise empty
// folder, as in an image from scratch.
func TestProgramRunsInAnEmptyImage(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root")
	}
	root := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(root, "data"), 0o700))
	program := must.Get(os.ReadFile(forImage(t)))(t)
	must.Do(t, os.WriteFile(filepath.Join(root, "tokenvault"), program, 0o700))
	inside := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Path, cmd.Dir, cmd.SysProcAttr = "/tokenvault", "/data", &syscall.SysProcAttr{Chroot: root}
		return cmd
	}
	if out, err := inside(command(t, root, nil, "key", "new")).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "vaultkey_") {
		t.Fatalf("%v\n%s", err, out)
	}
	s := startServer(t, inside(command(t, root, []string{"TOKENVAULT_ADDR=127.0.0.1:0", "TOKENVAULT_CREATE_KEY=true"}, "serve")))
	res := must.Get(http.Get(s.url + "/readyz"))(t)
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Errorf("%s\n%s", res.Status, text)
	}
	must.Get(os.Stat(filepath.Join(root, "data", "vault.db")))(t)
}

// TestImageBuilds builds the image if buildah is installed. The built
// program replaces the build stage, because that needs a base image.
func TestImageBuilds(t *testing.T) {
	t.Parallel()
	buildah, err := exec.LookPath("buildah")
	if err != nil {
		t.Skip("buildah is not installed")
	}
	folder := t.TempDir()
	program := must.Get(os.ReadFile(forImage(t)))(t)
	lines := instructions(t, "../../Dockerfile")
	lines = lines[slices.Index(lines, "FROM scratch"):]
	stage := strings.Replace(strings.Join(lines, "\n"), "COPY --from=build /tokenvault", "COPY tokenvault", 1)
	for name, content := range map[string][]byte{"Dockerfile": []byte(stage), "tokenvault": program} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), content, 0o755))
	}
	isolated := []string{"--root", filepath.Join(folder, "images"), "--runroot", filepath.Join(folder, "run"), "--storage-driver", "vfs"}
	build := append(isolated, "build", "--isolation", "chroot", "--tag", "tokenvault-under-test", folder)
	if out, err := exec.CommandContext(t.Context(), buildah, build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
