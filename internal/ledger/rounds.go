package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/pace"
)

// rounds share notes among callers. A caller joins the next round, which starts
// at least pace after the last note. A round signs at most one note.
type rounds struct {
	pace time.Duration

	turn   pace.Lock // held by the round that runs
	mu     sync.Mutex
	next   *round    // waits to start; nil if no round waits
	signed time.Time // when the last note was signed
	good   time.Time // when the last round of the background work succeeded
	closed bool
	done   sync.WaitGroup

	alive, open context.Context //nolint:containedctx // end when rounds must end, and when no round may wait
	kill, stop  context.CancelFunc
}

func (s *rounds) begin() {
	s.pace, s.turn = time.Second, pace.NewLock()
	s.alive, s.kill = context.WithCancel(context.Background()) //nolint:gosec // close calls it
	s.open, s.stop = context.WithCancel(s.alive)
}

// round is a note that several callers wait for.
type round struct {
	tenants []uuid.UUID
	callers int
	done    chan struct{}
	note    []byte
	failed  tenantsError // tenants that could not be sequenced
	err     error
}

// roundTime bounds a round, which no caller can cancel.
const roundTime = time.Minute

var errClosed = errors.New("evidence: the ledger is closed")

// Checkpoint sequences the tenants that this node has written to and the given
// tenants. It records their tree heads and returns the newest note. It does not
// wait for anchors. A tenant with a manipulated tree does not block the others, nor does
// one whose tree cannot be written: only callers who need its entries get the error.
// Callers share notes, and may wait for the next one for up to a second.
func (l *Ledger) Checkpoint(ctx context.Context, tenants ...uuid.UUID) ([]byte, error) {
	r := l.join(tenants)
	if r == nil {
		return nil, errClosed
	}
	select {
	case <-r.done:
		return r.note, cmp.Or(r.err, r.failed.of(tenants))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the next round.
func (l *Ledger) join(tenants []uuid.UUID) *round {
	s := &l.rounds
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.next == nil {
		r := &round{done: make(chan struct{})}
		s.next = r
		s.done.Go(func() { l.runRound(r) })
	}
	s.next.callers++
	s.next.tenants = append(s.next.tenants, tenants...)
	return s.next
}

// runRound waits for its turn, and signs. If nothing is new, it does not wait for
// the pace.
func (l *Ledger) runRound(r *round) {
	defer close(r.done)
	s := &l.rounds
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx, cancel := context.WithTimeout(s.alive, roundTime)
	defer cancel()
	wait, callers, tenants := s.wait(r)
	if wait > 0 {
		heads, failed, err := l.heads(ctx, tenants)
		if err == nil && l.covered(heads) && s.start(r, callers) {
			r.failed = failed
			r.note, r.err = l.sign(ctx, heads)
			return
		}
		if r.err = s.sleep(wait); r.err != nil {
			return
		}
	}
	s.start(r, 0)
	heads, failed, err := l.heads(ctx, r.tenants)
	if err != nil {
		r.err = err
		return
	}
	r.failed = failed
	r.note, r.err = l.sign(ctx, heads)
}

// heads sequences tenants, and returns the trees that may need a new head, and the
// tenants that could not be sequenced.
func (l *Ledger) heads(ctx context.Context, tenants []uuid.UUID) ([]grown, tenantsError, error) {
	for _, tenant := range tenants {
		l.pending.MarkDirty(tenant)
	}
	err := l.SequenceDirty(ctx)
	if err != nil && !isOfSome(err) {
		return nil, nil, err
	}
	failed, _ := errors.AsType[tenantsError](err)
	all, err := l.changed(ctx, tenants)
	return all, failed, err
}

// covered reports whether the newest note covers trees and the vault's tree.
func (l *Ledger) covered(heads []grown) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.fresh(heads)) == 0 && l.vault.note != nil && l.vault.signed.Size == l.vault.tree.Size
}

// wait returns how long a round has to wait, and who waits for it so far.
func (s *rounds) wait(r *round) (time.Duration, int, []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.signed.Add(s.pace)), r.callers, slices.Clone(r.tenants)
}

// start closes a round to further callers. It reports false if there are more
// callers than expected; 0 expects any number.
func (s *rounds) start(r *round, callers int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if callers > 0 && r.callers > callers {
		return false
	}
	s.next = nil
	return true
}

// sleep waits, and returns an error if the ledger is closed by then.
func (s *rounds) sleep(d time.Duration) error {
	if pace.Sleep(s.open, d) != nil {
		return errClosed
	}
	return nil
}

// SetPace changes the least time between two notes from one second. Tests that do
// not check the pace shorten it; nothing else may change it.
func (l *Ledger) SetPace(d time.Duration) {
	l.rounds.mu.Lock()
	defer l.rounds.mu.Unlock()
	l.rounds.pace = d
}

// hasSigned starts the time until the next note may be signed.
func (s *rounds) hasSigned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed = time.Now()
}

// succeeded stores when a round has succeeded, unless the time is zero. It returns
// the last time.
func (s *rounds) succeeded(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !at.IsZero() {
		s.good = at
	}
	return s.good
}

// close ends the waiting rounds, and waits for the running round until ctx ends.
func (s *rounds) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	defer context.AfterFunc(ctx, s.kill)()
	s.done.Wait()
}
