package postgres

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/citus"
)

// manualQueue is a queue whose statements end when the test says so.
type manualQueue struct {
	queue
	begun chan int      // number of changes in a statement that has begun
	end   chan struct{} // lets one statement end
	calls sync.WaitGroup
}

// shared returns the lane of changes that belong to no tenant.
func (q *queue) shared() *lane { return q.laneOf(&pending{}) }

func newManualQueue(t *testing.T, writers int, forLogs bool) *manualQueue {
	t.Helper()
	q := &manualQueue{queue: queue{pace: citus.OneServer{}.Traits().Pace}, begun: make(chan int), end: make(chan struct{})}
	for range writers {
		q.free = append(q.free, &writer{})
	}
	if forLogs {
		q.forLogs = &writer{}
	}
	q.flush = func(_ *writer, batch []*pending) {
		q.begun <- len(batch)
		<-q.end
	}
	want := writers
	if forLogs {
		want++
	}
	t.Cleanup(func() {
		q.calls.Wait()
		must.Same(t, "writers when all is done", want, len(q.close()))
	})
	return q
}

// write makes changes of a class wait or begin, one after the other.
func (q *manualQueue) write(t *testing.T, c class, changes int) {
	t.Helper()
	for range changes {
		before := q.arrived()
		q.calls.Go(func() {
			must.Match(t, "a change", q.do(context.Background(), &pending{change: &storage.Change{}, class: c}), nil)
		})
		for q.arrived() == before {
			select {
			case <-q.begun: // so that the test sees it
				t.Fatal("a statement began that should not have")
			default:
			}
		}
	}
}

// arrived returns how many changes wait.
func (q *manualQueue) arrived() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// await returns when this many changes wait.
func (q *manualQueue) await(changes int) {
	for q.arrived() != changes {
		runtime.Gosched()
	}
}

// begins starts a change that must begin a statement at once.
func (q *manualQueue) begins(t *testing.T, c class, changes int) {
	t.Helper()
	q.calls.Go(func() {
		must.Match(t, "a change", q.do(context.Background(), &pending{change: &storage.Change{}, class: c}), nil)
	})
	q.expect(t, changes)
}

func (q *manualQueue) expect(t *testing.T, changes int) {
	t.Helper()
	must.Same(t, "a statement", changes, <-q.begun)
}

// TestCanceledWriteLeavesTheQueue leaves the queue by a canceled context, and nothing
// in it.
func TestCanceledWriteLeavesTheQueue(t *testing.T) {
	t.Parallel()
	q := newManualQueue(t, 1, false)
	q.begins(t, creates, 1)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- q.do(ctx, &pending{change: &storage.Change{}, class: creates}) }()
	q.await(1)
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	q.end <- struct{}{}
	q.calls.Wait()
	if q.shared().writing != 0 || q.shared().running != [classes]int{} || q.arrived() != 0 {
		t.Errorf("%d creates are written in %v statements, %d wait", q.shared().writing, q.shared().running, q.arrived())
	}
}

// TestHalfOfTheCreatesStartASecondStatement starts a second statement when half
// of the callers at the end of the last one are waiting.
func TestHalfOfTheCreatesStartASecondStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // so that none of them waits long
		q := newManualQueue(t, 2, false)
		q.begins(t, creates, 1)
		q.shared().enough = 5
		q.write(t, creates, 4)
		q.begins(t, creates, 5)
		q.write(t, creates, 1)
		q.end <- struct{}{}
		q.end <- struct{}{}
		q.expect(t, 1)
		q.end <- struct{}{}
		q.calls.Wait()
		must.Same(t, "enough", 1, q.shared().enough)
	})
}

// TestCreatesDoNotWaitForHangingStatement lets a statement hang. Creates that wait for it get
// a free connection.
func TestCreatesDoNotWaitForHangingStatement(t *testing.T) {
	t.Parallel()
	q := newManualQueue(t, 3, false)
	q.begins(t, creates, 1)
	q.shared().enough = 5
	for range 2 {
		q.begins(t, creates, 1)
	}
	for range 3 {
		q.end <- struct{}{}
	}
}

// TestOtherChangesDoNotWaitForCreates checks which changes take a free connection while tokens
// are being created.
func TestOtherChangesDoNotWaitForCreates(t *testing.T) {
	t.Parallel()
	for name, forLogs := range map[string]bool{"own connection for logs": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newManualQueue(t, 4, forLogs)
			q.begins(t, creates, 1)
			q.begins(t, alone, 1)
			q.begins(t, alone, 1)
			q.begins(t, reads, 1)
			q.write(t, reads, 3)
			q.mu.Lock()
			if free, want := len(q.free), map[bool]int{true: 1, false: 0}[forLogs]; free != want {
				t.Errorf("%d connections are free, want %d", free, want)
			}
			q.mu.Unlock()
			for range 4 {
				q.end <- struct{}{}
			}
			q.expect(t, 3)
			q.end <- struct{}{}
		})
	}
}

// TestOverdueCreateTakesTheNextConnection makes a create wait long while no
// connection is free. When one becomes free, the create does not wait for the
// other create.
func TestOverdueCreateTakesTheNextConnection(t *testing.T) {
	t.Parallel()
	q := newManualQueue(t, 2, false)
	stuck, other := make(chan struct{}), make(chan struct{})
	q.flush = func(_ *writer, batch []*pending) {
		q.begun <- len(batch)
		if batch[0].class == alone {
			<-other
		} else {
			<-stuck
		}
	}
	q.begins(t, creates, 1)
	q.begins(t, alone, 1)
	q.shared().enough = 5
	q.write(t, creates, 1)
	close(other)
	q.expect(t, 1)
	close(stuck)
}

// TestPanicFailsItsBatch checks that a panic wakes all callers of the
// batch, and that the next change is written.
func TestPanicFailsItsBatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]class{"creates": creates, "reads": reads, "alone": alone} {
		q := &queue{free: []*writer{{}}}
		q.flush = func(*writer, []*pending) { panic(name) }
		write := func() error {
			return q.do(t.Context(), &pending{change: &storage.Change{}, class: c})
		}
		if err := write(); err == nil || strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		q.flush = func(*writer, []*pending) {}
		must.Match(t, name+", the next", write(), nil)
		if len(q.close()) != 1 || q.shared().running != [classes]int{} {
			t.Errorf("%s: the writer is lost", name)
		}
	}
}

// TestOnlyChangesOfOneTenantShareAStatement makes changes of two tenants wait in a queue where only changes of
// one tenant may share a statement.
func TestOnlyChangesOfOneTenantShareAStatement(t *testing.T) {
	t.Parallel()
	create := func(lane storage.ID) *pending {
		return &pending{class: creates, Turn: citus.Turn{Lane: lane}, change: &storage.Change{}}
	}
	own, other := storage.ID{1}, storage.ID{2}
	q := &queue{free: []*writer{{}, {}, {}}}
	first := create(own)
	if q.start(first) == nil {
		t.Fatal("the first create waits, although nothing runs")
	}
	for _, lane := range []storage.ID{own, other, own} {
		q.add(create(lane))
	}
	if q.start(q.waiting[0]) != nil {
		t.Error("a tenant has two running statements")
	}
	if batch := q.batchOf(first); len(batch) != 3 || slices.ContainsFunc(batch, func(p *pending) bool { return p.Lane != own }) {
		t.Errorf("%d changes share a statement, want the 3 of one tenant", len(batch))
	}
	if q.start(q.waiting[0]) == nil {
		t.Error("a tenant waits for another")
	}
}

// TestChangesStopWaitingWhenTheirTimeIsOver lets a statement hang on the only
// connection. Each other change fails when the time of its caller is over.
func TestChangesStopWaitingWhenTheirTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newManualQueue(t, 1, false)
		q.begins(t, creates, 1)
		var calls sync.WaitGroup
		for c := range classes - 1 { // readings stop earlier
			for i := range 3 {
				calls.Go(func() {
					began, limit := time.Now(), time.Duration(i+1)*time.Second+time.Duration(c)*100*time.Millisecond
					err := q.do(t.Context(), &pending{change: &storage.Change{}, class: c, until: began.Add(limit)})
					if took := time.Since(began); !errors.Is(err, sqlstore.ErrNoTurn) || took < limit || took > limit+createWait {
						t.Errorf("class %d: %v after %v, want sqlstore.ErrNoTurn after %v", c, err, took, limit)
					}
				})
			}
		}
		calls.Wait()
		if q.arrived() != 0 || q.shared().waiting != [classes]int{} {
			t.Errorf("%d changes still wait, %v by class", q.arrived(), q.shared().waiting)
		}
		q.end <- struct{}{}
	})
}

// TestCreateLeftOutOfABatchStarts lets an overdue create start while another one is
// about to take what waits. The batch has no place for a third, which gets the free
// connection soon.
func TestCreateLeftOutOfABatchStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		create := func() *pending {
			claim := &storage.ClaimChange{} // the same for all, so they cannot share a statement
			return &pending{class: creates, overdue: true, change: &storage.Change{Claim: claim}, turn: make(chan *writer, 1)}
		}
		q := &queue{free: []*writer{{}, {}, {}}}
		hangs, leader, left := create(), create(), create()
		for _, p := range []*pending{hangs, leader, left} {
			q.add(p)
		}
		if q.start(hangs) == nil {
			t.Fatal("the first create does not start")
		}
		q.shared().leading = false // it has gathered
		if q.start(leader) == nil || q.start(left) != nil {
			t.Fatal("not one of two overdue creates starts")
		}
		if batch := q.batchOf(leader); len(batch) != 1 {
			t.Fatalf("%d creates share a statement, want 1", len(batch))
		}
		if s := <-left.turn; s == nil {
			t.Error("the create has no connection")
		}
	})
}
