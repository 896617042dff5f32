package sinks

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/storage"
)

// With evidence, a destination also serves as an anchor. It gets each entry with
// its index and leaf in the tenant's tree, and the signed notes.

// items returns entries with their positions in the tree. A damaged tree does not
// stop the log. Its entries have no positions, and evidence has raised an alarm.
func (w *worker) items(ctx context.Context, f *follower, rows []storage.Log) ([]item, error) {
	items, ids := make([]item, len(rows)), make([]uuid.UUID, len(rows))
	for i := range rows {
		items[i].Log, ids[i] = &rows[i], uuid.UUID(rows[i].ID)
	}
	if w.Ledger == nil {
		return items, nil
	}
	found, err := w.Ledger.Locate(ctx, uuid.UUID(f.tenant), ids, f.cursor.Leaf)
	if err != nil && !errors.Is(err, ledger.ErrTampered) && !errors.Is(err, ledger.ErrGone) {
		return nil, err
	}
	for i, id := range ids {
		if at, ok := found[id]; ok {
			items[i].leaf = &at
		}
	}
	return items, nil
}

// notes is the position of a sink in the signed notes, and the node that sends.
type notes struct {
	Size int64 `json:"size,omitzero"` // of the tree in the last note
	core.Lease
}

const notesBatch = 100

// sendNotes sends new signed notes.
func (w *worker) sendNotes(ctx context.Context) error {
	for w.Ledger != nil {
		all, err := w.Ledger.Notes(ctx, w.noted.Size, w.began, notesBatch)
		if err != nil || len(all) == 0 {
			return err
		}
		leased, err := w.leaseNotes(ctx, all[0].Size)
		if err != nil || !leased {
			return err
		}
		if err := w.deliverNotes(ctx, all); err != nil {
			return err
		}
		if err := w.moveNotes(ctx, all[len(all)-1].Size); err != nil {
			return err
		}
	}
	return nil
}

// deliverNotes sends notes together, or one by one if they are refused. A note
// that is refused alone is skipped.
func (w *worker) deliverNotes(ctx context.Context, all []storage.Checkpoint) error {
	items := make([]item, len(all))
	for i := range all {
		items[i].note = &all[i]
	}
	err := w.deliver(ctx, uuid.UUID{}, items)
	if !isRefusal(err) {
		return err
	}
	for i := range items {
		err := w.deliver(ctx, uuid.UUID{}, items[i:i+1])
		switch {
		case err != nil && !isRefusal(err):
			return err
		case err != nil && w.refusals >= maxRefusals:
			return errRefusesAll
		case err != nil:
			w.refusals++
			w.Vault.Logger.ErrorContext(ctx, "a log sink refused a checkpoint, which is passed over", "sink", w.sink.Name, "size", all[i].Size)
		}
	}
	return nil
}

// leaseNotes takes the lease for sending notes from a size on. It reports false if
// another node has the lease or has sent the notes.
func (w *worker) leaseNotes(ctx context.Context, size int64) (bool, error) {
	now := w.Vault.Now()
	rec, begin, err := readSink(ctx, w.Vault.Store, w.sink.Name)
	if err != nil || rec == nil {
		return false, err
	}
	w.began, w.noted = begin.Began, begin.Notes
	if w.noted.Others(w.owner, now) || w.noted.Size >= size {
		return false, nil
	}
	begin.Notes.Lease = core.Lease{Owner: w.owner, Until: now.Add(lease)}
	return true, w.writeNotes(ctx, rec, begin)
}

// moveNotes stores the position after sending.
func (w *worker) moveNotes(ctx context.Context, size int64) error {
	rec, begin, err := readSink(ctx, w.Vault.Store, w.sink.Name)
	if err != nil {
		return err
	}
	if rec == nil || begin.Notes.Size != w.noted.Size || begin.Notes.Owner != w.owner {
		return errLost // the sink was reset, or another node has taken over
	}
	begin.Notes.Size = size
	return w.writeNotes(ctx, rec, begin)
}

func (w *worker) writeNotes(ctx context.Context, rec *storage.Record, begin beginning) error {
	err := writeSink(ctx, w.Vault, w.sink.Name, rec, begin)
	if errors.Is(err, storage.ErrStale) {
		return errLost
	}
	if err == nil {
		w.noted = begin.Notes
	}
	return err
}
