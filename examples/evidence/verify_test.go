// Package evidence_test runs verify.py, which verifies an exported audit log
// with only Python's standard library.
package evidence_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const golden = "../../evidence/testdata"

func read(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(golden, name)))(t)
	return b
}

// run returns the exit status of verify.py.
func run(t *testing.T, bundle []byte, args ...string) (int, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.ndjson")
	must.Do(t, os.WriteFile(path, bundle, 0o600))
	out, err := exec.CommandContext(t.Context(), "python3", append([]string{"verify.py", path}, args...)...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("verify.py needs python3: %v", err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

// TestVerifyPy gives the script good and bad bundles, and compares its result
// with the verdict of package evidence.
func TestVerifyPy(t *testing.T) {
	t.Parallel()
	bundle, vkey := read(t, "bundle.ndjson"), strings.TrimSpace(string(read(t, "key.txt")))
	lines := bytes.SplitAfter(bundle, []byte("\n"))
	lines = lines[:len(lines)-1]
	entry := slices.IndexFunc(lines, func(l []byte) bool { return bytes.HasPrefix(l, []byte(`{"n":5,`)) })
	erased := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(`"erased":`)) })
	edit := func(do func([][]byte) [][]byte) []byte { return bytes.Join(do(slices.Clone(lines)), nil) }
	for name, c := range map[string]struct {
		bundle []byte
		want   int
		says   string
	}{
		"good":    {bundle, 0, "10 entries"},
		"altered": {bytes.Replace(bundle, []byte(`"operation":"create"`), []byte(`"operation":"delete"`), 1), 5, "altered"},
		"mac":     {bytes.Replace(bundle, []byte(`"mac":"`), []byte(`"mac":"AAAA`), 1), 5, "altered"},
		"missing": {edit(func(l [][]byte) [][]byte { return slices.Delete(l, entry, entry+1) }), 5, "missing"},
		"doubled": {edit(func(l [][]byte) [][]byte { return slices.Insert(l, entry, l[entry]) }), 5, "reordered"},
		"swapped": {edit(func(l [][]byte) [][]byte {
			l[entry], l[entry+1] = l[entry+1], l[entry]
			return l
		}), 5, "reordered"},
		"no event": {edit(func(l [][]byte) [][]byte { return slices.Delete(l, 1, 2) }), 5, "tampered"},
		"cut":      {bytes.Join(lines[:len(lines)-1], nil), 5, "ends early"},
		"cut more": {bytes.Join(lines[:entry+1], nil), 5, "ends early"},
		"half":     {bundle[:len(bundle)/2], 5, "tampered"},
		"note":     {bytes.Replace(bundle, []byte(`\n\n— `), []byte(`\nx\n\n— `), 1), 5, "bad signature"},
		"empty":    {nil, 6, "not a bundle"},
		"text":     {[]byte("not a bundle\n"), 6, "not a bundle"},
		"format 1": {bytes.Replace(bundle, []byte(`vault-evidence/2`), []byte(`vault-evidence/1`), 1), 5, "another format"},
		"another's erased entry": {edit(func(l [][]byte) [][]byte {
			head, _, _ := bytes.Cut(l[entry], []byte(`,"mac"`))
			_, tail, _ := bytes.Cut(l[erased], []byte(`,"entry"`))
			l[entry] = slices.Concat(head, []byte(`,"entry"`), tail)
			return l
		}), 5, "altered"},
		"another field": {bytes.Replace(bundle, []byte(`"origin":"192.0.2.7"}`), []byte(`"origin":"192.0.2.7","note":"x"}`), 1), 5, "altered"},
		"empty field":   {bytes.Replace(bundle, []byte(`"message":"Token created"}`), []byte(`"message":"Token created","origin":""}`), 1), 5, "altered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, said := run(t, c.bundle, vkey)
			if got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("exit status %d: %s", got, said)
			}
			if is := status(c.bundle, vkey); is != c.want {
				t.Errorf("the status of package evidence is %d", is)
			}
		})
	}
}

// status returns the exit status for the verdict of package evidence.
func status(bundle []byte, vkey string) int {
	switch r, err := evidence.Verify(bytes.NewReader(bundle), vkey, nil); {
	case err != nil:
		return 6
	case !r.OK():
		return 5
	default:
		return 0
	}
}

func TestVerifyPyKeys(t *testing.T) {
	t.Parallel()
	bundle, vkey := read(t, "bundle.ndjson"), strings.TrimSpace(string(read(t, "key.txt")))
	for _, key := range []string{vkey, "x", "a+b+c", vkey + "=", "x" + vkey, vkey[:len(vkey)-1], strings.ToUpper(vkey)} {
		if got, said := run(t, bundle, key); got != status(bundle, key) {
			t.Errorf("%s: exit status %d, of package evidence %d: %s", key, got, status(bundle, key), said)
		}
	}
}

func TestVerifyPySince(t *testing.T) {
	t.Parallel()
	bundle, vkey := read(t, "bundle.ndjson"), strings.TrimSpace(string(read(t, "key.txt")))
	for name, want := range map[string]int{"since.txt": 0, "fork.txt": 5, "none.txt": 6} {
		if got, said := run(t, bundle, vkey, filepath.Join(golden, name)); got != want {
			t.Errorf("%s: exit status %d: %s", name, got, said)
		}
	}
}
