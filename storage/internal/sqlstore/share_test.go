package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// queueing is a Store with one connection, which the test has, so that reads of
// single rows wait.
type queueing struct {
	*Store
	lane *lane

	running sync.WaitGroup
	outcome []error // by the order of waitFor
}

func newQueueing(t *testing.T) *queueing {
	t.Helper()
	s := newStore(t, func(d *Dialect) { d.SharePoints = true })
	l, err := s.points.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &queueing{Store: s, lane: l}
}

// waitFor starts a read that is then in the line. A panic is its outcome.
func (q *queueing) waitFor(ctx context.Context, read func(*lane) error) {
	i, length := len(q.outcome), q.length()+1
	q.outcome = append(q.outcome, nil)
	q.running.Go(func() {
		err := errors.New("panic")
		defer func() {
			_ = recover()
			q.outcome[i] = err
		}()
		err = q.share(ctx, read)
	})
	q.until(length)
}

// until waits for the line to have a length.
func (q *queueing) until(length int) {
	for q.length() != length {
		runtime.Gosched()
	}
}

func (q *queueing) length() int {
	q.line.mu.Lock()
	defer q.line.mu.Unlock()
	return len(q.line.waiting)
}

// outcomes lets those who wait read, and returns what became of them.
func (q *queueing) outcomes() []error {
	q.points.give(q.lane, true)
	q.running.Wait()
	return q.outcome
}

// begins reports whether a transaction can begin on a lane, which it cannot
// within one.
func begins(l *lane) bool {
	if l.run(pointBegin) != nil {
		return false
	}
	return l.run(pointCommit) == nil
}

func nothing(*lane) error { return nil }

func TestReadsThatComeTogetherShareATransaction(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 2, 5} {
		q := newQueueing(t)
		shared := make([]bool, readers)
		for i := range readers {
			q.waitFor(t.Context(), func(l *lane) error {
				shared[i] = l == q.lane && !begins(l)
				return nil
			})
		}
		errs := q.outcomes()
		for i := range readers {
			if shared[i] != (readers > 1) || errs[i] != nil {
				t.Errorf("read %d of %d: in a transaction with others: %v; %v", i+1, readers, shared[i], errs[i])
			}
		}
		if len(q.points.idle) != 1 || !begins(q.lane) {
			t.Errorf("%d reads leave a transaction open, or %d lanes", readers, len(q.points.idle))
		}
	}
}

func TestTooManyReadsShareSeveralTransactions(t *testing.T) {
	t.Parallel()
	q := newQueueing(t)
	var order []int
	for i := range 2*maxShared + 1 {
		q.waitFor(t.Context(), func(*lane) error {
			order = append(order, i)
			return nil
		})
	}
	for i, err := range q.outcomes() {
		if err != nil || order[i] != i {
			t.Errorf("read %d came as number %d: %v", order[i], i, err)
		}
	}
}

// What becomes of reads that share a transaction when one of them has trouble.
func TestTroubleInASharedTransaction(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	fail := func(*lane) error { return broken }
	explode := func(*lane) error { panic(broken) }
	for name, test := range map[string]struct {
		reads [3]func(*lane) error
		want  []string
	}{
		"none":               {[3]func(*lane) error{nothing, nothing, nothing}, []string{"", "", ""}},
		"the first fails":    {[3]func(*lane) error{fail, nothing, nothing}, []string{"broken", "", ""}},
		"another fails":      {[3]func(*lane) error{nothing, fail, nothing}, []string{"", "broken", ""}},
		"the first panics":   {[3]func(*lane) error{explode, nothing, nothing}, []string{"panic", errShared.Error(), errShared.Error()}},
		"another one panics": {[3]func(*lane) error{nothing, explode, nothing}, []string{"panic", errShared.Error(), errShared.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t)
			for _, read := range test.reads {
				q.waitFor(t.Context(), read)
			}
			got := make([]string, 3)
			for i, err := range q.outcomes() {
				if err != nil {
					got[i] = err.Error()
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if _, err := q.Claim(t.Context(), someTenant, storage.Key{1}); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("the next read: %v", err)
			}
			if n := q.line.inside.Load(); n != 0 || len(q.points.turns) != 0 {
				t.Errorf("%d are still inside, %d turns are taken", n, len(q.points.turns))
			}
		})
	}
}

// A transaction that failed ends with its connection, also when whoever led it
// has left meanwhile: the next reads see what was written since.
func TestNoTransactionOutlivesItsReads(t *testing.T) {
	t.Parallel()
	q := newQueueing(t)
	leaving, leave := context.WithCancel(t.Context())
	q.waitFor(leaving, func(*lane) error {
		leave()
		return nil
	})
	q.waitFor(t.Context(), func(*lane) error { return errors.New("broken") })
	if errs := q.outcomes(); errs[0] != nil || errs[1] == nil {
		t.Errorf("the outcomes are %v", errs)
	}
	if len(q.points.idle) != 0 || q.open() != 0 {
		t.Errorf("%d lanes are kept, %d connections are open", len(q.points.idle), q.open())
	}
}

// A panic in the reading of a row is its reader's error, and leaves the
// connection, which others may share, as it was.
func TestAPanicInARowIsAnError(t *testing.T) {
	t.Parallel()
	s := newStore(t, func(d *Dialect) { d.SharePoints = true })
	key := storage.Key{1}
	if _, err := s.db.Exec(`INSERT INTO claims (tenant_id, key, key_version) VALUES (?, ?, 7)`, someTenant[:], key[:]); err != nil {
		t.Fatal(err)
	}
	lane := s.points.idle[0]
	_, err := s.one(t.Context(), pointClaim, func(direct.Row) error { panic("a value") }, someTenant[:], key[:])
	if err == nil || err.Error() != "storage: panic in the reading of a row (string)" {
		t.Errorf("the error is %v", err)
	}
	if c, err := s.Claim(t.Context(), someTenant, key); c.KeyVersion != 7 || err != nil {
		t.Errorf("the next read: %v, %v", c, err)
	}
	if len(s.points.idle) != 1 || s.points.idle[0] != lane || !begins(lane) {
		t.Error("the connection was given up, or has a transaction open")
	}
}

// Whoever leaves the line does so at once, and the others are served.
func TestWhoeverWaitsMayLeave(t *testing.T) {
	t.Parallel()
	for leaver := range 3 {
		t.Run(fmt.Sprint("number ", leaver), func(t *testing.T) {
			t.Parallel()
			q := newQueueing(t)
			leaving, leave := context.WithCancel(t.Context())
			want := make([]error, 3)
			for i := range want {
				ctx := t.Context()
				if i == leaver {
					ctx, want[i] = leaving, context.Canceled
				}
				q.waitFor(ctx, nothing)
			}
			leave()
			q.until(2)
			if diff := cmp.Diff(want, q.outcomes(), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloseWhileReadsWait(t *testing.T) {
	t.Parallel()
	q := newQueueing(t)
	for range 3 {
		q.waitFor(t.Context(), nothing)
	}
	q.Close()
	closed := storage.ErrClosed
	if diff := cmp.Diff([]error{closed, closed, closed}, q.outcomes(), cmpopts.EquateErrors()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
