package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func isConflict(err error, kind storage.ConflictKind) bool {
	c, ok := errors.AsType[*storage.Conflict](err)
	return ok && c.Kind == kind
}

// A group consists of calls that arrive at the same time. The test builds it by
// hand, so that every run has the same one. A call creates tokens, of which "taken"
// exists.
func TestConflictLeavesItsGroupIntact(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		calls   []string // the ids of their tokens
		refused []int
	}{
		{"all hold", []string{"a", "b"}, nil},
		{"one is refused before it writes", []string{"a", "taken", "b"}, []int{1}},
		{"one is refused half-way", []string{"a", "half taken", "b"}, []int{1}},
		{"members are in each other's way", []string{"a", "a", "half taken"}, []int{1, 2}},
		{"the id that a refused one wanted is free", []string{"half taken", "half"}, []int{0}},
	} {
		for how, there := range map[string]int{", all there": len(test.calls), ", one after the other": 1} {
			t.Run(test.name+how, func(t *testing.T) {
				t.Parallel()
				s := open(t, newPath(t))
				write(t, s, insert(token("taken")))
				calls := make([]*call, len(test.calls))
				for i, ids := range test.calls {
					calls[i] = &call{change: insert()}
					for _, id := range strings.Fields(ids) {
						calls[i].change.InsertTokens = append(calls[i].change.InsertTokens, token(id))
					}
				}
				for waiting := calls; len(waiting) > 0; {
					g := &group{calls: waiting[:min(there, len(waiting))]}
					g.more = func(g *group) bool {
						next := len(g.calls)
						g.calls = waiting[:min(next+1, len(waiting))]
						return len(g.calls) > next
					}
					s.writes.writer.run(g)
					waiting = waiting[len(g.calls):]
				}
				want := 1
				for i, c := range calls {
					refused := slices.Contains(test.refused, i)
					if !refused {
						want++
					}
					if isConflict(c.err, storage.TokenIDTaken) != refused || c.err != nil && !refused {
						t.Errorf("call %d: %v, refused: %t", i, c.err, refused)
					}
				}
				if counted, stored := total(t, s); counted != want || stored != want {
					t.Errorf("counted %d and stored %d tokens, want %d", counted, stored, want)
				}
			})
		}
	}
}

// Calls that arrive during a transaction are in the next one. They join the
// running one if its rows are still being written and it may be shared.
func TestWaitingCallsShareATransaction(t *testing.T) {
	t.Parallel()
	const callers = 20
	for name, test := range map[string]struct {
		alone bool
		want  int // calls in the transaction of the waiting calls
	}{
		"the next":    {alone: true, want: callers + 1},
		"the running": {want: 1 + callers + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newPath(t))
			held, release := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			do := func(c call) {
				wg.Go(func() {
					must.Match(t, "a call", s.writes.do(t.Context(), c), nil)
				})
			}
			do(call{alone: test.alone, rows: 1, inside: func(*writer) error { close(held); <-release; return nil }})
			<-held
			for i := range callers {
				do(call{change: insert(token(strconv.Itoa(i))), rows: 2})
			}
			waitUntilWaiting(s.writes, callers)
			together := 0
			do(call{rows: 1, inside: func(*writer) error { together = len(s.writes.group.calls); return nil }})
			waitUntilWaiting(s.writes, callers+1)
			close(release)
			wg.Wait()
			must.Same(t, "the transaction", test.want, together)
			if counted, stored := total(t, s); counted != callers || stored != callers {
				t.Errorf("counted %d and stored %d tokens, want %d", counted, stored, callers)
			}
		})
	}
}

// A call that must be synced does not join an unsynced transaction. No call
// joins a transaction in memory, which blocks readers.
func TestNoCallJoinsAnUnsyncedTransaction(t *testing.T) {
	t.Parallel()
	read := func() *call {
		return &call{change: &storage.Change{Tenant: tenant, Relaxed: true, Logs: []storage.Log{logEntry()}}, rows: 1}
	}
	create := func() *call { return &call{change: insert(token("a")), rows: 2} }
	for name, test := range map[string]struct {
		path  string
		first *call
		want  int // calls that join
	}{
		"synced":     {newPath(t), create(), 1},
		"not synced": {newPath(t), read(), 0},
		"in memory":  {":memory:", create(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queue{writer: open(t, test.path).writes.writer, waiting: []*call{create()}}
			g := &group{calls: []*call{test.first}}
			if joins := q.takeIn(g); joins != (test.want > 0) || len(g.calls) != 1+test.want {
				t.Errorf("%d calls have joined, want %d", len(g.calls)-1, test.want)
			}
		})
	}
}

// waitUntilWaiting returns when this many calls are waiting.
func waitUntilWaiting(q *queue, calls int) {
	for {
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n == calls {
			return
		}
		runtime.Gosched()
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	small := func(n int) []*call {
		calls := make([]*call, n)
		for i := range calls {
			calls[i] = &call{rows: 1}
		}
		return calls
	}
	for _, test := range []struct {
		name    string
		waiting []*call
		want    []int
	}{
		{"by calls", small(maxGroupCalls + 1), []int{maxGroupCalls, 1}},
		{"by rows", []*call{{rows: maxGroupRows - 1}, {rows: 1}, {rows: 1}}, []int{2, 1}},
		{"but for one that is too big for any", []*call{{rows: 1}, {rows: 10 * maxGroupRows}, {rows: 1}}, []int{1, 1, 1}},
		{"by a call that must be alone", []*call{{rows: 1}, {alone: true}, {rows: 1}}, []int{1, 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := queue{waiting: test.waiting}
			var got []int
			for len(q.waiting) > 0 {
				var g group
				q.fill(&g)
				got = append(got, len(g.calls))
			}
			must.Same(t, "sizes of groups", test.want, got)
		})
	}
}

func TestDurability(t *testing.T) {
	t.Parallel()
	relaxed := func() *storage.Change {
		return &storage.Change{Tenant: tenant, Relaxed: true, Logs: []storage.Log{logEntry()}}
	}
	withToken := relaxed()
	withToken.InsertTokens = []storage.Token{token("relaxed")}
	withClaim := relaxed()
	withClaim.Claim = &storage.ClaimChange{Op: storage.ClaimTake}
	const normal, full = 1, 2
	s := open(t, newPath(t))
	for _, test := range []struct {
		name  string
		group []*storage.Change
		want  int
	}{
		{"reads alone are not synced", []*storage.Change{relaxed(), relaxed()}, normal},
		{"a token is", []*storage.Change{insert(token("a"))}, full},
		{"reads again", []*storage.Change{relaxed()}, normal},
		{"reads with others are", []*storage.Change{relaxed(), insert(token("b"))}, full},
		{"a token that says it is a read is", []*storage.Change{withToken}, full},
		{"a claim that says it is a read is", []*storage.Change{withClaim}, full},
	} {
		var g group
		for _, c := range test.group {
			g.calls = append(g.calls, &call{change: c, rows: rowsOf(c)})
		}
		s.writes.writer.run(&g)
		for _, c := range g.calls {
			if c.err != nil {
				t.Errorf("%s: %v", test.name, c.err)
			}
		}
		if got := pragma(t, s.writes.writer.conn, "synchronous"); got != strconv.Itoa(test.want) {
			t.Errorf("%s: synchronous is %s, want %d", test.name, got, test.want)
		}
	}
}

func TestRelaxedWritesAreSyncedSoon(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	write(t, s, &storage.Change{Tenant: tenant, Relaxed: true, Logs: []storage.Log{logEntry()}})
	w := s.writes.writer
	if !w.unsynced.Load() {
		t.Fatal("no sync is due after a relaxed write")
	}
	w.syncs.Wait()
	if w.unsynced.Load() {
		t.Error("the sync has run and is still due")
	}
}

// Deleted data must not be in the files after a sweep.
func TestSweepRemovesDeletedDataFromFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	const secret = "CANARY-of-a-deleted-body"
	victim := token("victim")
	victim.Body = []byte(secret)
	write(t, s, insert(victim))
	if n := filesWith(t, path, secret); n == 0 {
		t.Fatal("no file has the body before it is deleted, so the test looks at the wrong files")
	}
	write(t, s, &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{
		{Ord: victim.Ord, Set: victim.Set, Type: victim.Type},
	}})
	must.Get(s.Sweep(t.Context(), someTime, 10))(t)
	must.Same(t, "files still have the deleted body", 0, filesWith(t, path, secret))
}

// filesWith counts the files of a database that contain a text.
func filesWith(t *testing.T, path, text string) int {
	t.Helper()
	files := must.Get(filepath.Glob(path + "*"))(t)
	n := 0
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(t)
		if contains(content, text) {
			n++
		}
	}
	return n
}

// A panic becomes the error of its group. Later calls can still write, and the
// changes of the group are undone.
func TestPanicFailsOnlyItsGroup(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	half := func(w *writer) error {
		if err := w.applyChange(insert(token("half"))); err != nil {
			return err
		}
		panic("broken")
	}
	if err := s.writes.do(t.Context(), call{inside: half, rows: 1}); err == nil || strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
	write(t, s, insert(token("next")))
	if _, stored := total(t, s); stored != 1 {
		t.Errorf("%d tokens are stored, want the one after the panic", stored)
	}
}

// A log that cannot be emptied leaves the writer's busy timeout as it was.
func TestBusyTimeoutIsRestored(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	inTransaction := func(w *writer) error {
		if err := w.truncate(); err == nil {
			return errors.New("a log is emptied inside a transaction")
		}
		return nil
	}
	must.Do(t, s.writes.do(t.Context(), call{inside: inTransaction, rows: 1}))
	must.Same(t, "busy_timeout", "0", pragma(t, s.writes.writer.conn, "busy_timeout"))
}

// A process that writes now and then gets its turn beside a process that writes
// all the time. Another Store stands for the other process. With SQLite's own
// way of waiting, it came last among thousands.
func TestBusyProcessDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	busy, other := open(t, path), open(t, path)
	ctx, stop := context.WithCancel(t.Context())
	var written atomic.Int64
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for caller := range 8 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				must.Match(t, "Write", busy.Write(t.Context(), insert(token(fmt.Sprintf("busy %d %d", caller, i)))), nil)
				written.Add(1)
			}
		})
	}
	const writes, mostOthers = 20, 2000
	for i := range writes {
		must.Do(t, other.Write(t.Context(), insert(token(fmt.Sprint("other ", i)))))
	}
	if n := written.Load(); n > writes*mostOthers {
		t.Errorf("one store wrote %d tokens before the other wrote %d", n, writes)
	}
}

// A hold fails after anyone has changed its record, even if an
// earlier change has held the same revision.
func TestHoldSeesEveryChangeOfItsRecord(t *testing.T) {
	t.Parallel()
	ring := storage.Record{Tenant: tenant, Kind: "ring", ID: newID(), Name: "ring", Rev: 3, Body: []byte("keys")}
	holding := func(rev int64) *storage.Change {
		return &storage.Change{Tenant: tenant, Logs: []storage.Log{logEntry()}, Hold: &storage.Hold{Kind: ring.Kind, ID: ring.ID, Rev: rev}}
	}
	update := func() *storage.Change {
		return &storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{{Record: ring, Rev: ring.Rev}}}
	}
	elsewhere := func(t *testing.T, s *Store, statement string) {
		t.Helper()
		other := must.Get(s.OpenDB())(t)
		defer other.Close()
		must.Get(other.Exec(statement))(t)
	}
	for name, test := range map[string]struct {
		change func(t *testing.T, s *Store)
		rev    int64 // afterwards; 0 if the record was deleted
	}{
		"nothing": {func(*testing.T, *Store) {}, 3},
		"an update": {func(t *testing.T, s *Store) {
			t.Helper()
			write(t, s, update())
		}, 4},
		"a deletion": {func(t *testing.T, s *Store) {
			t.Helper()
			write(t, s, &storage.Change{Tenant: tenant, DeleteRecords: []storage.RecordDelete{{Kind: ring.Kind, ID: ring.ID, Rev: ring.Rev}}})
		}, 0},
		"another connection updates": {func(t *testing.T, s *Store) {
			t.Helper()
			elsewhere(t, s, `UPDATE vault_records SET rev = rev + 1`)
		}, 4},
		"another connection deletes": {func(t *testing.T, s *Store) {
			t.Helper()
			elsewhere(t, s, `DELETE FROM vault_records`)
		}, 0},
		"the tenant is deleted": {func(t *testing.T, s *Store) {
			t.Helper()
			for more := true; more; {
				more = must.Get(s.Purge(t.Context(), tenant, 100))(t)
			}
		}, 0},
		"an update in the same group": {func(t *testing.T, s *Store) {
			t.Helper()
			g := group{calls: []*call{{change: holding(3), rows: 1}, {change: update(), rows: 1}, {change: holding(3), rows: 1}, {change: holding(4), rows: 1}}}
			s.writes.writer.run(&g)
			for i, want := range []error{nil, nil, storage.ErrLate, nil} {
				if err := g.calls[i].err; !errors.Is(err, want) {
					t.Errorf("call %d: got %v, want %v", i, err, want)
				}
			}
		}, 4},
		"an update that is rolled back": {func(t *testing.T, s *Store) {
			t.Helper()
			fail := func(w *writer) error {
				return errors.Join(w.applyChange(update()), w.hold(holding(4)), errors.New("broken"))
			}
			must.Match(t, "the update has not failed", s.writes.do(t.Context(), call{inside: fail, rows: 1}), must.Text("broken"))
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newPath(t))
			write(t, s, &storage.Change{Tenant: tenant, InsertRecords: []storage.Record{ring}})
			write(t, s, holding(3))
			write(t, s, holding(3))
			test.change(t, s)
			for rev := range int64(6) {
				var want error
				if rev != test.rev || test.rev == 0 {
					want = storage.ErrLate
				}
				must.Match(t, fmt.Sprintf("revision %d", rev), s.Write(t.Context(), holding(rev)), want)
			}
		})
	}
}
