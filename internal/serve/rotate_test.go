package serve

import (
	"io"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/terminal"
)

func TestRotateKeysOfNoTenants(t *testing.T) {
	t.Parallel()
	cfg := &Config{rotateKeys: everyTenant}
	if _, err := rotateKeys(t.Context(), newVault(t), cfg, terminal.NewProgress(io.Discard)); err == nil || !strings.Contains(err.Error(), "no tenants") {
		t.Errorf("%v", err)
	}
}
