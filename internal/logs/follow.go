package logs

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission/share"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

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
