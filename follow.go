package vault

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// LogBatch is a piece of the log, in the order in which it was committed.
type LogBatch struct {
	Data []LogEntry `json:"data"`
	// Cursor is the place after the last of them. A follower that has dealt with
	// the entries saves it, and goes on from there after a restart.
	Cursor string `json:"cursor"`
}

// LogsSince returns a cursor for the entries that were created at a time or
// later: see [Client.FollowLogs].
func LogsSince(t time.Time) string { return sinceCursor + t.UTC().Format(time.RFC3339Nano) }

// sinceCursor begins the cursor of a time.
const sinceCursor = "since:"

// FollowLogs iterates over the entries of the tenant's audit log as they come,
// until the context ends (permission log:read). The cursor is that of an earlier
// batch, [LogsSince], or "" for what is entered from now on. The first batch comes
// at once, and may have no entries but only the cursor of the start:
//
//	for batch, err := range c.FollowLogs(ctx, cursor) {
//		if err != nil {
//			return err
//		}
//		for _, entry := range batch.Data { ... }
//		save(batch.Cursor)
//	}
//
// It misses nothing: entries of a transaction that commits late are given when it
// has been committed, though their ids and times are older than those of entries
// that were given before. On PostgreSQL that means that entries wait while a
// transaction that began before them, and has written something, is open; and a
// follower that begins now sees what came since the oldest of those began. After
// a restart the follower sees again what came after the cursor that it saved, and
// nothing else; each entry has an id to tell it by. Entries that [Config].LogRetention
// has deleted meanwhile are gone.
func (c *Client) FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error] {
	return func(yield func(*LogBatch, error) bool) {
		for first := true; ; first = false {
			wait := followWait
			if first {
				wait = 0
			}
			batch, err := c.nextLogs(ctx, &verbFollowLogs, cursor, wait)
			if err != nil {
				yield(nil, err)
				return
			}
			cursor = batch.Cursor
			if (first || len(batch.Data) > 0) && !yield(batch, nil) {
				return
			}
		}
	}
}

const (
	followWait  = time.Minute            // of a step
	followPause = 250 * time.Millisecond // between looks at the log, at first
	followRest  = time.Second            // between looks at a log that stays quiet
	followBatch = 500                    // entries
)

// MaxFollowers is how many calls of [Client.NextLogs] and [Client.FollowLogs] may
// wait for entries of a tenant's log at once in a process: each of them looks at
// the database while it waits. One more fails with ErrBusy.
const MaxFollowers = 64

// followers counts the calls that wait, by tenant.
type followers struct {
	mu      sync.Mutex
	waiting map[uuid.UUID]int
}

// enter takes one of the tenant's places.
func (f *followers) enter(tenant uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[tenant] >= MaxFollowers {
		return fault.New(ErrBusy, "This tenant has %d followers of its log already; try again later.", MaxFollowers)
	}
	if f.waiting == nil {
		f.waiting = map[uuid.UUID]int{}
	}
	f.waiting[tenant]++
	return nil
}

func (f *followers) leave(tenant uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[tenant]--; f.waiting[tenant] == 0 {
		delete(f.waiting, tenant)
	}
}

// NextLogs returns the entries that come after a cursor, oldest first. When there
// are none it waits for the first one, up to a time, and then returns a batch
// that is empty but for its cursor. It is a step of [Client.FollowLogs], for those
// who cannot keep a loop running (permission log:read). It looks at the log four
// times a second, and less often, down to once a second, while nothing comes. At
// most [MaxFollowers] calls may wait at once; one more is ErrBusy.
func (c *Client) NextLogs(ctx context.Context, cursor string, wait time.Duration) (*LogBatch, error) {
	return c.nextLogs(ctx, &verbNextLogs, cursor, wait)
}

func (c *Client) nextLogs(ctx context.Context, verb *core.Verb, cursor string, wait time.Duration) (*LogBatch, error) {
	batch, err := c.logsAfter(ctx, verb, cursor)
	if err != nil || len(batch.Data) > 0 || wait <= 0 {
		return batch, err
	}
	if err := c.v.followers.enter(c.caller.Tenant()); err != nil {
		return nil, err
	}
	defer c.v.followers.leave(c.caller.Tenant())
	return c.awaitLogs(ctx, verb, batch, wait)
}

// awaitLogs looks at the log until it has entries after an empty batch.
func (c *Client) awaitLogs(ctx context.Context, verb *core.Verb, batch *LogBatch, wait time.Duration) (*LogBatch, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for pause := followPause; ; pause = min(pause*5/4, followRest) {
		select {
		case <-time.After(pause):
		case <-over.C:
			return batch, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var err error
		if batch, err = c.logsAfter(ctx, verb, batch.Cursor); err != nil || len(batch.Data) > 0 {
			return batch, err
		}
	}
}

// logsAfter reads the log once, with the rights that the client has now.
func (c *Client) logsAfter(ctx context.Context, verb *core.Verb, cursor string) (*LogBatch, error) {
	return run(ctx, c, verb, func(ctx context.Context, op *operation) (*LogBatch, error) {
		f, err := op.readLogCursor(cursor)
		if err != nil {
			return nil, err
		}
		rows, next, err := op.Vault.Store.FollowLogs(ctx, f)
		if err != nil {
			return nil, err
		}
		batch := &LogBatch{Data: make([]LogEntry, len(rows)), Cursor: op.logCursor(next)}
		for i, row := range rows {
			batch.Data[i] = entryOf(op.Tenant(), row)
		}
		return batch, nil
	})
}

const labelLogCursor = "log cursor"

// logCursor names a place in the log. Its hash binds it to the tenant, whose key
// it is made with.
func (op *operation) logCursor(place storage.LogPlace) string {
	hash := op.State.Ring.Hash(labelLogCursor, string(place))
	return base64.RawURLEncoding.EncodeToString(append(slices.Clip(place), hash[:]...))
}

// readLogCursor returns what a cursor asks for.
func (op *operation) readLogCursor(cursor string) (storage.LogFollowing, error) {
	f := storage.LogFollowing{Tenant: op.TenantID(), Limit: followBatch}
	if cursor == "" {
		return f, nil
	}
	if at, ok := strings.CutPrefix(cursor, sinceCursor); ok {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.IsZero() {
			return f, fault.Field("cursor", "must have a time as in %s2026-01-31T12:00:00Z", sinceCursor)
		}
		f.From = t
		return f, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	size := len(raw) - len(storage.Hash{})
	if err != nil || size <= 0 || subtle.ConstantTimeCompare([]byte(op.logCursor(raw[:size])), []byte(cursor)) != 1 {
		return f, fault.Field("cursor", "must be that of an earlier batch of this log, or %s and a time", sinceCursor)
	}
	f.After = raw[:size]
	return f, nil
}
