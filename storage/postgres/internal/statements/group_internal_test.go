package statements

import (
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// Changes share the columns of a uniform group, the tenant among them, so a difference
// that goes unnoticed would write a token into another tenant.
func TestDifferentChangesAreNotUniform(t *testing.T) {
	t.Parallel()
	for name, differ := range map[string]func(c *storage.Change){
		"tenant":      func(c *storage.Change) { c.Tenant = storage.ID{2} },
		"no token":    func(c *storage.Change) { c.InsertTokens = nil },
		"type":        func(c *storage.Change) { c.InsertTokens[0].Type = "x" },
		"set":         func(c *storage.Change) { c.InsertTokens[0].Set = storage.Hash{2} },
		"expression":  func(c *storage.Change) { c.InsertTokens[0].Expression = storage.Hash{2} },
		"key version": func(c *storage.Change) { c.InsertTokens[0].KeyVersion = 2 },
		"created by":  func(c *storage.Change) { c.InsertTokens[0].CreatedBy = storage.ID{2} },
		"revision":    func(c *storage.Change) { c.InsertTokens[0].Rev = 2 },
		"containers":  func(c *storage.Change) { c.InsertTokens[0].Containers = []string{"/x/"} },
		"actor":       func(c *storage.Change) { c.Logs[0].ActorID = storage.ID{2} },
		"actor type":  func(c *storage.Change) { c.Logs[0].ActorType = "x" },
		"actor name":  func(c *storage.Change) { c.Logs[0].ActorName = "x" },
		"entity type": func(c *storage.Change) { c.Logs[0].EntityType = "x" },
		"operation":   func(c *storage.Change) { c.Logs[0].Operation = "x" },
		"message":     func(c *storage.Change) { c.Logs[0].Message = "x" },
	} {
		changes := []*storage.Change{newCreate(), newCreate()}
		if !uniform(changes) {
			t.Fatal("equal changes are not uniform")
		}
		if differ(changes[1]); uniform(changes) {
			t.Errorf("changes that differ in the %s are uniform", name)
		}
	}
}

func newCreate() *storage.Change {
	return &storage.Change{Tenant: storage.ID{1}, InsertTokens: []storage.Token{{}}, Logs: []storage.Log{{}}}
}
