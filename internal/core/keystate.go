package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// kindKeyState is the kind of the record about the entries of the last outage of the
// master key. It belongs to no tenant, and the vault's own keys seal it. All nodes
// share it, so that an outage usually gets one set of entries. It has no words: each
// node enters what it has observed itself. A missing or older record costs further
// entries, never entries.
var kindKeyState = seal.RecordKind("key_state")

// keyOutage is an outage of the master key as this node has observed it.
type keyOutage struct {
	states []keyring.KeyState
	since  time.Time
	rev    int64      // of the record when the outage began, or -1
	after  storage.ID // the last tenant whose log, and all logs before it, have the entries of this node

	mu      sync.Mutex
	entered map[storage.ID]bool // further tenants whose logs have the entries
}

// entering records how far the entries of an outage have come.
type entering struct {
	// The node with the lease writes them since Began. After is the last tenant whose
	// log has them. When all have them, Ended is set.
	Lease
	Began time.Time  `json:"began"`
	After storage.ID `json:"after,omitzero"`
	Ended time.Time  `json:"ended,omitzero"`
}

const (
	outageLease = time.Minute
	outagePage  = 256
	// outageWait is how long a node leaves the entries to others whose record it
	// cannot replace. Then it writes them in any case.
	outageWait = 5 * time.Minute
)

var errOutageLeased = errors.New("another node is writing the entries")

// KeyChanged takes in a change of state of the master key. While the key cannot be
// used, nothing can be entered in the logs, so the entries are written when it is
// available again. First of all, back deletes what has expired since.
func (v *Vault) KeyChanged(ctx context.Context, c keyring.KeyChange, back func(context.Context)) error {
	o := &v.outage // Changed is called by one goroutine at a time
	if c.To != keyring.KeyOK {
		if len(o.states) == 0 {
			o.since, o.rev = c.At, v.outageRevision(ctx)
		}
		if !slices.Contains(o.states, c.To) {
			o.states = append(o.states, c.To)
		}
		return nil
	}
	if len(o.states) == 0 {
		return nil
	}
	back(ctx)
	if err := v.endOutage(ctx, c.At); err != nil {
		return err
	}
	*o = keyOutage{}
	return nil
}

// outageRevision returns the revision of the record of the last outage, or -1 if it
// cannot be read.
func (v *Vault) outageRevision(ctx context.Context) int64 {
	recs, err := v.Store.Records(ctx, storage.ID{}, kindKeyState, []storage.ID{{}})
	if err != nil || len(recs) == 0 {
		return -1
	}
	return recs[0].Rev
}

// isAbout reports whether the record is about a node that enters this outage. The
// clock of that node may be wrong, so the record must also have changed since the
// outage began.
func (o *keyOutage) isAbout(e *entering, rev int64, now time.Time) bool {
	return rev != o.rev && !e.Began.Before(o.since) && !e.Began.After(now.Add(outageLease))
}

// endOutage enters this node's outage, which ended at a time, in the logs of all
// tenants, unless another node has done so. After an interruption it continues.
func (v *Vault) endOutage(ctx context.Context, at time.Time) error {
	ring, err := keyring.Own(ctx, v.Store, v.Root)
	if err != nil {
		return err
	}
	stored := &keyring.Document{Kind: kindKeyState, Field: "outage", Store: v.Store, Ring: ring}
	plain, rev, err := stored.Read(ctx)
	if err != nil && rev == nil {
		return err
	}
	o, now, was := &v.outage, v.Now(), entering{}
	if err == nil && plain != nil && json.Unmarshal(plain, &was) == nil && o.isAbout(&was, *rev, now) {
		switch {
		case !was.Ended.IsZero():
			return nil
		case was.Others(v.node, now):
			return errOutageLeased
		case o.after.IsZero():
			o.after = was.After // another node was interrupted
		}
	}
	next := entering{Began: now}
	save := func() error {
		next.Lease, next.After = Lease{v.node, v.Now().Add(outageLease)}, o.after
		err := writeEntering(ctx, stored, &next, &rev, v.Now())
		if refused := errors.Is(err, storage.ErrStale) || errors.Is(err, storage.ErrExists); !refused {
			return err
		}
		if v.Now().Sub(at) < outageWait {
			return errOutageLeased
		}
		return nil // the record cannot be replaced; further entries are better than none
	}
	if err := v.enterOutage(ctx, ring, save); err != nil {
		return err
	}
	next.Ended = v.Now()
	if err := save(); !errors.Is(err, errOutageLeased) {
		return err
	}
	return nil
}

// writeEntering stores how far the entries have come, in place of a revision.
func writeEntering(ctx context.Context, stored *keyring.Document, e *entering, rev **int64, now time.Time) error {
	plain, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := stored.Write(ctx, plain, *rev, now); err != nil {
		return err
	}
	next := int64(0)
	if *rev != nil {
		next = **rev + 1
	}
	*rev = &next
	return nil
}

// enterOutage enters this node's outage and its end in the logs of all tenants, and
// calls save before each page of them. A log that cannot be written keeps the entries
// from no other log. It is tried again alone, because the entries are made once.
func (v *Vault) enterOutage(ctx context.Context, ring *seal.Ring, save func() error) error {
	o, failed := &v.outage, error(nil)
	for after := o.after; ; {
		if err := cmp.Or(ctx.Err(), save()); err != nil {
			return err
		}
		recs, _, err := v.Store.ListRecords(ctx, storage.RecordFilter{Kind: keyring.KindTenant, Limit: outagePage, Before: after})
		if err != nil || len(recs) == 0 {
			return errors.Join(failed, err)
		}
		var tenants []storage.ID
		for i := range recs {
			if after = recs[i].Tenant; !o.entered[after] {
				tenants = append(tenants, after)
			}
		}
		failed = errors.Join(failed, v.forEach(tenants, func(op *Op) error { return op.enterOutage(ctx, ring, o) }))
		if failed == nil {
			o.after = after
		}
	}
}

// enterOutage enters an outage in the log of the operation's tenant. The entries have a
// MAC under the keys of the vault itself.
func (op *Op) enterOutage(ctx context.Context, ring *seal.Ring, o *keyOutage) error {
	op.vaultRing = ring
	ch := op.Change()
	for _, state := range o.states {
		ch.Logs = append(ch.Logs, op.keyEntry("Key "+string(state)))
	}
	ch.Logs = append(ch.Logs, op.keyEntry(availableAgain(o.since)))
	if err := op.Apply(ctx, ch); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.entered == nil {
		o.entered = map[storage.ID]bool{}
	}
	o.entered[op.TenantID()] = true
	return nil
}

// availableAgain returns the message at the end of an outage. The time is zero if
// this node has not observed its beginning.
func availableAgain(since time.Time) string {
	if since.IsZero() {
		return "Key available again"
	}
	return "Key available again; unavailable since " + since.UTC().Format(time.RFC3339)
}

func (op *Op) keyEntry(message string) storage.Log {
	e := op.Entry(audit.Key, audit.Tenant, op.Tenant().String())
	e.Message = message
	return e
}
