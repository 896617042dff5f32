package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The package comment has the invariants, numbered without a gap, and each names a
// test that exists.
func TestInvariantsNameTheirTests(t *testing.T) {
	t.Parallel()
	tests := ""
	for _, folder := range []string{".", "../notary", "../../evidence", "../test/tampering"} {
		for _, file := range must.Get(filepath.Glob(folder + "/*_test.go"))(t) {
			tests += string(must.Get(os.ReadFile(file))(t))
		}
	}
	text := string(must.Get(os.ReadFile("ledger.go"))(t))
	_, rules, found := strings.Cut(text[:strings.Index(text, "package ledger\n")], "# Invariants")
	if !found {
		t.Fatal("the package comment has no invariants")
	}
	starts := regexp.MustCompile(`(?m)^//  (\d+)\. `).FindAllStringSubmatchIndex(rules, -1)
	must.Same(t, "invariants", 13, len(starts))
	for i, at := range starts {
		end := len(rules)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		must.Same(t, "a number", fmt.Sprint(i+1), rules[at[2]:at[3]])
		names := regexp.MustCompile(`\bTest\w+`).FindAllString(rules[at[0]:end], -1)
		if len(names) == 0 {
			t.Errorf("invariant %d names no test", i+1)
		}
		for _, name := range names {
			if !strings.Contains(tests, "\nfunc "+name+"(t *testing.T)") {
				t.Errorf("invariant %d names %s, which is not a test", i+1, name)
			}
		}
	}
}
