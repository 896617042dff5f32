package sqlite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// TestVacuumRemovesRemains changes and deletes tokens at random. SQLite moves rows
// between pages, and overwrites only the last place of a row. VACUUM removes the other
// places, and a backup has none of them.
func TestVacuumRemovesRemains(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	old := churn(t, s, long.Rounds(150, 1500))
	must.Get(s.Sweep(t.Context(), someTime, 10))(t)
	t.Logf("after a sweep the files have %d of %d old bodies", remains(t, path, old), len(old))
	backup := filepath.Join(t.TempDir(), "backup.db")
	db := must.Get(s.OpenDB())(t)
	defer db.Close()
	must.Get(db.ExecContext(t.Context(), "VACUUM INTO ?", backup))(t)
	must.Get(db.ExecContext(t.Context(), "VACUUM"))(t)
	must.Get(s.Sweep(t.Context(), someTime, 10))(t)
	must.Same(t, "old bodies in the files after VACUUM", 0, remains(t, path, old))
	must.Same(t, "old bodies in a backup", 0, remains(t, backup, old))
}

// churn writes tokens, and returns what identifies the bodies that are no longer
// stored.
func churn(t *testing.T, s *Store, changes int) map[string]bool {
	r := rand.New(rand.NewPCG(1, 2))
	var live []storage.Token
	old := map[string]bool{}
	body := func() []byte {
		size := 48 + r.IntN(300)
		if r.IntN(20) == 0 {
			size += r.IntN(9000)
		}
		return []byte(strings.Repeat(uuid.NewString()[:32], size/32+1))
	}
	for range changes {
		ch := insert()
		for range r.IntN(20) {
			tok := token(uuid.NewString())
			tok.Body = body()
			ch.InsertTokens = append(ch.InsertTokens, tok)
		}
		for range min(r.IntN(15), len(live)) {
			i := r.IntN(len(live))
			tok := live[i]
			old[string(tok.Body[:32])] = true
			live = slices.Delete(live, i, i+1)
			if r.IntN(2) == 0 {
				ch.DeleteTokens = append(ch.DeleteTokens, storage.TokenDelete{Ord: tok.Ord, Rev: tok.Rev, Set: tok.Set, Type: tok.Type})
				continue
			}
			rev := tok.Rev
			tok.Rev, tok.Body = rev+1, body()
			ch.UpdateTokens = append(ch.UpdateTokens, storage.TokenUpdate{Rev: rev, OldSet: tok.Set, Token: tok})
		}
		write(t, s, ch)
		for _, u := range ch.UpdateTokens {
			live = append(live, u.Token)
		}
		live = append(live, ch.InsertTokens...)
	}
	return old
}

// remains counts the old bodies that the files of a database have.
func remains(t *testing.T, path string, old map[string]bool) int {
	t.Helper()
	found := map[string]bool{}
	for _, file := range must.Get(filepath.Glob(path + "*"))(t) {
		content := string(must.Get(os.ReadFile(file))(t))
		for i := range max(len(content)-32, 0) {
			if part := content[i : i+32]; old[part] {
				found[part] = true
			}
		}
	}
	return len(found)
}
