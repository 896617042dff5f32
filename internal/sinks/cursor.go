package sinks

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// Cursor is the position of a sink in the log of a tenant, and the node that
// sends.
type Cursor struct {
	Sink  string `json:"sink"`
	Place []byte `json:"place,omitempty"` // nil until an entry was sent

	core.Lease

	Sent    int64     `json:"sent"`    // entries
	Refused int64     `json:"refused"` // skipped entries
	SentAt  time.Time `json:"sent_at,omitzero"`
	// Leaf is the expected index of the next entry in the tree over the log.
	Leaf int64 `json:"leaf,omitzero"`
	// Refusals is the number of entries that the sink skipped in a row. It is stored
	// so that a restarted program does not count from zero.
	Refusals int `json:"refusals,omitzero"`
}

// errLost means that another node has taken over the log of a tenant.
var errLost = errors.New("vault: another node sends this log")

// follower follows the log of a tenant.
type follower struct {
	tenant storage.ID
	cursor Cursor
	rev    int64
	exists bool // the cursor is in the database
	read   bool // the cursor was read, and is not known to have changed since
	seen   bool // the cursor was read at least once

	next  time.Time // time of the next look
	pause time.Duration
	// waiting is when the oldest unsent entry was created, and behind is the number
	// of unsent entries, both as of the last look.
	waiting time.Time
	behind  int
}

// open returns an operation for the tenant of a follower.
func (w *worker) open(ctx context.Context, f *follower) (*core.Op, error) {
	op := w.Vault.System(f.tenant)
	return op, op.Refresh(ctx)
}

// readCursor reads the position of the sink.
func (w *worker) readCursor(ctx context.Context, op *core.Op, f *follower) error {
	f.cursor, f.rev, f.exists = Cursor{Sink: w.sink.Name}, 0, false
	rec, err := op.Record(ctx, KindCursor, uuid.UUID(recordID(w.sink.Name)))
	switch {
	case errors.Is(err, fault.ErrNotFound):
	case err != nil:
		return err
	default:
		if err := op.OpenRecord(ctx, rec, &f.cursor); err != nil {
			return err
		}
		f.rev, f.exists = rec.Rev, true
		if !f.seen {
			w.refusals = max(w.refusals, f.cursor.Refusals)
		}
	}
	f.read, f.seen = true, true
	if f.cursor.Place == nil {
		return w.start(ctx) // the sink may have been reset
	}
	return nil
}

// writeCursor stores the cursor of a follower. If another node was faster, it
// returns errLost, and the cursor is read again before its next use.
func (w *worker) writeCursor(ctx context.Context, op *core.Op, f *follower) error {
	rec := storage.Record{Kind: KindCursor, ID: recordID(w.sink.Name), Name: w.sink.Name, CreatedAt: op.Now}
	if err := op.SealRecord(&rec, &f.cursor); err != nil {
		return err
	}
	ch := op.Change()
	if f.exists {
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: f.rev, Record: rec}}
	} else {
		ch.InsertRecords = []storage.Record{rec}
	}
	f.read = false // until the write is confirmed
	err := op.Write(ctx, ch)
	if _, refused := fault.Guard(err); refused {
		return errLost
	}
	if err != nil {
		return err
	}
	if f.exists {
		f.rev++
	}
	f.read, f.exists = true, true
	return nil
}

// takeLease ensures that this node has the lease for long enough to send a batch. It
// reports false if another node has the lease or has moved the cursor.
func (w *worker) takeLease(ctx context.Context, op *core.Op, f *follower) (bool, error) {
	now := w.Vault.Now()
	mine := f.cursor.Owner == w.owner
	if mine && f.cursor.Until.Sub(now) > sendTimeout {
		return true, nil
	}
	if !mine { // the cursor may have moved since it was read
		place := string(f.cursor.Place)
		if err := w.readCursor(ctx, op, f); err != nil {
			return false, err
		}
		if f.cursor.Others(w.owner, now) {
			f.next = w.now().Add(min(f.cursor.Until.Sub(now), lease))
			return false, nil
		}
		if string(f.cursor.Place) != place {
			return false, nil
		}
	}
	f.cursor.Lease = core.Lease{Owner: w.owner, Until: now.Add(lease)}
	return true, w.writeCursor(ctx, op, f)
}
