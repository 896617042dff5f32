package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
)

func isConflict(err error, kind storage.ConflictKind) bool {
	c, ok := errors.AsType[*storage.Conflict](err)
	return ok && c.Kind == kind
}

// A group is what callers that come at the same time share. Here it is made by
// hand, so that every run has the same one.
func TestGroup(t *testing.T) {
	t.Parallel()
	taken := func() *storage.Change { return insert(token("taken")) }
	half := func() *storage.Change { return insert(token("half"), token("taken")) }
	for _, test := range []struct {
		name    string
		members map[string]*storage.Change
		order   []string
		want    map[string]storage.ConflictKind
	}{
		{
			name:    "all hold",
			members: map[string]*storage.Change{"a": insert(token("a")), "b": insert(token("b"))},
			order:   []string{"a", "b"},
			want:    map[string]storage.ConflictKind{},
		},
		{
			name:    "one is refused before it writes",
			members: map[string]*storage.Change{"a": insert(token("a")), "bad": taken(), "b": insert(token("b"))},
			order:   []string{"a", "bad", "b"},
			want:    map[string]storage.ConflictKind{"bad": storage.TokenIDTaken},
		},
		{
			name:    "one is refused half-way",
			members: map[string]*storage.Change{"a": insert(token("a")), "bad": half(), "b": insert(token("b"))},
			order:   []string{"a", "bad", "b"},
			want:    map[string]storage.ConflictKind{"bad": storage.TokenIDTaken},
		},
		{
			name:    "members are in each other's way",
			members: map[string]*storage.Change{"a": insert(token("a")), "again": insert(token("a")), "bad": half()},
			order:   []string{"a", "again", "bad"},
			want:    map[string]storage.ConflictKind{"again": storage.TokenIDTaken, "bad": storage.TokenIDTaken},
		},
		{
			name:    "the id that a refused one wanted is free",
			members: map[string]*storage.Change{"bad": half(), "half": insert(token("half"))},
			order:   []string{"bad", "half"},
			want:    map[string]storage.ConflictKind{"bad": storage.TokenIDTaken},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newPath(t))
			write(t, s, insert(token("taken")))
			group := make([]*call, len(test.order))
			for i, name := range test.order {
				group[i] = &call{change: test.members[name]}
			}
			s.writes.writer.run(group)
			got := map[string]storage.ConflictKind{}
			want := 1
			for i, name := range test.order {
				if c, ok := errors.AsType[*storage.Conflict](group[i].err); ok {
					got[name] = c.Kind
				} else if group[i].err != nil {
					t.Errorf("%s: %v", name, group[i].err)
				} else {
					want++
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if counted, stored := total(t, s); counted != want || stored != want {
				t.Errorf("counted %d and stored %d tokens, want %d", counted, stored, want)
			}
		})
	}
}

func TestCallsThatWaitShareATransaction(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	held, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		hold := call{alone: true, inside: func(*writer) error { close(held); <-release; return nil }}
		if err := s.writes.do(t.Context(), hold); err != nil {
			t.Error(err)
		}
	})
	<-held
	const callers = 20
	for i := range callers {
		wg.Go(func() {
			if err := s.Write(t.Context(), insert(token(strconv.Itoa(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	waitUntilWaiting(s.writes, callers)
	s.writes.mu.Lock()
	next := queue{waiting: slices.Clone(s.writes.waiting)}
	s.writes.mu.Unlock()
	close(release)
	wg.Wait()
	if group := len(next.take()); group != callers {
		t.Errorf("the next group has %d calls, want %d", group, callers)
	}
	if counted, stored := total(t, s); counted != callers || stored != callers {
		t.Errorf("counted %d and stored %d tokens, want %d", counted, stored, callers)
	}
}

// waitUntilWaiting returns when so many calls wait.
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
				got = append(got, len(q.take()))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("sizes of groups (-want +got):\n%s", diff)
			}
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
		var group []*call
		for _, c := range test.group {
			group = append(group, &call{change: c, rows: rowsOf(c)})
		}
		s.writes.writer.run(group)
		for _, c := range group {
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

// What was deleted must not be in the files after a sweep.
func TestSweepLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	const secret = "CANARY-of-a-deleted-body"
	victim := token("victim")
	victim.Body = []byte(secret)
	write(t, s, insert(victim))
	if n := filesWith(t, path, secret); n == 0 {
		t.Fatal("the body is in no file before it is deleted: the test looks at the wrong files")
	}
	write(t, s, &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{
		{Ord: victim.Ord, Set: victim.Set, Type: victim.Type},
	}})
	if _, err := s.Sweep(t.Context(), someTime, 10); err != nil {
		t.Fatal(err)
	}
	if n := filesWith(t, path, secret); n != 0 {
		t.Errorf("%d files still have the deleted body", n)
	}
}

// filesWith counts the files of a database that contain a text.
func filesWith(t *testing.T, path, text string) int {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if contains(content, text) {
			n++
		}
	}
	return n
}

// A panic is the error of a group. Those who come later can still write, and
// what the group had begun is gone.
func TestAPanicEndsItsGroupAlone(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	half := func(w *writer) error {
		if err := w.applyChange(insert(token("half"))); err != nil {
			return err
		}
		panic("broken")
	}
	if err := s.writes.do(t.Context(), call{inside: half, rows: 1}); err == nil || strings.Contains(err.Error(), "broken") {
		t.Errorf("the caller gets %v", err)
	}
	write(t, s, insert(token("next")))
	if _, stored := total(t, s); stored != 1 {
		t.Errorf("%d tokens are stored, want the one after the panic", stored)
	}
}

// A log that cannot be emptied leaves the writer as patient as it was.
func TestBusyTimeoutIsRestored(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	inTransaction := func(w *writer) error {
		if err := w.truncate(); err == nil {
			return errors.New("a log is emptied inside a transaction")
		}
		return nil
	}
	if err := s.writes.do(t.Context(), call{inside: inTransaction, rows: 1}); err != nil {
		t.Fatal(err)
	}
	if got := pragma(t, s.writes.writer.conn, "busy_timeout"); got != "10000" {
		t.Errorf("busy_timeout = %s", got)
	}
}
