//go:build unix

package jsruntime

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/workers"
)

// TestMain gives runs more time, for busy machines. The race detector watches
// the pool in this process. Workers would run many times slower under it, so
// they are a program built without it.
func TestMain(m *testing.M) {
	workers.DefaultTimeout = 2 * time.Minute
	if workers.DetectorMemory > 0 {
		workers.Program = builtWorker
	}
	code := m.Run()
	builtPrograms.remove()
	os.Exit(code)
}

// builtWorker returns the path of the worker in testdata, built by the first
// test that needs it.
func builtWorker() string {
	path, err := builtPrograms.build("worker")
	if err != nil {
		panic(err)
	}
	return path
}

// programs are the programs in testdata, each built once.
type programs struct {
	mu     sync.Mutex
	folder string
	paths  map[string]string
}

var builtPrograms = programs{paths: map[string]string{}}

// BuildProgram returns the path of a program in testdata, built without the
// race detector.
func BuildProgram(t *testing.T, name string) string {
	t.Helper()
	return must.Get(builtPrograms.build(name))(t)
}

func (p *programs) build(name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path := p.paths[name]; path != "" {
		return path, nil
	}
	if p.folder == "" {
		folder, err := os.MkdirTemp("", "jsruntime")
		if err != nil {
			return "", err
		}
		p.folder = folder
	}
	path := filepath.Join(p.folder, name)
	if out, err := exec.Command("go", "build", "-o", path, "./testdata/"+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	p.paths[name] = path
	return path, nil
}

func (p *programs) remove() {
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}
