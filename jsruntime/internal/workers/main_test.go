//go:build unix

package workers

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestMain gives runs more time, for busy machines. Under the race detector,
// workers are a program built without it.
func TestMain(m *testing.M) {
	DefaultTimeout = 2 * time.Minute
	folder, err := os.MkdirTemp("", "workers")
	if err != nil {
		panic(err)
	}
	if DetectorMemory > 0 {
		Program = sync.OnceValue(func() string { return buildWorker(folder) })
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// buildWorker builds the worker of testdata into a folder.
func buildWorker(folder string) string {
	path := filepath.Join(folder, "worker")
	if out, err := exec.Command("go", "build", "-o", path, "../../testdata/worker").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return path
}
