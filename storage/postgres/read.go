package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// ReadToken implements [storage.ReadLogger]. Readings that wait for a
// connection share a statement, as changes do.
func (s *Store) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	if err := ctx.Err(); err != nil {
		return storage.Token{}, err
	}
	p := &pending{class: readings, reading: &reading{Reading: r, ctx: ctx}, lane: s.layout.lane(r.Tenant)}
	err := s.readQueued(ctx, p)
	switch {
	case errors.Is(err, errInSteps), errors.Is(err, errBusy):
		return s.readInSteps(ctx, r, errors.Is(err, errInSteps))
	case err != nil:
		return storage.Token{}, err
	case !p.reading.found:
		return storage.Token{}, storage.ErrNotFound
	case p.reading.token.Body == nil:
		return s.readInSteps(ctx, r, false)
	}
	return p.reading.token, nil
}

// readQueued reads a token in the queue.
func (s *Store) readQueued(ctx context.Context, p *pending) error {
	ended, err := s.enter(ctx, p, p.reading.Tenant, storage.WaitUntil(ctx, s.retryFor))
	if err != nil {
		return err
	}
	defer ended()
	return s.queue.read(ctx, p)
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
	storage.Reading
	ctx   context.Context // of the caller
	found bool
	token storage.Token // its body is nil if it is large, and then nothing is logged
}

// errInSteps means that a statement for several readings has failed. It is not
// known whether it had any effect.
var errInSteps = errors.New("postgres: a grouped read failed; the reads are repeated one by one")

// readBatch reads the tokens of a batch and logs the reads in one statement. If
// that fails, each caller reads in steps and retries.
func (s *Store) readBatch(w *writer, batch []*pending) {
	err := w.readTogether(batch)
	if err == nil {
		s.account(batch)
		return
	}
	w.reset() // a connection is useless after a canceled statement
	for _, p := range batch {
		p.err = errInSteps
	}
}

func (s *writer) readTogether(batch []*pending) error {
	ctx := context.Background() // watching any other context would cost the driver a fifth of a read
	if !s.connected() {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	return s.layout.read(ctx, s, batch)
}

// cutAfter cuts a connection some time after a context has ended, unless the
// returned function is called before. Statements take much less time than that,
// so a client that goes away does not cost other callers their connection.
func cutAfter(ctx context.Context, cut func()) (done func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		select {
		case <-time.After(readGrace):
			cut()
		case <-over:
		}
	})
	return func() {
		if !stop() {
			close(over)
			<-ended
		}
	}
}

// readGrace is how long a statement may continue after its caller has gone.
const readGrace = time.Second

var readingColumns = wire.ParseColumns("n:bigint", "tenant:bytea", "token:text", "entry:bytea", "at:bigint", "actor:bytea", "actor_type:text",
	"operation:text", "message:text", "actor_name:text", "origin:text", "mac:bytea")

func putReading(rows *wire.Rows, r *storage.Reading) {
	rows.Bytes(r.Tenant[:])
	rows.Text(r.ID)
	rows.Bytes(r.Entry.ID[:])
	rows.Int(r.Entry.CreatedAt.UnixMicro())
	rows.ID(&r.Entry.ActorID)
	rows.Text(r.Entry.ActorType)
	rows.Text(r.Entry.Operation)
	rows.Text(r.Entry.Message)
	rows.OptionalText(r.Entry.ActorName)
	rows.OptionalText(r.Entry.Origin)
	rows.Hash(&r.Entry.Mac)
}

// readingTexts are the results of readingText.
var readingTexts = [2][2]string{
	{readingText(false, false), readingText(false, true)},
	{readingText(true, false), readingText(true, true)},
}

// readingText returns the statement for one or many readings, in a session that
// is already unsynced or must be made so for the transaction. It looks up each token
// separately, in the order of the index on ids, whatever the server's statistics are.
//
// It leaves out a large body, so that other readings in the statement do not
// wait for it. It then writes no log entry either, because the token may be
// deleted before its body is read.
func readingText(many, sessionUnsynced bool) string {
	from := "found"
	if !sessionUnsynced {
		from += ", (SELECT " + statements.Unsynced + ") AS relaxed"
	}
	return `WITH found AS (SELECT r.*, t.* FROM ` + readingColumns.From(0, many, "r") + `
			CROSS JOIN LATERAL (SELECT ` + readColumns + `
				FROM vault_tokens t, ` + sqlstore.InOrder + ` WHERE t.tenant_id = r.tenant AND t.id >= r.token AND t.id <= r.token
				AND (t.expires_at IS NULL OR t.expires_at > r.at) ORDER BY t.id LIMIT 1) AS t),
		logged AS (INSERT INTO vault_logs (tenant_id, ` + wire.LogColumns.Names("") + `)
			SELECT tenant, entry, at, actor, actor_type, type, id, operation, message, actor_name, origin, mac FROM ` + from + `
			WHERE body IS NOT NULL)
		SELECT n, ` + sqlstore.TokenColumns + ` FROM found AS t`
}

// readColumns are the columns of a token, with NULL for a large body.
var readColumns = sqlstore.SmallBodies(maxSharedBody)

// maxSharedBody limits the size of bodies that a statement for several readings
// or for a page returns.
const maxSharedBody = 64 << 10
