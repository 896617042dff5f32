//go:build !race

package tampering

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// audit is a bundle for an auditor, with the key and an earlier note, which may be
// nil.
type audit struct {
	what   string
	key    string
	bundle []byte
	since  []byte
}

// goStatus returns the exit status that package evidence gives an audit: 0, 5 or 6.
func (a *audit) goStatus() string {
	report, err := evidence.Verify(bytes.NewReader(a.bundle), a.key, a.since)
	switch {
	case err != nil:
		return "6"
	case !report.OK():
		return "5"
	case report.Entries == 0:
		return "6"
	default:
		return "0"
	}
}

// auditor runs verify.py on each line of its input.
const auditor = `
import contextlib, io, sys, verify
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()):
        status = verify.main(*line.split())
    print(status)
`

// wantAgreement fails the test unless verify.py and package evidence come to the
// same result.
func wantAgreement(t testing.TB, audits []audit) {
	t.Helper()
	dir, input := t.TempDir(), ""
	for i, a := range audits {
		bundle, note := filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint(i, ".note"))
		must.Do(t, os.WriteFile(bundle, a.bundle, 0o600))
		must.Do(t, os.WriteFile(note, a.since, 0o600))
		if input += bundle + " " + a.key; a.since != nil {
			input += " " + note
		}
		input += "\n"
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", auditor)
	cmd.Dir, cmd.Stdin = filepath.Join("..", "..", "..", "examples", "evidence"), strings.NewReader(input)
	out, err := cmd.Output()
	got := strings.Fields(string(out))
	if err != nil || len(got) != len(audits) {
		t.Fatalf("verify.py gives %d of %d results: %v", len(got), len(audits), err)
	}
	for i := range audits {
		if want := audits[i].goStatus(); got[i] != want {
			t.Errorf("%s: the status of verify.py is %s, of package evidence %s", audits[i].what, got[i], want)
		}
	}
}
