//go:build unix

package jsruntime

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/workers"
)

// TestMain gives runs more time, for busy machines. The race detector watches
// the pool in this process. Workers would run many times slower under it, so
// they are a program built without it.
func TestMain(m *testing.M) {
	workers.DefaultTimeout = 2 * time.Minute
	if workers.DetectorMemory > 0 {
		workers.Program = func() string { return BuildProgram("worker") }
	}
	var err error
	if programs, err = os.MkdirTemp("", "jsruntime"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs)
	os.Exit(code)
}

var (
	programs string // the folder of built programs
	building sync.Mutex
)

// BuildProgram returns the path of a program in testdata, built without the
// race detector by the first test that needs it.
func BuildProgram(name string) string {
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(programs, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/"+name).CombinedOutput(); err != nil {
		panic(string(out))
	}
	return path
}
