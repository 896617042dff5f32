package postgres

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// heldQueue is a queue whose statements end when they are told to.
type heldQueue struct {
	queue
	begun chan int      // the changes of a statement that has begun
	end   chan struct{} // lets one statement end
	calls sync.WaitGroup
}

func newHeldQueue(t *testing.T, slots int, forLogs bool) *heldQueue {
	t.Helper()
	q := &heldQueue{begun: make(chan int), end: make(chan struct{})}
	for range slots {
		q.free = append(q.free, &slot{})
	}
	if forLogs {
		q.forLogs = &slot{}
	}
	q.flush = func(_ *slot, batch []*pending) {
		q.begun <- len(batch)
		<-q.end
	}
	want := slots
	if forLogs {
		want++
	}
	t.Cleanup(func() {
		q.calls.Wait()
		if got := len(q.close()); got != want {
			t.Errorf("%d slots when all is done, want %d", got, want)
		}
	})
	return q
}

// write lets changes of a class wait or begin, one after the other.
func (q *heldQueue) write(t *testing.T, c class, changes int) {
	t.Helper()
	for range changes {
		before := q.arrived()
		q.calls.Go(func() {
			if err := q.queue.write(context.Background(), &pending{change: &storage.Change{}, class: c}); err != nil {
				t.Error(err)
			}
		})
		for q.arrived() == before {
			select {
			case <-q.begun: // for whoever expects it
				t.Fatal("a statement began that should not have")
			default:
			}
		}
	}
}

// arrived is how many changes wait.
func (q *heldQueue) arrived() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// begins starts a change that is expected to begin a statement at once.
func (q *heldQueue) begins(t *testing.T, c class, changes int) {
	t.Helper()
	q.calls.Go(func() {
		if err := q.queue.write(context.Background(), &pending{change: &storage.Change{}, class: c}); err != nil {
			t.Error(err)
		}
	})
	q.expect(t, changes)
}

func (q *heldQueue) expect(t *testing.T, changes int) {
	t.Helper()
	if got := <-q.begun; got != changes {
		t.Errorf("a statement of %d changes began, want %d", got, changes)
	}
}

// TestCrowd follows how many creates are enough for a statement, from a lone
// caller to a crowd and back.
func TestCrowd(t *testing.T) {
	t.Parallel()
	var c crowd
	// turn lets all of a number of callers create a token once.
	turn := func(callers int) {
		for range callers {
			c.come()
		}
		c.begin(callers)
		c.end(callers)
	}
	for _, step := range []struct{ callers, enough int }{{1, 1}, {2, 1}, {3, 2}, {8, 4}, {32, 16}, {500, maxEnough}} {
		turn(step.callers)
		if got := c.enough(); got != step.enough {
			t.Errorf("%d callers: %d are enough, want %d", step.callers, got, step.enough)
		}
	}
	for _, step := range []struct{ callers, enough int }{{4, 2}, {2, 1}} {
		for range 100 * crowdDecay {
			turn(step.callers)
		}
		if got := c.enough(); got != step.enough {
			t.Errorf("%d callers after a crowd: %d are enough, want %d", step.callers, got, step.enough)
		}
	}
	c.come()
	c.come()
	c.begin(1)
	c.leave()
	if c.waiting() != 0 || c.here != 1 {
		t.Errorf("one left, one is written: %d wait, %d are here", c.waiting(), c.here)
	}
}

// TestCrowdCountsEveryWayOut leaves the queue with an error, by a panic, and
// because the caller no longer waits.
func TestCrowdCountsEveryWayOut(t *testing.T) {
	t.Parallel()
	q := newHeldQueue(t, 1, false)
	q.begins(t, creates, 1)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- q.queue.write(ctx, &pending{change: &storage.Change{}, class: creates}) }()
	for q.arrived() == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	q.end <- struct{}{}
	q.calls.Wait()
	q.flush = func(*slot, []*pending) { panic("now") }
	if err := q.queue.write(t.Context(), &pending{change: &storage.Change{}, class: creates}); err == nil {
		t.Error("a panic is no error")
	}
	if q.crowd.here != 0 || q.crowd.writing != 0 {
		t.Errorf("all are gone: %d are here, %d are written", q.crowd.here, q.crowd.writing)
	}
}

func TestCreatesWaitForCompany(t *testing.T) {
	t.Parallel()
	q := newHeldQueue(t, 1, false)
	q.begins(t, creates, 1) // a lone caller does not wait
	q.write(t, creates, 5)
	q.end <- struct{}{}
	q.expect(t, 5)
	q.end <- struct{}{}
}

func TestEnoughCreatesTakeAnotherConnection(t *testing.T) {
	t.Parallel()
	q := newHeldQueue(t, 2, false)
	q.crowd.usual = 10 * crowdScale
	q.watched = &pending{} // nobody loses patience
	q.begins(t, creates, 1)
	q.write(t, creates, 4)
	q.begins(t, creates, 5)
	q.end <- struct{}{}
	q.end <- struct{}{}
}

// TestCreatesLosePatience lets a statement hang: what waits for it gets a
// connection that is free.
func TestCreatesLosePatience(t *testing.T) {
	t.Parallel()
	q := newHeldQueue(t, 3, false)
	q.crowd.usual = 10 * crowdScale
	q.begins(t, creates, 1)
	for range 2 {
		q.begins(t, creates, 1)
	}
	for range 3 {
		q.end <- struct{}{}
	}
}

// TestOthersDoNotWait shows who takes a free connection while tokens are being
// created.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	for name, forLogs := range map[string]bool{"own connection for logs": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newHeldQueue(t, 4, forLogs)
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

// TestWaitingCreatesAreWatched lets a create begin to wait while no connection
// is free: when one becomes free, it does not wait for the other create.
func TestWaitingCreatesAreWatched(t *testing.T) {
	t.Parallel()
	q := newHeldQueue(t, 2, false)
	q.crowd.usual = 10 * crowdScale
	stuck, other := make(chan struct{}), make(chan struct{})
	q.flush = func(_ *slot, batch []*pending) {
		q.begun <- len(batch)
		if batch[0].class == alone {
			<-other
		} else {
			<-stuck
		}
	}
	q.begins(t, creates, 1)
	q.begins(t, alone, 1)
	q.write(t, creates, 1)
	close(other)
	q.expect(t, 1)
	close(stuck)
}

// TestAPanicIsAnErrorOfItsBatch wakes everybody whose change was in a batch
// that panicked, and the next one is written.
func TestAPanicIsAnErrorOfItsBatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]class{"creates": creates, "reads": reads, "alone": alone} {
		q := &queue{free: []*slot{{}}}
		q.flush = func(*slot, []*pending) { panic(name) }
		write := func() error {
			return q.write(t.Context(), &pending{change: &storage.Change{}, class: c})
		}
		if err := write(); err == nil || strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		q.flush = func(*slot, []*pending) {}
		if err := write(); err != nil {
			t.Errorf("%s, the next: %v", name, err)
		}
		if len(q.close()) != 1 || q.creating != 0 || q.reading {
			t.Errorf("%s: the slot is lost", name)
		}
	}
}
