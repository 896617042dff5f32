package sinks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/storage"
)

// Status is the position of a sink, over all tenants and nodes.
type Status struct {
	Name, Format  string
	Sent, Refused int64
	LastSuccess   time.Time
	// Behind is the number of waiting entries, up to MaxBehind. Oldest is when the
	// oldest of them was created.
	Behind  int
	Oldest  time.Time
	Tenants []TenantStatus // newest tenant first
}

// TenantStatus is the position of a sink in the log of a tenant.
type TenantStatus struct {
	TenantID    uuid.UUID `json:"tenant_id"`
	Sent        int64     `json:"sent"`    // entries that the destination accepted
	Refused     int64     `json:"refused"` // entries that it refused and the sink skipped
	LastSuccess time.Time `json:"last_success,omitzero"`
	// Behind is the number of waiting entries, and Oldest is when the oldest of them
	// was created. Counting stops at 10,000 entries over all tenants. After that, it
	// stops at 500 entries of each tenant.
	Behind int       `json:"behind"`
	Oldest time.Time `json:"oldest,omitzero"`
	// Unreadable means that the keys of the tenant, or the position of the sink, were
	// altered or do not open. The sink sends nothing of the tenant.
	Unreadable bool `json:"unreadable,omitempty"`
}

// MaxBehind is where counting the waiting entries stops, except for one batch of
// each tenant.
const MaxBehind = 10_000

// List returns the sinks in the database.
func List(ctx context.Context, v *core.Vault) ([]Status, error) {
	recs, _, err := v.Store.ListRecords(ctx, storage.RecordFilter{Kind: KindSink, Limit: 1000})
	if err != nil {
		return nil, err
	}
	all := make([]Status, len(recs))
	for i := range recs {
		var begin beginning
		if err := json.Unmarshal(recs[i].Body, &begin); err != nil {
			return nil, err
		}
		all[i] = Status{Name: recs[i].Name, Format: begin.Format}
		err := eachCursor(ctx, v, recs[i].Name, func(_ *core.Op, w *worker, f *follower, unreadable error) error {
			if unreadable == nil {
				return all[i].add(ctx, w, f)
			}
			all[i].Tenants = append(all[i].Tenants, TenantStatus{TenantID: uuid.UUID(f.tenant), Unreadable: true})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add adds the cursor of one tenant.
func (s *Status) add(ctx context.Context, w *worker, f *follower) error {
	t := TenantStatus{TenantID: uuid.UUID(f.tenant), Sent: f.cursor.Sent, Refused: f.cursor.Refused, LastSuccess: f.cursor.SentAt}
	if err := t.count(ctx, w, f, max(MaxBehind-s.Behind, batchSize)); err != nil {
		return err
	}
	s.Sent, s.Refused, s.Behind = s.Sent+t.Sent, s.Refused+t.Refused, min(s.Behind+t.Behind, MaxBehind)
	if t.LastSuccess.After(s.LastSuccess) {
		s.LastSuccess = t.LastSuccess
	}
	if !t.Oldest.IsZero() && (s.Oldest.IsZero() || t.Oldest.Before(s.Oldest)) {
		s.Oldest = t.Oldest
	}
	s.Tenants = append(s.Tenants, t)
	return nil
}

// count counts the waiting entries, up to most.
func (t *TenantStatus) count(ctx context.Context, w *worker, f *follower, most int) error {
	for t.Behind < most {
		rows, next, err := w.following(ctx, f, batchSize)
		if err != nil || len(rows) == 0 {
			return err
		}
		t.Behind = min(t.Behind+len(rows), most)
		for i := range rows {
			if at := rows[i].CreatedAt; t.Oldest.IsZero() || at.Before(t.Oldest) {
				t.Oldest = at
			}
		}
		f.cursor.Place = next
	}
	return nil
}

// eachCursor calls do for each tenant, newest first, with the sink's position in its
// log, or with the reason why the keys or the position cannot be read.
func eachCursor(ctx context.Context, v *core.Vault, name string, do func(op *core.Op, w *worker, f *follower, unreadable error) error) error {
	w := &worker{Sinks: &Sinks{Config: Config{Vault: v}}, sink: Sink{Name: name}}
	var tenants []storage.ID
	tenantList := logs.Tenants{Store: v.Store}
	err := tenantList.New(ctx, time.Now(), func(tenant storage.ID) bool {
		tenants = append(tenants, tenant)
		return false
	})
	if err != nil {
		return err
	}
	for _, tenant := range tenants {
		f := &follower{tenant: tenant}
		op, err := w.open(ctx, f)
		if errors.Is(err, fault.ErrNotFound) {
			continue // it is being deleted
		}
		if err == nil {
			err = w.readCursor(ctx, op, f)
		}
		if err == nil || core.Unreadable(err) {
			err = do(op, w, f, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveCursors moves the positions of a sink in the logs of all tenants. It tries
// again if a node has moved the cursor since it was read, and leaves tenants out that
// cannot be read.
func moveCursors(ctx context.Context, v *core.Vault, name string, to func(tenant storage.ID) (storage.LogPlace, error)) error {
	var errs []error
	err := eachCursor(ctx, v, name, func(op *core.Op, w *worker, f *follower, unreadable error) error {
		if unreadable != nil {
			errs = append(errs, fault.Wrap(unreadable, "tenant %s", uuid.UUID(f.tenant)))
			return nil
		}
		for range core.MaxAttempts {
			var err error
			if f.cursor.Place, err = to(f.tenant); err != nil {
				return err
			}
			if err := w.writeCursor(ctx, op, f); !errors.Is(err, errLost) {
				return err
			}
			if err := w.readCursor(ctx, op, f); err != nil {
				return err
			}
		}
		return fault.ErrFaster
	})
	return errors.Join(append(errs, err)...)
}

// sinkOf returns the record of an existing sink.
func sinkOf(ctx context.Context, v *core.Vault, name string) (*storage.Record, beginning, error) {
	rec, begin, err := readSink(ctx, v.Store, name)
	if err == nil && rec == nil {
		err = fault.New(fault.ErrNotFound, "no such log sink")
	}
	return rec, begin, err
}

// Reset makes a sink resend the entries that were created at from or later. A zero
// time resends all entries.
func Reset(ctx context.Context, v *core.Vault, name string, from time.Time) error {
	rec, begin, err := sinkOf(ctx, v, name)
	if err != nil {
		return err
	}
	if begin.Began = from.UTC(); from.IsZero() {
		begin.Began = theBeginning
	}
	begin.Notes.Size = 0
	if err := writeSink(ctx, v, name, rec, begin); err != nil {
		return err
	}
	return moveCursors(ctx, v, name, func(storage.ID) (storage.LogPlace, error) { return nil, nil })
}

// Skip makes a sink skip all waiting entries.
func Skip(ctx context.Context, v *core.Vault, name string) error {
	if _, _, err := sinkOf(ctx, v, name); err != nil {
		return err
	}
	return moveCursors(ctx, v, name, func(tenant storage.ID) (storage.LogPlace, error) {
		_, end, err := v.Store.FollowLogs(ctx, storage.LogFollowing{Tenant: tenant, Limit: 1})
		return end, err
	})
}

// margin is how much older an entry can be than the entries before it, because the
// log is in commit order.
const margin = time.Hour

// Keep returns the time before which the entries of a tenant may be deleted. This
// is before, or an earlier time while a sink has unsent older entries, but never
// earlier than floor. overdue reports that entries are deleted unsent because of
// floor.
func (s *Sinks) Keep(ctx context.Context, tenant storage.ID, before, floor time.Time) (at time.Time, overdue bool, err error) {
	at = before
	for _, w := range s.workers {
		f := &follower{tenant: tenant}
		op, err := w.open(ctx, f)
		if errors.Is(err, fault.ErrNotFound) {
			return before, false, nil // the tenant is being deleted
		}
		if err != nil {
			return floor, false, err
		}
		copied := &worker{Sinks: s, sink: w.sink} // w belongs to its loop
		if err := copied.readCursor(ctx, op, f); err != nil {
			return floor, false, err
		}
		rows, _, err := copied.following(ctx, f, batchSize)
		if err != nil {
			return floor, false, err
		}
		for i := range rows {
			if unsent := rows[i].CreatedAt.Add(-margin); unsent.Before(at) {
				at = unsent
			}
		}
	}
	if at.Before(floor) {
		return floor, true, nil
	}
	return at, false, nil
}
