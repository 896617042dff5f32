package erase

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/records"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/storage"
)

// changes are what the files say about the changes of an entity.
type changes struct {
	revision int64     // the highest
	at       time.Time // of the last one
	entries  map[uuid.UUID]logged
}

// logged is a change as its entry has it. Without evidence it has no revision.
type logged struct {
	revision int64
	at       time.Time
}

// change takes in an entry about a change of an application, a proxy or a reactor.
func (h *history) change(tenant uuid.UUID, e *entry) {
	id, err := uuid.Parse(e.EntityID)
	if _, known := kinds[e.EntityType]; err != nil || !known {
		return
	}
	held := Held{tenant, e.EntityType, id}
	revision, _ := audit.Revision(e.Message)
	all := h.changed[held]
	if all == nil {
		all = &changes{entries: map[uuid.UUID]logged{}}
		h.changed[held] = all
	}
	if e.CreatedAt.After(all.at) {
		all.at = e.CreatedAt
	}
	all.revision = max(all.revision, revision)
	all.entries[e.ID] = logged{revision, e.CreatedAt}
}

// lost reports whether a row lacks one of the changes. A row that was changed after the
// restore may have the revision and the time of an entry, or later ones, although it lacks
// the change. So the log of the database decides. Changes that a person has confirmed do
// not count.
func (c *changes) lost(ctx context.Context, op *core.Op, held Held, hold core.Hold, revision int64, modified time.Time) (bool, error) {
	for id, e := range c.entries {
		switch {
		case e.revision > 0 && hold.Covers(e.revision):
			continue
		case e.revision > revision, e.revision == 0 && e.at.After(modified):
			return true, nil
		case e.revision == 0 && hold != 0: // the confirmation changed the row later
			continue
		}
		if missing, err := e.missing(ctx, op, held, id); err != nil || missing {
			return missing, err
		}
	}
	return false, nil
}

// missing reports whether the log of a restored database lacks an entry. An entry that is
// older than all others may have expired.
func (e logged) missing(ctx context.Context, op *core.Op, held Held, id uuid.UUID) (bool, error) {
	near := storage.LogFilter{
		Tenant: op.TenantID(), EntityType: held.Type, EntityID: held.ID.String(), From: e.at.Add(-time.Second), To: e.at.Add(time.Second), Limit: 100,
	}
	for {
		page, _, err := op.Vault.Store.ListLogs(ctx, near)
		if err != nil || slices.ContainsFunc(page, func(l storage.Log) bool { return uuid.UUID(l.ID) == id }) {
			return false, err
		}
		if len(page) < near.Limit {
			break
		}
		near.Before = page[len(page)-1].ID
	}
	before, _, err := op.Vault.Store.ListLogs(ctx, storage.LogFilter{Tenant: op.TenantID(), To: e.at, Limit: 1})
	return len(before) > 0, err
}

// everyTenant adds the tenants that are in no file, if all is set.
func (a again) everyTenant(ctx context.Context, v *core.Vault, all bool) error {
	if !all {
		return nil
	}
	for rec, err := range storage.AllRecords(ctx, v.Store, storage.RecordFilter{Kind: keyring.KindTenant, Limit: 100}) {
		if err != nil {
			return err
		}
		a.of(uuid.UUID(rec.Tenant))
	}
	return nil
}

// kind reads and changes the holds of one kind of entity.
type kind struct {
	// read returns the hold of an entity, and when it was last changed.
	read func(ctx context.Context, op *core.Op, rec *storage.Record) (core.Hold, time.Time, error)
	set  func(ctx context.Context, op *core.Op, id uuid.UUID, message string, to core.Hold) error
}

// kinds are the kinds of entities that can be suspended.
var kinds = map[string]kind{
	audit.Application: kindOf(&applications.Records, func(a *applications.Application) (*core.Hold, time.Time, time.Time) {
		return &a.Hold, a.CreatedAt, a.ModifiedAt
	}),
	audit.Proxy: kindOf(&relay.Proxies, func(x *relay.Proxy) (*core.Hold, time.Time, time.Time) {
		return &x.Hold, x.CreatedAt, x.ModifiedAt
	}),
	audit.Reactor: kindOf(&runs.Reactors, func(r *runs.Reactor) (*core.Hold, time.Time, time.Time) {
		return &r.Hold, r.CreatedAt, r.ModifiedAt
	}),
}

func kindOf[T any](k *records.Kind[T], of func(*T) (hold *core.Hold, created, modified time.Time)) kind {
	return kind{
		read: func(ctx context.Context, op *core.Op, rec *storage.Record) (core.Hold, time.Time, error) {
			item, err := k.Open(ctx, op, rec)
			if err != nil {
				return 0, time.Time{}, err
			}
			hold, created, modified := of(item)
			if modified.IsZero() {
				modified = created
			}
			return *hold, modified, nil
		},
		set: func(ctx context.Context, op *core.Op, id uuid.UUID, message string, to core.Hold) error {
			_, err := k.Update(ctx, op, id, message, func(item *T) error {
				hold, _, _ := of(item)
				*hold = to
				return nil
			})
			return err
		},
	}
}

// holdAgain suspends the entities of one tenant whose rows are older than the files
// say, and confirms the entities that are kept. It comes before everything that
// changes the rows. Entities that will be deleted, and keys that will be replaced, do
// not count.
func holdAgain(ctx context.Context, op *core.Op, h *history, p *AgainParams, out *ErasedAgain) error {
	for _, id := range p.Keep {
		for name := range kinds {
			held := Held{op.Tenant(), name, id}
			if _, ok := h.changed[held]; !ok {
				h.changed[held] = &changes{}
			}
		}
	}
	ordered := slices.SortedFunc(maps.Keys(h.changed), func(a, b Held) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, held := range ordered {
		if _, deleted := h.withdrawn[held.Type][held.ID.String()]; deleted {
			continue
		}
		op, err := op.Again(ctx, "")
		if err != nil {
			return err
		}
		if err := holdOne(ctx, op, held, h.changed[held], p, out); err != nil && !errors.Is(err, fault.ErrNotFound) {
			return err
		}
	}
	return nil
}

func holdOne(ctx context.Context, op *core.Op, held Held, changed *changes, p *AgainParams, out *ErasedAgain) error {
	rec, err := op.Record(ctx, held.Type, held.ID)
	if err != nil {
		return err
	}
	k := kinds[held.Type]
	hold, modified, err := k.read(ctx, op, rec)
	if core.Unreadable(err) {
		return nil // it cannot be used
	}
	if err != nil {
		return err
	}
	revision, err := op.SealedRevision(ctx, rec) // write access to the database can change its column
	if err != nil {
		return err
	}
	older, err := changed.lost(ctx, op, held, hold, revision, modified)
	if err != nil {
		return err
	}
	logged := max(changed.revision, revision, 1)
	list, to, message := &out.Suspended, core.Hold(logged), audit.Suspended
	switch keep := slices.Contains(p.Keep, held.ID); {
	case keep && (older || hold.Suspended()):
		list, to, message = &out.Kept, -max(core.Hold(logged), hold), audit.Confirmed
	case keep || !older:
		return nil
	}
	*list = append(*list, held)
	if p.DryRun {
		return nil
	}
	return k.set(ctx, op, held.ID, audit.DisplayName(held.Type)+message, to)
}
