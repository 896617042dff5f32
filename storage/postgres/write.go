package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// Write implements [storage.Writer].
func (s *Store) Write(ctx context.Context, c *storage.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := &pending{change: c, class: classOf(c), ambiguous: c.Unsure}
	if p.class == creates && s.conflicts.expects(c) {
		p.class = alone
	}
	return s.write(ctx, p)
}

// write writes a change. It retries after transient errors, such as a lost
// connection, a failover or a foreign lock, for as long as its caller may wait.
// Between two attempts it holds no connection, so that others can use it.
func (s *Store) write(ctx context.Context, p *pending) error {
	p.until = storage.WaitUntil(ctx, s.retryFor)
	for n := 1; ; n++ {
		wait := sqlstore.RetryPause(n)
		if p.ambiguous {
			// The change may have been applied. Find out even if the caller has
			// gone, so that the result is never a guess.
			ctx, p.class = context.WithoutCancel(ctx), alone
		}
		err := s.tryWrite(ctx, p)
		if err != nil {
			s.room.record(err)
		}
		switch {
		case err == nil:
			return nil
		case p.again && !p.ambiguous && ctx.Err() != nil:
			return ctx.Err()
		case !p.again || !time.Now().Before(p.until):
			p.change.Unsure = p.ambiguous
			return unknownIf(p.ambiguous, link.Failed(err))
		case p.locked:
			wait = lockPause
		}
		_ = pace.Sleep(ctx, min(wait, time.Until(p.until))) // the next round sees that the context has ended
	}
}

// tryWrite writes a change once. It tries a change that has met a lock in a
// statement alone, and only a few such changes at once, so that other changes
// find free connections.
func (s *Store) tryWrite(ctx context.Context, p *pending) error {
	p.err, p.again, p.overdue, p.turn = nil, false, false, nil
	turn, ended, err := s.layout.Enter(ctx, p.change.Tenant, p.until)
	if p.Turn = turn; err != nil {
		p.again = p.ambiguous
		return err
	}
	defer ended()
	if p.locked {
		p.class = alone
		if s.waiters.Enter(ctx, p.until, 0) != nil {
			p.again = true
			return errLocked
		}
		p.locked = false
		defer func() { <-s.waiters }()
	}
	return s.queue.do(ctx, p)
}

var errLocked = fmt.Errorf("%w: another transaction holds what the change needs", storage.ErrUnavailable)

// maxWaiters is the number of connections that changes waiting for a lock may use
// at once.
const maxWaiters = 2

const (
	// lockTimeout is how long a change waits for a lock. shareTimeout is how
	// long it waits if it was part of a batch that has already waited.
	lockTimeout  = 100 * time.Millisecond
	shareTimeout = 5 * time.Millisecond
	// lockPause is the pause between two attempts.
	lockPause = 10 * time.Millisecond
)

// flush writes or reads a batch, in one statement if possible, and sets the
// error of each change or reading in it.
func (s *Store) flush(w *writer, batch []*pending) {
	if batch[0].class == readings {
		s.readBatch(w, batch)
		return
	}
	if err := w.ensure(latest(batch)); err != nil {
		putOff(batch, err)
		return
	}
	left, locked := batch, false
	if len(batch) > 1 && !slices.ContainsFunc(batch, late) {
		left, locked = s.writeGroup(w, batch)
	}
	if locked {
		w.setLockTimeout(shareTimeout)
		defer w.setLockTimeout(lockTimeout)
	}
	for i, p := range left {
		if w.conn == nil {
			putOff(left[i:], errNoConn)
			break
		}
		s.single(w, p)
	}
	s.account(batch)
}

// errNoConn is the error of changes whose connection was lost before their
// turn.
var errNoConn = link.NotConnected(errors.New("the connection was lost"))

// putOff sets the error of changes that were not sent. Their callers try again
// if the error is transient.
func putOff(batch []*pending, err error) {
	for _, p := range batch {
		p.err, p.again = err, link.Passes(err)
	}
}

// latest returns the latest time until which a caller of the batch waits.
func latest(batch []*pending) (until time.Time) {
	for _, p := range batch {
		if p.until.After(until) {
			until = p.until
		}
	}
	return until
}

func late(p *pending) bool { return p.change.Late(time.Now()) }

// writeGroup tries a batch as one statement. It returns the changes that must be
// written one by one: all of them if the statement failed or met a lock.
func (s *Store) writeGroup(w *writer, batch []*pending) (left []*pending, locked bool) {
	w.changes = w.changes[:0]
	for _, p := range batch {
		w.changes = append(w.changes, p.change)
	}
	err := w.group(batch[0].class)
	if err == nil {
		return nil, false
	}
	w.forget(err)
	for _, p := range batch {
		p.ambiguous = p.ambiguous || link.Lost(err)
	}
	return batch, link.Code(err) == pqerror.LockNotAvailable
}

// group writes changes of a class that share their statements.
func (s *writer) group(c class) error {
	defer s.Release()
	defer clear(s.changes)
	if c == reads {
		return s.inSteps(s.layout.Traits().LogReads(&s.Session, s.changes))
	}
	sortByKeys(s.changes)
	return s.inSteps(s.layout.Traits().Create(&s.Session, s.changes))
}

// maxAttempts limits the attempts for a change that the server rejects for a
// reason that cannot be found afterwards. Callers retry a hundred times after
// [storage.ErrStale], so more attempts here would multiply these.
const maxAttempts = 5

// single writes one change. It stops at a transient error, and the caller tries
// again.
func (s *Store) single(w *writer, p *pending) {
	for range maxAttempts {
		done, err := s.attempt(w, p)
		if done {
			p.err = err
			return
		}
		if err != nil {
			w.forget(err)
			p.err, p.again, p.locked = err, true, link.Code(err) == pqerror.LockNotAvailable
			return
		}
	}
	p.err = errUnsettled
}

// attempt writes one change once. It is done when the outcome is known.
// Otherwise the change may be tried again, after handling the error if there is
// one.
func (s *Store) attempt(w *writer, p *pending) (done bool, err error) {
	if p.ambiguous {
		if applied, err := w.applied(p.change); applied || err != nil {
			return err == nil, err
		}
	}
	if p.change.Late(time.Now()) {
		return true, storage.ErrLate
	}
	err = w.apply(p.change)
	switch {
	case err == nil:
		return true, nil
	case link.Lost(err):
		p.ambiguous = true
		return false, err
	case link.Transient(err) || link.Aborted(err):
		return false, err
	case !link.Refused(err):
		return true, link.Failed(err)
	}
	refusal := err
	// The conflicting row may come from this change itself, sent earlier and
	// committed after its connection was given up.
	if p.ambiguous {
		if applied, err := w.applied(p.change); applied || err != nil {
			return err == nil, err
		}
	}
	found, err := statements.Diagnose(context.Background(), w, p.change)
	switch {
	case err != nil && (link.Lost(err) || link.Transient(err) || link.Aborted(err)):
		return false, err
	case err != nil:
		return true, link.Failed(err)
	case found != nil:
		p.ambiguous = false
		if conflict, ok := errors.AsType[*storage.Conflict](found); ok && classOf(p.change) == creates {
			s.conflicts.met(p.change, conflict.Kind)
		}
		return true, found
	case link.Violates(refusal, "vault_logs_pkey"):
		return true, link.Clean(refusal) // a log id that another change already has
	default:
		return false, nil // the conflicting row has been deleted in the meantime
	}
}

// apply writes one change. It takes one statement, or several in a transaction
// if the change is large or the tables are distributed.
func (s *writer) apply(c *storage.Change) error {
	if err := s.layout.Traits().Guard(c); err != nil {
		return err
	}
	if classOf(c) == creates && c.Claim == nil {
		s.changes = append(s.changes[:0], c)
		return s.group(creates)
	}
	var steps []statements.Step
	for i, piece := range split(c) {
		st := s.Start(c.Tenant)
		st.Apply(piece, s.Shard)
		if i == 0 && c.Hold != nil {
			st.Hold(c.Hold, "")
		}
		if onlyReadLogs(c) && !s.Unsynced {
			st.Final = statements.Unsynced
		}
		steps = append(steps, st.All()...)
	}
	return s.inSteps(steps)
}

// maxRows limits the tokens and the log entries of one statement. With more,
// the server would spill its intermediate rows to disk.
const maxRows = 1000

// split cuts a large change into pieces. The first piece has all the guards,
// except the guards on tokens in later pieces.
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

var markerQuery = "SELECT 1 FROM (" + statements.FirstFrom("k.id", "vault_logs", "id", "$2::bytea") + ") l WHERE l.id = $2::bytea"

// applied reports whether a change is in the database, by its first log entry.
// It returns false for a change without log entries, which is then written
// again.
func (s *writer) applied(c *storage.Change) (bool, error) {
	if len(c.Logs) == 0 {
		return false, nil
	}
	found := false
	look := func() error {
		return s.Query(context.Background(), markerQuery, []any{c.Tenant[:], c.Logs[0].ID[:]}, true, func([]driver.Value) error {
			found = true
			return nil
		})
	}
	fence := s.layout.Traits().Fence
	if len(fence) == 0 {
		err := look()
		return found, err
	}
	err := s.transact(func() error {
		for _, text := range fence {
			if err := s.exec(text, []any{c.Tenant[:]}); err != nil {
				return err
			}
		}
		return look()
	})
	return found && err == nil, err
}

// unknownIf adds to the error of an ambiguous change that it may have been
// applied.
func unknownIf(ambiguous bool, err error) error {
	if !ambiguous {
		return err
	}
	return fmt.Errorf("postgres: the change may or may not have been applied: %w", err)
}

// errUnsettled ends the attempts at a change whose guards keep failing without
// a row that explains why.
var errUnsettled = fmt.Errorf("postgres: other writers kept changing the same rows: %w", storage.ErrStale)
