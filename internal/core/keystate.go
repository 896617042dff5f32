package core

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

// kindKeyState is the kind of the record about the last outage of the master key. It
// belongs to no tenant, and is not sealed, because it is written while there is no
// key. All nodes share it, so that each change of state gets one entry in the logs.
const kindKeyState = "key_state"

// keyOutage is the record of an outage. When the entries are in all logs, only
// Ended is left.
type keyOutage struct {
	States []keyring.KeyState `json:"states,omitempty"`
	Since  time.Time          `json:"since,omitzero"`
	Ended  time.Time          `json:"ended,omitzero"`

	// The node Owner writes the entries until Until. After is the last tenant whose
	// log has them.
	Owner uuid.UUID  `json:"owner,omitzero"`
	Until time.Time  `json:"until,omitzero"`
	After storage.ID `json:"after,omitzero"`

	stored bool
	rev    int64
}

const (
	outageLease = time.Minute
	outagePage  = 256
)

var errOutageLeased = errors.New("another node is writing the entries")

// readOutage returns the last outage.
func (v *Vault) readOutage(ctx context.Context) (o keyOutage, err error) {
	recs, err := v.Store.Records(ctx, storage.ID{}, kindKeyState, []storage.ID{{}})
	if err != nil || len(recs) == 0 {
		return o, err
	}
	if err := json.Unmarshal(recs[0].Body, &o); err != nil {
		return o, fault.Wrap(errDocument, "the record of an outage of the master key")
	}
	o.stored, o.rev = true, recs[0].Rev
	return o, nil
}

// writeOutage stores the outage at its revision.
func (v *Vault) writeOutage(ctx context.Context, o *keyOutage) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	rec := storage.Record{Kind: kindKeyState, Body: body, CreatedAt: v.Now()}
	ch := &storage.Change{Now: v.Now()}
	if !o.stored {
		ch.InsertRecords = []storage.Record{rec}
	} else {
		ch.UpdateRecords = []storage.RecordUpdate{{Rev: o.rev, Record: rec}}
	}
	err = v.Store.Write(ctx, ch)
	o.rev++
	return err
}

// KeyChanged records a change of state of the master key. While the key cannot be
// used, nothing can be entered in the logs, so the entries are written when it is
// available again. First of all, back deletes what has expired since.
func (v *Vault) KeyChanged(ctx context.Context, c keyring.KeyChange, back func(context.Context)) error {
	o, err := v.readOutage(ctx)
	switch {
	case err != nil:
		return err
	case c.To != keyring.KeyOK:
		return v.noteOutage(ctx, o, c)
	case len(o.States) == 0:
		return nil
	case o.Owner != v.node && v.Now().Before(o.Until):
		return errOutageLeased
	}
	back(ctx)
	err = v.endOutage(ctx, &o)
	if errors.Is(err, storage.ErrStale) {
		return errOutageLeased
	}
	return err
}

// noteOutage stores that an outage began, unless another node did, or has even
// entered its end in the logs.
func (v *Vault) noteOutage(ctx context.Context, o keyOutage, c keyring.KeyChange) error {
	if slices.Contains(o.States, c.To) || !c.At.After(o.Ended) {
		return nil
	}
	if len(o.States) == 0 {
		o = keyOutage{Since: c.At, stored: o.stored, rev: o.rev}
	}
	o.States = append(o.States, c.To)
	return v.writeOutage(ctx, &o)
}

// endOutage enters an outage and its end in the logs of all tenants. Another node continues after an interruption.
func (v *Vault) endOutage(ctx context.Context, o *keyOutage) error {
	filter := storage.RecordFilter{Kind: keyring.KindTenant, Limit: outagePage, Before: o.After}
	for {
		o.Owner, o.Until = v.node, v.Now().Add(outageLease)
		if err := v.writeOutage(ctx, o); err != nil {
			return err
		}
		recs, _, err := v.Store.ListRecords(ctx, filter)
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			break
		}
		page := make([]storage.ID, len(recs))
		for i := range recs {
			page[i] = recs[i].Tenant
		}
		if err := v.enterOutage(ctx, page, o); err != nil {
			return err
		}
		o.After = page[len(page)-1]
		filter.Before = o.After
	}
	return v.writeOutage(ctx, &keyOutage{Ended: v.Now(), stored: true, rev: o.rev})
}

// enterOutage enters an outage and its end in the logs of some tenants. The entries
// have a MAC under the keys of the vault itself.
func (v *Vault) enterOutage(ctx context.Context, tenants []storage.ID, o *keyOutage) error {
	ring, err := keyring.Own(ctx, v.Store, v.Master)
	if err != nil {
		return err
	}
	return v.forEach(tenants, func(op *Op) error {
		op.vaultRing = ring
		ch := op.Change()
		for _, state := range o.States {
			ch.Logs = append(ch.Logs, op.keyEntry("Key "+string(state)))
		}
		ch.Logs = append(ch.Logs, op.keyEntry("Key available again; unavailable since "+o.Since.UTC().Format(time.RFC3339)))
		return op.Apply(ctx, ch)
	})
}

func (op *Op) keyEntry(message string) storage.Log {
	e := op.Entry(audit.Key, audit.Tenant, op.Tenant().String())
	e.Message = message
	return e
}
