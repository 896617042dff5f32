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
	for _, c := range chosen(t, b.Chapters) {
		if !which(c) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range c.rules {
				t.Run(r.text, func(t *testing.T) {
					t.Parallel()
					r.holds(newDbTest(t, b))
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
func chosen(t *testing.T, names []string) []chapter {
	t.Helper()
	if len(names) == 0 {
		return chapters
	}
	var found []chapter
	for _, name := range names {
		i := slices.IndexFunc(chapters, func(c chapter) bool { return c.name == name })
		if i < 0 {
			t.Fatalf("there is no chapter %q", name)
		}
		found = append(found, chapters[i])
	}
	return found
}

// rule is a rule of the contract, with its test.
type rule struct {
	text  string
	holds func(w *dbTest)
}

// chapters are the rules of the contract. Model covers what a single caller can
// notice: every guard, read and condition, on random rows of two tenants, and the
// ownership of arguments and results. The other chapters have the rules that a short
// history of one caller cannot break.
var chapters = []chapter{
	{name: "Model", inTx: true, rules: propertyRules()},
	// A tenant never reads or changes rows of another.
	{name: "Isolation", inTx: true, rules: []rule{
		{"no row of one tenant is visible through another tenant's reads", readsAreIsolated},
		{"no row of one tenant is changed by another tenant's call, or in conflict with it", writesAreIsolated},
	}},
	// A refused change leaves nothing, and its error has no content.
	{name: "Conflicts", inTx: true, rules: []rule{
		{"an Ord is a key too and is never overwritten", ordTaken},
		{"ErrLate: the record that a change holds has another revision, or is missing", holdStale},
		{"guards are judged before anything is written", guardsComeFirst},
		{"errors never carry a column's content", errorsHaveNoContent},
	}},
	// Concurrent callers, on several nodes: nothing is lost, doubled or half done.
	{name: "Parallel", rules: parallelRules()},
	{name: "Follow", rules: []rule{
		{"a follower that begins now gets what is written then", followFromNow},
		{"a place that is none is an error", followNowhere},
		{"a follower that catches up gets what is written meanwhile once", followCatchUp},
	}},
	{name: "Queue", rules: []rule{
		{"no two callers get the same job", jobContention},
	}},
	{name: "Prune", rules: []rule{
		{"no two calls delete the same entry, and those written meanwhile are kept", deleteLogsInParallel},
	}},
	{name: "ReadLogger", rules: []rule{
		{"ReadToken returns the token and enters that it was read", optional(readEnters)},
		{"what ReadToken does not return is not entered", optional(readNothing)},
		{"ReadToken returns large tokens whole", optional(readLarge)},
		{"every one of many readers gets its token, and has its entry", optional(readManyAtOnce)},
		{"a reader whose context ends leaves the others alone", optional(readersWhoLeave)},
	}},
	// Limits: no call exceeds its limit.
	{name: "Count", rules: []rule{
		{"Count stops counting jobs and records where it may", countUpTo},
	}},
	{name: "Expiry", rules: []rule{
		{"Sweep deletes up to limit claims and dead jobs, and reports whether more are due", sweepLimit},
		{"Purge deletes up to limit rows of every kind, records last, and leaves other tenants", purgeTenant},
	}},
	// Sizes that take other paths: large rows, changes, offsets and conditions.
	{name: "Big", inTx: true, rules: []rule{
		{"a row may have 5 MiB", bigRows},
		{"a change may have 10,000 tokens", bigChange},
		{"a change with 2,000 tokens is refused whole", bigRefusal},
		{"Tokens takes many ids", manyIDs},
	}},
	{name: "Lists", inTx: true, rules: []rule{
		{"a page may start deep, or beyond the end", deepOffset},
		{"conditions may be deep and wide", wideConditions},
	}},
	// The tree over the log.
	{name: "Trees", rules: []rule{
		{"WriteTree stores a tree, and ReadTree returns its rows", onTrees(treeRows)},
		{"WriteTree refuses a tree of another size or state whole", onTrees(treeStale)},
		{"of many that append at once, one wins each time", onTrees(treeRace)},
		{"the vault's tree has events and checkpoints", onTrees(treeEvents)},
		{"a checkpoint of the same size stays", onTrees(treeCheckpointStays)},
		{"Trees returns trees by tenant, or in order", onTrees(treeList)},
		{"pruning deletes batches below an index, and nothing else", onTrees(treePrune)},
		{"LogsByRef returns the entries that FollowLogs has returned", onTrees(treeLogs)},
		{"LogsByRef returns pages of entries", onTrees(treeLogPages)},
		{"the entries before a place are those that a follower of now had", onTrees(treeUntil)},
		{"Purge deletes the tree of a tenant", onTrees(treePurge)},
	}},
	// Contexts and handles.
	{name: "Context", rules: []rule{
		{"a change with a context that has ended is not written", cancelledWrite},
		{"a change whose time is up is not written", lateWrite},
		{"reads with a context that has ended fail", cancelledReads},
		{"a context that ends during Write makes no guess of the outcome", cancelDuringWrite},
		{"a context that ends during a read harms nothing", cancelDuringRead},
	}},
	{name: "Close", rules: []rule{
		{"calls that come after Close return ErrClosed", afterClose},
		{"Close waits for writes under way", func(w *dbTest) { w.closeUnderWay(w.id()) }},
	}},
	{name: "Nodes", durable: true, rules: []rule{
		{"reopening keeps everything", reopening},
		{"what was acknowledged before Close is there after it", closeThenReopen},
		{"two nodes see each other's commits", twoNodes},
		{"a node that closes leaves the others working", nodeLeaves},
		{"many nodes may open a new database at once", openAtOnce},
	}},
}

// optional returns the test of a rule that applies only to a storage with the methods
// of S.
func optional[S any](holds func(*dbTest, S)) func(*dbTest) {
	return func(w *dbTest) {
		if s, ok := w.store.(S); ok {
			holds(w, s)
		}
	}
}
