package postgres

import (
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// ReadToken implements [storage.ReadLogger]. Readings that wait for a
// connection share a statement, as changes do.
func (s *Store) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	if err := ctx.Err(); err != nil {
		return storage.Token{}, err
	}
	p := &pending{class: readings, reading: &reading{Reading: statements.Reading{Reading: r}, ctx: ctx}}
	err := s.readQueued(ctx, p)
	switch {
	case errors.Is(err, errInSteps), errors.Is(err, errBusy):
		return s.readInSteps(ctx, r, errors.Is(err, errInSteps))
	case err != nil:
		return storage.Token{}, err
	case !p.reading.Found:
		return storage.Token{}, storage.ErrNotFound
	case p.reading.Token.Body == nil:
		return s.readInSteps(ctx, r, false)
	}
	return p.reading.Token, nil
}

// readQueued reads a token in the queue.
func (s *Store) readQueued(ctx context.Context, p *pending) error {
	turn, ended, err := s.layout.Enter(ctx, p.reading.Tenant, storage.WaitUntil(ctx, s.retryFor))
	if p.Turn = turn; err != nil {
		return err
	}
	defer ended()
	return s.queue.do(ctx, p)
}

// readInSteps reads a token and then writes the log entry. If mayBeEntered is
// set, it first checks whether the entry already exists.
func (s *Store) readInSteps(ctx context.Context, r storage.Reading, mayBeEntered bool) (storage.Token, error) {
	ctx = storage.OneWait(ctx)
	t, err := s.readable(ctx, &r)
	if err != nil {
		return storage.Token{}, err
	}
	r.Entry.EntityType, r.Entry.EntityID = t.Type, t.ID
	change := &storage.Change{Tenant: r.Tenant, Now: r.Entry.CreatedAt, Logs: []storage.Log{r.Entry}, Relaxed: true}
	if err := s.write(ctx, &pending{change: change, class: reads, ambiguous: mayBeEntered}); err != nil {
		return storage.Token{}, err
	}
	return t, nil
}

// readable reads a token that has not expired, without logging the read.
func (s *Store) readable(ctx context.Context, r *storage.Reading) (storage.Token, error) {
	found, err := s.Tokens(ctx, r.Tenant, []string{r.ID})
	if err != nil {
		return storage.Token{}, err
	}
	if len(found) == 0 || !found[0].ExpiresAt.IsZero() && !found[0].ExpiresAt.After(r.Entry.CreatedAt) {
		return storage.Token{}, storage.ErrNotFound
	}
	return found[0], nil
}

// reading is a request for a token, with its result.
type reading struct {
	statements.Reading
	ctx context.Context // of the caller
}

// errInSteps means that a statement for several readings has failed. It is not
// known whether it had any effect.
var errInSteps = errors.New("postgres: a grouped read failed; the reads are repeated one by one")

// readBatch reads the tokens of a batch and logs the reads. If that fails, each
// caller reads in steps and retries.
func (s *Store) readBatch(w *writer, batch []*pending) {
	err := w.read(batch)
	if err == nil {
		s.account(batch)
		return
	}
	w.reset() // a connection is useless after a canceled statement
	for _, p := range batch {
		p.err = errInSteps
	}
}

func (s *writer) read(batch []*pending) error {
	ctx := context.Background() // watching any other context would cost the driver a fifth of a read
	if !s.connected() {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	run := s.cutter.Begin(batch[0].reading.ctx)
	defer func() { s.cutter.End(run) }()
	s.readings = s.readings[:0]
	for _, p := range batch {
		s.readings = append(s.readings, &p.reading.Reading)
	}
	defer clear(s.readings)
	defer s.Release()
	for _, step := range s.layout.Traits().Read(&s.Session, s.readings) {
		if err := step.Do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
