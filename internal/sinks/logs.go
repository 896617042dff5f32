package sinks

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/find"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/share"
	"github.com/seed-72ea4aab/vault/storage"
)

// Filter selects entries of a log. Zero fields are ignored.
type Filter struct {
	EntityType, EntityID string
	From, To             time.Time // created at or after From, before To
	Operation            string
	ActorID              uuid.UUID
	ActorType            string
}

// filter checks the filters and converts them for the storage.
func (l *Filter) convert(op *core.Op) (storage.LogFilter, error) {
	bad := &form.Problems{}
	form.CheckText(bad, "entity_type", l.EntityType)
	form.CheckText(bad, "entity_id", l.EntityID)
	form.CheckText(bad, "operation", l.Operation)
	form.CheckText(bad, "actor_type", l.ActorType)
	return storage.LogFilter{
		Tenant: op.TenantID(), EntityType: l.EntityType, EntityID: l.EntityID, From: l.From, To: l.To,
		Operation: l.Operation, ActorID: storage.ID(l.ActorID), ActorType: l.ActorType,
	}, fault.Of(bad)
}

// Capped reports whether the total is counted only up to a limit, because the
// database has no totals by operation or actor.
func (l *Filter) Capped() bool {
	return l.Operation != "" || l.ActorType != "" || l.ActorID != uuid.UUID{}
}

// Page returns a page of the log, newest first, and the total number of
// entries. If the list is capped, the total is counted up to countUpTo. p
// must be complete: see [form.Paging.Check].
func Page(ctx context.Context, op *core.Op, l *Filter, p form.Paging, countUpTo int) (rows []storage.Log, total int, err error) {
	filter, err := l.convert(op)
	if err != nil {
		return nil, 0, err
	}
	filter.Offset, filter.Limit = p.Offset(), p.Size
	if l.Capped() {
		filter.CountUpTo = countUpTo
	}
	if rows, total, err = op.DB().ListLogs(ctx, filter); err != nil {
		return nil, 0, err
	}
	return rows, total, op.LogOwnRead(ctx)
}

// newest sorts after all entries. A walk starts there.
var newest = storage.ID(bytes.Repeat([]byte{0xff}, len(storage.ID{})))

// Next returns the next piece of a walk over the log, before an id. It moves
// the id to the end of the piece, and reports whether there may be another
// piece.
func Next(ctx context.Context, op *core.Op, l *Filter, w *find.Walk, before *storage.ID) (rows []storage.Log, more bool, err error) {
	filter, err := l.convert(op)
	if err != nil {
		return nil, false, err
	}
	filter.Before = *before
	if *before == newest {
		if err := op.LogOwnRead(ctx); err != nil {
			return nil, false, err
		}
	}
	rows, more, err = find.Next(w, func(limit int) ([]storage.Log, error) {
		filter.Limit = limit
		rows, _, err := op.DB().ListLogs(ctx, filter)
		return rows, err
	})
	if err == nil && len(rows) > 0 {
		*before = rows[len(rows)-1].ID
	}
	return rows, more, err
}

// Limits on the calls of one process that wait for log entries. Each of them
// queries the database while it waits.
const (
	MaxFollowers            = 64 // per tenant
	MaxApplicationFollowers = 16 // per application
)

// Pauses between two reads of the log: the first one, and the longest one
// while no entries arrive.
const (
	firstPause = 250 * time.Millisecond
	longPause  = time.Second
)

// followSize is the maximum number of entries that a follower gets at once.
const followSize = 500

// Followers limits the calls that wait. An application may use only some of
// its tenant's places, so that a stolen key does not take them all.
type Followers struct {
	tenants      *share.Slots[uuid.UUID]
	applications *share.Slots[uuid.UUID]
}

// NewFollowers returns Followers without waiting calls.
func NewFollowers() *Followers {
	return &Followers{
		tenants:      share.New[uuid.UUID](share.Limits{Each: MaxFollowers}),
		applications: share.New[uuid.UUID](share.Limits{Each: MaxApplicationFollowers}),
	}
}

// enter takes a place for a caller and returns a function that releases it.
func (f *Followers) enter(id core.Identity) (leave func(), err error) {
	app, tenant := id.ApplicationID(), id.Tenant()
	limited := app != uuid.UUID{}
	if limited && !f.applications.Try(app) {
		return nil, fault.New(fault.ErrBusy, "this application has %d followers of the log already; try again later", MaxApplicationFollowers)
	}
	if !f.tenants.Try(tenant) {
		if limited {
			f.applications.Give(app)
		}
		return nil, fault.New(fault.ErrBusy, "this tenant has %d followers of its log already; try again later", MaxFollowers)
	}
	return func() {
		f.tenants.Give(tenant)
		if limited {
			f.applications.Give(app)
		}
	}, nil
}

// Await returns the first batch of look that has entries. It calls look with
// the cursor of the last batch until then, or until wait is over.
func (f *Followers) Await(ctx context.Context, id core.Identity, cursor string, wait time.Duration, look func(cursor string) (*Batch, error)) (*Batch, error) {
	batch, err := look(cursor)
	if err != nil || len(batch.Rows) > 0 || wait <= 0 {
		return batch, err
	}
	leave, err := f.enter(id)
	if err != nil {
		return nil, err
	}
	defer leave()
	over := time.NewTimer(wait)
	defer over.Stop()
	for pause := firstPause; ; pause = min(pause*5/4, longPause) {
		select {
		case <-time.After(pause):
		case <-over.C:
			return batch, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if batch, err = look(batch.Cursor); err != nil || len(batch.Rows) > 0 {
			return batch, err
		}
	}
}

// Batch is a list of entries in commit order, with the cursor after them.
type Batch struct {
	Rows   []storage.Log
	Cursor string
}

// After returns the entries after a cursor. The cursor is from an earlier
// batch or from Since; "" means entries from now on. Begins means that a
// follower starts. A follower without the cursor of an earlier batch always
// starts.
func After(ctx context.Context, op *core.Op, cursor string, begins bool) (*Batch, error) {
	f, err := readCursor(op, cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := op.Vault.Store.FollowLogs(ctx, f)
	if err != nil {
		return nil, err
	}
	if begins || f.After == nil {
		if err := op.LogOwnRead(ctx); err != nil {
			return nil, err
		}
	}
	return &Batch{rows, op.State.Ring.Front().Cursor(next, labelCursor)}, nil
}

const (
	// sincePrefix starts the cursor of a time.
	sincePrefix = "since:"
	labelCursor = "log cursor"
)

// Since returns the cursor of a time.
func Since(t time.Time) string { return sincePrefix + t.UTC().Format(time.RFC3339Nano) }

// readSince returns the time of a cursor from Since, and whether it is such a
// cursor.
func readSince(cursor string) (t time.Time, ok bool, err error) {
	at, ok := strings.CutPrefix(cursor, sincePrefix)
	if !ok {
		return t, false, nil
	}
	if t, err = time.Parse(time.RFC3339Nano, at); err != nil || t.IsZero() {
		return t, true, fault.Field("cursor", "must have a time as in %s2026-01-31T12:00:00Z", sincePrefix)
	}
	return t, true, nil
}

// readCursor decodes a cursor.
func readCursor(op *core.Op, cursor string) (storage.LogFollowing, error) {
	f := storage.LogFollowing{Tenant: op.TenantID(), Limit: followSize}
	if cursor == "" {
		return f, nil
	}
	if since, ok, err := readSince(cursor); ok {
		f.From = since
		return f, err
	}
	place, ok := op.State.Ring.Front().ReadCursor(cursor, labelCursor)
	if !ok || len(place) == 0 {
		return f, fault.Field("cursor", "must be the cursor of an earlier batch of this log, or %s and a time", sincePrefix)
	}
	f.After = place
	return f, nil
}
