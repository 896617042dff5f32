package vault

import (
	"context"
	"sync"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// held collects the writes of a request that is to be carried out once.
type held struct {
	leased  bool // the work has effects outside of the database
	mu      sync.Mutex
	changes []heldChange
	after   []func() // to be called when the changes are committed
}

// heldChange is a write that waits, with the keys that it was sealed under.
type heldChange struct {
	*storage.Change
	ring *seal.Ring
}

func (h *held) add(ch *storage.Change, ring *seal.Ring) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes = append(h.changes, heldChange{ch, ring})
}

// committed runs what had to wait for the commit.
func (h *held) committed() {
	for _, f := range h.after {
		f()
	}
}

// change returns all that was held back as one change, to be written under the
// keys of op. The work may have taken longer than a change may wait, and cannot
// always be done again, so what it wrote at first is not too late.
func (h *held) change(ctx context.Context, op *call) (*storage.Change, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.changes {
		if err := op.renew(ctx, ch); err != nil {
			return nil, err
		}
	}
	if len(h.changes) == 1 && !h.changes[0].Relaxed {
		return h.changes[0].Change, nil
	}
	all := op.change()
	for _, ch := range h.changes {
		all.InsertTokens = append(all.InsertTokens, ch.InsertTokens...)
		all.UpdateTokens = append(all.UpdateTokens, ch.UpdateTokens...)
		all.DeleteTokens = append(all.DeleteTokens, ch.DeleteTokens...)
		all.InsertRecords = append(all.InsertRecords, ch.InsertRecords...)
		all.UpdateRecords = append(all.UpdateRecords, ch.UpdateRecords...)
		all.DeleteRecords = append(all.DeleteRecords, ch.DeleteRecords...)
		all.InsertJobs = append(all.InsertJobs, ch.InsertJobs...)
		all.Logs = append(all.Logs, ch.Logs...)
	}
	return all, nil
}

// renew seals anew what a change holds under a key that no longer seals, and
// gives it the time that the keys of op have.
func (op *call) renew(ctx context.Context, ch heldChange) error {
	sealed := &call{op.Client, &tenantState{ring: ch.ring}, op.now}
	for i := range ch.InsertTokens {
		if err := op.resealToken(ctx, sealed, &ch.InsertTokens[i]); err != nil {
			return err
		}
	}
	for i := range ch.UpdateTokens {
		if err := op.resealToken(ctx, sealed, &ch.UpdateTokens[i].Token); err != nil {
			return err
		}
	}
	for i := range ch.InsertRecords {
		if err := op.resealRecord(ctx, sealed, &ch.InsertRecords[i]); err != nil {
			return err
		}
	}
	for i := range ch.UpdateRecords {
		if err := op.resealRecord(ctx, sealed, &ch.UpdateRecords[i].Record); err != nil {
			return err
		}
	}
	for i := range ch.InsertJobs {
		if err := op.resealJob(ctx, sealed, &ch.InsertJobs[i]); err != nil {
			return err
		}
	}
	ch.Before = op.state.readAt.Add(maxKeyAge)
	return nil
}

// resealed returns sealed bytes under the key that seals now. from has the keys
// that open them.
func (op *call) resealed(ctx context.Context, from *call, place *seal.Place, version int, sealed []byte) ([]byte, error) {
	plain, err := from.open(ctx, place, version, sealed)
	if err != nil {
		return nil, err
	}
	return op.seal(place, plain)
}

// resealToken seals a row under the key that seals now.
func (op *call) resealToken(ctx context.Context, from *call, row *storage.Token) (err error) {
	if row.KeyVersion == op.state.ring.Version() {
		return nil
	}
	var parts boundParts
	place := tokenPlace(row, "body", &parts)
	if row.Body, err = op.resealed(ctx, from, &place, row.KeyVersion, row.Body); err != nil {
		return err
	}
	if row.CVC != nil {
		place := cvcPlace(row, &parts)
		if row.CVC, err = op.resealed(ctx, from, &place, row.KeyVersion, row.CVC); err != nil {
			return err
		}
	}
	row.KeyVersion = op.state.ring.Version()
	return nil
}

// resealRecord seals a record under the key that seals now.
func (op *call) resealRecord(ctx context.Context, from *call, rec *storage.Record) (err error) {
	if rec.KeyVersion == op.state.ring.Version() {
		return nil
	}
	place := recordPlace(rec)
	rec.Body, err = op.resealed(ctx, from, &place, rec.KeyVersion, rec.Body)
	rec.KeyVersion = op.state.ring.Version()
	return err
}

// resealJob seals a job's payload under the key that seals now.
func (op *call) resealJob(ctx context.Context, from *call, job *storage.Job) (err error) {
	if job.KeyVersion == op.state.ring.Version() {
		return nil
	}
	place := jobPlace(job.ID)
	job.Payload, err = op.resealed(ctx, from, &place, job.KeyVersion, job.Payload)
	job.KeyVersion = op.state.ring.Version()
	return err
}
