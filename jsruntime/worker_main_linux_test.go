package jsruntime_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestWorkerHasNoDescriptorsOfTheHost starts a host with descriptors of its parent. The host's
// init opens a file and a connection. A worker has none of these. The init runs
// in a worker that is the host itself, and does not run in a worker that is a
// separate program.
func TestWorkerHasNoDescriptorsOfTheHost(t *testing.T) { //nolint:tparallel // the cases share the file that init writes
	t.Parallel()
	host, worker := jsruntime.BuildProgram("host"), jsruntime.BuildProgram("worker")
	folder := filepath.Dir(host)
	for name, c := range map[string]struct {
		args []string
		runs bool
	}{"itself": {nil, true}, "WorkerPath": {[]string{worker}, false}} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(host, c.args...)
			cmd.Stderr = &bytes.Buffer{}
			for range 3 { // as 3, 4 and 5; a worker has its link at 3
				cmd.ExtraFiles = append(cmd.ExtraFiles, secretFile(t))
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, cmd.Stderr)
			}
			checkDescriptors(t, out)
			started := must.Get(os.ReadFile(filepath.Join(folder, "init.log")))(t)
			if got := strings.Contains(string(started), "vault-jsruntime-worker"); got != c.runs {
				t.Errorf("the init of the host ran in a worker: %t, want %t", got, c.runs)
			}
			must.Do(t, os.Remove(filepath.Join(folder, "init.log")))
		})
	}
}

func secretFile(t *testing.T) *os.File {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "secret")))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// checkDescriptors reads the descriptors of workers and looks for unwanted
// ones.
func checkDescriptors(t *testing.T, out []byte) {
	t.Helper()
	var workers []map[string]string
	if err := json.Unmarshal(out, &workers); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	seen := 0
	for _, w := range workers {
		if w == nil {
			continue
		}
		seen++
		if !strings.HasPrefix(w["3"], "socket:") {
			t.Errorf("descriptor 3 is %q", w["3"])
		}
		for fd, what := range w {
			switch {
			case len(fd) == 1 && fd <= "3", what == "anon_inode:[eventpoll]", what == "anon_inode:[eventfd]":
			default:
				t.Errorf("a worker has descriptor %s: %s", fd, what)
			}
		}
	}
	if seen == 0 {
		t.Errorf("no worker was seen: %s", out)
	}
}
