// Package storagetest checks that a backend fulfills the contract of package
// storage. The test of a backend is short:
//
//	func TestStorage(t *testing.T) {
//		storagetest.Run(t, storagetest.Backend{New: func(tb testing.TB) storagetest.Opener {
//			path := filepath.Join(tb.TempDir(), "vault.db")
//			return func(ctx context.Context) (storage.Storage, error) { return Open(ctx, path) }
//		}})
//	}
//
// Every rule of the contract is a subtest, named after the rule, with its own
// database. Rules therefore run in parallel, and a failure names the rule that
// does not hold.
package storagetest

import (
	"context"
	"slices"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// Opener opens a database. The suite calls it several times. Each call returns
// a separate handle, as for another node, or for the same node after a restart.
// The suite closes every handle that it opened.
type Opener func(ctx context.Context) (storage.Storage, error)

// Backend tells the suite how to create and open databases.
type Backend struct {
	// New creates an empty database and returns a function that opens it. The
	// database is removed at the end of the test. Many tests call New
	// concurrently.
	New func(tb testing.TB) Opener

	// Volatile means that a database exists only while its single handle is
	// open. The suite then skips the rules about several nodes and about
	// reopening.
	Volatile bool

	// Chapters names the chapters of the contract to check. If empty, all are
	// checked.
	Chapters []string
}

// Run checks every rule of the contract, each in a subtest with a separate
// database.
func Run(t *testing.T, b Backend) {
	t.Helper()
	for _, c := range chosen(t, b.Chapters, chapters()) {
		if c.durable && b.Volatile {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range c.rules {
				t.Run(r.text, func(t *testing.T) {
					t.Parallel()
					r.holds(newWorld(t, b))
				})
			}
		})
	}
}

// chapter is a group of rules about one subject.
type chapter struct {
	name    string
	durable bool // needs a database that outlives a handle
	inTx    bool // has only reads and changes
	rules   []rule
}

// chosen returns the chapters with these names, or all chapters.
func chosen(t *testing.T, names []string, all []chapter) []chapter {
	t.Helper()
	if len(names) == 0 {
		return all
	}
	var found []chapter
	for _, name := range names {
		i := slices.IndexFunc(all, func(c chapter) bool { return c.name == name })
		if i < 0 {
			t.Fatalf("there is no chapter %q", name)
		}
		found = append(found, all[i])
	}
	return found
}

// rule is a rule of the contract, with its test.
type rule struct {
	text  string
	holds func(w *world)
}

func chapters() []chapter {
	return []chapter{
		{name: "Isolation", inTx: true, rules: isolationRules()},
		{name: "Conflicts", inTx: true, rules: conflictRules()},
		{name: "Atomic", inTx: true, rules: atomicRules()},
		{name: "Follow", rules: followRules()},
		{name: "Count", rules: countingRules()},
		{name: "ReadLogger", rules: readLogRules()},
		{name: "Prune", rules: pruneRules()},
		{name: "Trees", rules: treeRules()},
		{name: "Queue", rules: queueRules()},
		{name: "Expiry", rules: expiryRules()},
		{name: "Lists", inTx: true, rules: listRules()},
		{name: "Model", inTx: true, rules: propertyRules()},
		{name: "Parallel", rules: parallelRules()},
		{name: "Ownership", rules: ownershipRules()},
		{name: "Big", inTx: true, rules: bigRules()},
		{name: "Context", rules: contextRules()},
		{name: "Close", rules: closeRules()},
		{name: "Nodes", durable: true, rules: nodeRules()},
	}
}
