//go:build long

package sealed_test

import (
	"os/exec"
	"testing"
)

// TestGeneratedCodeIsCurrent generates the sqlc code again. Building sqlc
// takes minutes.
func TestGeneratedCodeIsCurrent(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "run", "github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1", "diff").CombinedOutput()
	if err != nil {
		t.Errorf("run go generate: %v\n%s", err, out)
	}
}
