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
	run(t, b, func(c chapter) bool { return !c.durable || !b.Volatile })
}

// run checks the rules of the chosen chapters.
func run(t *testing.T, b Backend, which func(chapter) bool) {
	t.Helper()
	for _, c := range chosen(t, b.Chapters, chapters()) {
		if !which(c) {
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

// chapters returns the rules of the contract. Model covers what a single caller can
// observe: every guard, read and condition, on random rows of two tenants. The other
// chapters have the rules that a short history of one caller cannot break.
func chapters() []chapter {
	return []chapter{
		{name: "Model", inTx: true, rules: propertyRules()},
		// A tenant never reads or changes rows of another.
		{name: "Isolation", inTx: true, rules: isolationRules()},
		// A refused change leaves nothing, and its error has no content.
		{name: "Conflicts", inTx: true, rules: conflictRules()},
		// Concurrent callers, on several nodes: nothing is lost, doubled or half done.
		{name: "Parallel", rules: parallelRules()},
		{name: "Follow", rules: followRules()},
		{name: "Queue", rules: queueRules()},
		{name: "Prune", rules: pruneRules()},
		{name: "ReadLogger", rules: readLogRules()},
		// Limits: no call does more than it was asked for.
		{name: "Count", rules: countingRules()},
		{name: "Expiry", rules: expiryRules()},
		// Sizes that take other paths: large rows, changes, offsets and conditions.
		{name: "Big", inTx: true, rules: bigRules()},
		{name: "Lists", inTx: true, rules: listRules()},
		// The tree over the log.
		{name: "Trees", rules: treeRules()},
		// Memory of arguments and results; contexts; handles.
		{name: "Ownership", rules: ownershipRules()},
		{name: "Context", rules: contextRules()},
		{name: "Close", rules: closeRules()},
		{name: "Nodes", durable: true, rules: nodeRules()},
	}
}
