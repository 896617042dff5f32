package postgres

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// ask starts a reading, which may begin a statement.
func (q *manualQueue) ask(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	q.calls.Go(func() { done <- q.do(ctx, &pending{reading: &reading{ctx: ctx}, class: readings}) })
	return done
}

// TestReadingsShareAStatement lets readings wait for a running statement. Log
// entries of reads use the same connection, in a separate statement.
func TestReadingsShareAStatement(t *testing.T) {
	t.Parallel()
	for name, forLogs := range map[string]bool{"own connection for logs": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newManualQueue(t, 2, forLogs)
				q.ask(t.Context())
				q.expect(t, 1)
				for i := range 3 {
					q.ask(t.Context())
					q.await(i + 1)
				}
				q.write(t, reads, 2)
				q.end <- struct{}{}
				q.expect(t, 3)
				q.end <- struct{}{}
				q.expect(t, 2)
				q.end <- struct{}{}
			})
		})
	}
}

// TestCanceledReadingsDoNotWait ends the contexts of readings in every state
// except leading a statement.
func TestCanceledReadingsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newManualQueue(t, 1, true)
		q.ask(t.Context())
		q.expect(t, 1)

		leaving, leave := context.WithCancel(t.Context())
		left := q.ask(leaving)
		q.await(1)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a reading that waits: %v", err)
		}
		q.await(0)

		staying := q.ask(t.Context())
		q.await(1)
		following, leave := context.WithCancel(t.Context())
		left = q.ask(following)
		q.await(2)
		q.end <- struct{}{}
		q.expect(t, 2)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a reading whose statement runs: %v", err)
		}
		q.end <- struct{}{}
		must.Match(t, "the other reading of the statement", <-staying, nil)
	})
}

// TestReadingsDoNotWaitForHangingStatement lets a statement hang. Readings that wait for it
// fail with errBusy; other changes keep waiting.
func TestReadingsDoNotWaitForHangingStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newManualQueue(t, 1, true)
		for range 2 {
			hangs := q.ask(t.Context())
			q.expect(t, 1)
			q.write(t, reads, 1)
			for range 3 {
				if err := <-q.ask(t.Context()); !errors.Is(err, errBusy) {
					t.Errorf("a reading that waits: %v", err)
				}
			}
			q.end <- struct{}{}
			must.Match(t, "the statement that hung", <-hangs, nil)
			q.expect(t, 1) // the log entry, which has waited
			q.end <- struct{}{}
		}
	})
}

// TestAbandonedReadingServesItsBatch gives a reading its turn after its caller has
// gone. The readings after it are still served.
func TestAbandonedReadingServesItsBatch(t *testing.T) {
	t.Parallel()
	q := &queue{free: []*writer{{}}}
	served := 0
	q.flush = func(_ *writer, batch []*pending) { served += len(batch) }
	first, second := &pending{class: readings, turn: make(chan *writer, 1)}, &pending{class: readings, turn: make(chan *writer, 1)}
	q.busy.Add(1)
	q.add(first)
	q.add(second)
	first.turn <- q.start(first)
	q.abandon(first)
	<-second.turn
	if served != 2 || q.shared().running != [classes]int{} || len(q.close()) != 1 {
		t.Errorf("%d readings are served, %v statements run", served, q.shared().running)
	}
}
