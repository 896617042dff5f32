package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A backup is not restored beside the log of another database, which SQLite would apply
// to it.
func TestRemainsOfADatabase(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		path := filepath.Join(t.TempDir(), "vault.db")
		must.Same(t, "before", false, remains(path))
		must.Do(t, os.WriteFile(path+end, nil, 0o600))
		must.Same(t, "with "+end, true, remains(path))
		must.Do(t, os.Remove(path+end))
		must.Do(t, os.Symlink("elsewhere", path+end)) // there is nothing
		must.Same(t, "with a link at "+end, true, remains(path))
	}
}
