package postgres

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
)

// Write implements [storage.Writer].
func (s *Store) Write(ctx context.Context, c *storage.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(ctx, &pending{change: c, class: classOf(c)})
}

// write writes a change. One that meets a lock of somebody else is taken out of
// its batch, and tried again by itself, without a connection in between.
func (s *Store) write(ctx context.Context, p *pending) error {
	p.deadline = time.Now().Add(s.retryFor)
	if s.routed {
		p.lane = p.change.Tenant
	}
	err := s.queue.write(ctx, p)
	for p.locked {
		if ctx.Err() != nil && !p.ambiguous {
			return ctx.Err()
		}
		if time.Now().After(p.deadline) {
			return unknownIf(p.ambiguous, fmt.Errorf("%w: another transaction holds what the change needs", storage.ErrUnavailable))
		}
		p.class, p.turn, p.locked = alone, nil, false
		err = s.waiters.try(func() error { return s.queue.write(ctx, p) })
	}
	return err
}

// waiters bounds how many connections are tried at once by changes that wait
// for a lock, so that the others are there for everybody else.
type waiters chan struct{}

const maxWaiters = 2

func (w waiters) try(do func() error) error {
	w <- struct{}{}
	defer func() { <-w }()
	pause(lockPause)
	return do()
}

const (
	// lockTimeout is for how long a statement waits for a lock, and shareTimeout
	// for how long one waits that was part of a batch which has waited already.
	lockTimeout  = 100 * time.Millisecond
	shareTimeout = 5 * time.Millisecond
	// lockPause is between one try and the next.
	lockPause = 10 * time.Millisecond
)

// flush does what a batch asks for, in one statement if it can, and sets the
// error of each of its changes or readings.
func (s *Store) flush(slot *slot, batch []*pending) {
	if batch[0].class == readings {
		s.readBatch(slot, batch)
		return
	}
	deadline := time.Now().Add(s.retryFor)
	left, locked := batch, false
	if len(batch) > 1 && !slices.ContainsFunc(batch, late) {
		left, locked = s.together(slot, batch, deadline)
	}
	if locked {
		slot.setLockTimeout(shareTimeout)
		defer slot.setLockTimeout(lockTimeout)
	}
	for _, p := range left {
		p.err = s.single(slot, p, deadline)
	}
	s.account(batch)
}

func late(p *pending) bool { return p.change.Late(time.Now()) }

// together tries a batch as one statement, and returns the changes that are
// left to be written one by one: all of them, when the statement failed, or met
// a lock.
func (s *Store) together(slot *slot, batch []*pending, deadline time.Time) (left []*pending, locked bool) {
	if err := s.connect(slot, deadline); err != nil {
		return batch, false // each of them reports it
	}
	var passed []*pending
	var err error
	if batch[0].class == reads {
		err = slot.logReads(batch)
	} else {
		passed, err = s.createTogether(slot, batch)
	}
	if err != nil {
		slot.forget(err)
		for _, p := range batch {
			p.ambiguous = p.ambiguous || lost(err)
		}
		return batch, code(err) == pqerror.LockNotAvailable
	}
	for _, p := range passed {
		p.refused = true
	}
	return passed, false
}

// maxAttempts bounds how often a change is tried that the server refuses
// without a reason that can be found afterwards.
const maxAttempts = 20

// single writes one change and tries again for as long as that makes sense.
func (s *Store) single(slot *slot, p *pending, deadline time.Time) error {
	wait := retryAtFirst
	for attempt := 1; ; attempt++ {
		if err := s.connect(slot, deadline); err != nil {
			return unknownIf(p.ambiguous, err)
		}
		done, err := s.attempt(slot, p)
		if done {
			return err
		}
		if err == nil && attempt == maxAttempts {
			return errUnsettled
		}
		if code(err) == pqerror.LockNotAvailable {
			p.locked = true
			return err
		}
		if err != nil {
			slot.forget(err)
			if time.Now().After(deadline) {
				return unknownIf(p.ambiguous, clean(err))
			}
			pause(wait)
			wait = min(2*wait, retryAtMost)
		}
	}
}

// attempt writes one change once. It is done when the outcome is known;
// otherwise the change may be tried again, after the error if there is one.
func (s *Store) attempt(slot *slot, p *pending) (done bool, err error) {
	if p.ambiguous {
		if applied, err := slot.applied(p.change); applied || err != nil {
			return err == nil, err
		}
	}
	if p.change.Late(time.Now()) {
		return true, unknownIf(p.ambiguous, storage.ErrLate)
	}
	if !p.refused {
		err = slot.apply(p.change)
	}
	switch {
	case p.refused:
		p.refused = false
	case err == nil:
		return true, nil
	case lost(err):
		p.ambiguous = true
		return false, err
	case transient(err):
		return false, err
	case !refused(err):
		return true, clean(err)
	}
	refusal := err
	// What stands in the way may be this change itself: sent before, and
	// committed after its connection had been given up for lost.
	if p.ambiguous {
		if applied, err := slot.applied(p.change); applied || err != nil {
			return err == nil, err
		}
	}
	conflict, err := diagnose(context.Background(), slot, p.change)
	switch {
	case err != nil && (lost(err) || transient(err)):
		return false, err
	case err != nil:
		return true, clean(err)
	case conflict != nil:
		return true, conflict
	case violates(refusal, "vault_logs_pkey"):
		return true, clean(refusal) // an id of the log that another change has
	default:
		return false, nil // it has gone meanwhile
	}
}

// apply writes one change: in one statement, or, when it is large or the tables
// are distributed, in several inside a transaction.
func (s *slot) apply(c *storage.Change) error {
	if s.routed && twice(c) != nil {
		return errGuard // no statement would see what is wrong about another
	}
	var steps []step
	for _, piece := range split(c) {
		st := s.start(c.Tenant)
		st.apply(piece, s.shard)
		if onlyReadLogs(c) && !s.unsynced && !s.routed {
			st.final = unsynced
		}
		steps = append(steps, st.all()...)
	}
	return s.inSteps(steps)
}

// maxRows bounds the tokens, and the log entries, of one statement. Beyond it
// the server would spill its intermediate rows to disk.
const maxRows = 1000

// split cuts a large change into pieces, the first of which has all the guards
// but those on the tokens that follow.
func split(c *storage.Change) []*storage.Change {
	if len(c.InsertTokens) <= maxRows && len(c.Logs) <= maxRows {
		return []*storage.Change{c}
	}
	first := *c
	first.InsertTokens = first.InsertTokens[:min(maxRows, len(c.InsertTokens))]
	first.Logs = first.Logs[:min(maxRows, len(c.Logs))]
	pieces := []*storage.Change{&first}
	tokens, logs := c.InsertTokens[len(first.InsertTokens):], c.Logs[len(first.Logs):]
	for len(tokens) > 0 || len(logs) > 0 {
		t, l := min(maxRows, len(tokens)), min(maxRows, len(logs))
		pieces = append(pieces, &storage.Change{Tenant: c.Tenant, InsertTokens: tokens[:t], Logs: logs[:l]})
		tokens, logs = tokens[t:], logs[l:]
	}
	return pieces
}

const markerQuery = "SELECT 1 FROM vault_logs WHERE tenant_id = $1 AND id = $2"

// applied reports whether a change is in the database, which its first log
// entry tells. A change without one is written again.
func (s *slot) applied(c *storage.Change) (bool, error) {
	if len(c.Logs) == 0 {
		return false, nil
	}
	found := false
	err := s.query(context.Background(), markerQuery, []any{c.Tenant[:], c.Logs[0].ID[:]}, true, func([]driver.Value) error {
		found = true
		return nil
	})
	return found, err
}

// control runs BEGIN, COMMIT or ROLLBACK.
func (s *slot) control(command string) error {
	_, err := s.conn.ExecContext(context.Background(), command)
	return err
}

const (
	retryAtFirst = 5 * time.Millisecond
	retryAtMost  = 500 * time.Millisecond
)

// connect makes sure that the slot has a connection. If need be it tries again
// and again until the deadline.
func (s *Store) connect(slot *slot, deadline time.Time) error {
	if slot.connected() {
		return nil
	}
	for wait := retryAtFirst; ; wait = min(2*wait, retryAtMost) {
		ctx, cancel := context.WithDeadline(context.Background(), deadline.Add(connectTimeout))
		err := slot.connect(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || hopeless(err) {
			return clean(err)
		}
		pause(wait)
	}
}

// hopeless reports whether a refusal to connect will still be one later.
func hopeless(err error) bool {
	c := string(code(err))
	return strings.HasPrefix(c, string(pqerror.ClassInvalidAuthorizationSpecification)) ||
		strings.HasPrefix(c, string(pqerror.ClassInvalidCatalogName))
}

func pause(d time.Duration) { <-time.After(d) }

// unknownIf adds to an error that the change may have been applied, if so.
func unknownIf(ambiguous bool, err error) error {
	if !ambiguous {
		return err
	}
	return fmt.Errorf("postgres: the connection was lost for too long; the change may or may not have been applied: %w", err)
}
