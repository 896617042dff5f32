//go:build long && linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTheImageBuilds builds the image where buildah is installed.
func TestTheImageBuilds(t *testing.T) {
	t.Parallel()
	buildah, err := exec.LookPath("buildah")
	if err != nil {
		t.Skip("buildah is not installed")
	}
	folder := t.TempDir()
	for name, from := range map[string]string{"Dockerfile": "../../Dockerfile", ".dockerignore": "../../.dockerignore", "tokenvault": binary} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	isolated := []string{"--root", filepath.Join(folder, "images"), "--runroot", filepath.Join(folder, "run"), "--storage-driver", "vfs"}
	build := append(isolated, "build", "--isolation", "chroot", "--tag", "tokenvault-under-test", folder)
	if out, err := exec.CommandContext(t.Context(), buildah, build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
