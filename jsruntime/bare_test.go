package jsruntime_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestStrayWorkerVariableIsIgnored sets the environment variable of workers without a
// descriptor. The program ignores it.
func TestStrayWorkerVariableIsIgnored(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "TestNothing")
	cmd.Env = append(os.Environ(), "VAULT_JSRUNTIME_WORKER=1000000")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("got %v: %s", err, out)
	}
}

// TestGarbageDoesNotCountAgainstNextRun makes short runs that leave much garbage. It does
// not count against the next run.
func TestGarbageDoesNotCountAgainstNextRun(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{Workers: 1})
	for i, size := range []string{"120e6", "120e6", "120e6", "60e6", "120e6", "30e6", "30e6", "120e6"} {
		if out, err := runBody(r, "t", "return new ArrayBuffer("+size+").byteLength", patience); err != nil {
			t.Errorf("run %d: %s, %s", i+1, out, explain(err))
		}
	}
}

// TestWorkerIsBare checks what code can see of its process.
func TestWorkerIsBare(t *testing.T) {
	t.Setenv("VAULT_TEST_SECRET", "s3cret")
	r := newWorkers(t, nil)
	out, err := runBody(r, "t", `return JSON.stringify([process.env, Object.keys(globalThis), process.argv, Object.getOwnPropertyNames(globalThis)])`, patience)
	if err != nil {
		t.Fatal(explain(err))
	}
	for _, word := range []string{"s3cret", "VAULT", os.Args[0], "sys"} {
		if strings.Contains(out, `"`+word) {
			t.Errorf("the code can see %q", word)
		}
	}
}
