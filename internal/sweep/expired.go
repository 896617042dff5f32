package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// kind is a kind of rows that expire.
type kind[T any] struct {
	// key returns the tenant of a row and the rest of its key.
	key func(*T) (storage.ID, string)
	at  func(*T) time.Time
	// open checks that a row is genuine and has expired, and raises an alarm
	// otherwise. Without it the log would vouch for what a database writer made
	// up.
	open func(context.Context, *core.Op, *T) error
	// add adds the deletion of a row and its log entry to a change.
	add func(*core.Op, *storage.Change, *T)
}

var (
	expiredTokens = kind[storage.Token]{
		key:  func(r *storage.Token) (storage.ID, string) { return r.Tenant, string(r.Ord[:]) },
		at:   func(r *storage.Token) time.Time { return r.ExpiresAt },
		open: tokens.OpenExpired,
		add: func(op *core.Op, ch *storage.Change, r *storage.Token) {
			ch.DeleteTokens = append(ch.DeleteTokens, tokens.Deletion(r))
			ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Type, r.ID))
		},
	}
	// The rest of a row with an expired cvc stays sealed.
	expiredCVCs = kind[storage.Token]{
		key:  expiredTokens.key,
		at:   func(r *storage.Token) time.Time { return r.CVCExpiresAt },
		open: tokens.OpenExpiredCVC,
		add: func(op *core.Op, ch *storage.Change, r *storage.Token) {
			row := *r
			row.CVC, row.CVCExpiresAt = nil, time.Time{}
			ch.UpdateTokens = append(ch.UpdateTokens, storage.TokenUpdate{Rev: r.Rev, OldSet: r.Set, Token: row, KeepHashes: true})
			e := op.Entry(audit.Expire, r.Type, r.ID)
			e.Message = "Card cvc expired"
			ch.Logs = append(ch.Logs, e)
		},
	}
	expiredRecords = kind[storage.Record]{
		key:  func(r *storage.Record) (storage.ID, string) { return r.Tenant, string(r.ID[:]) + r.Kind },
		at:   func(r *storage.Record) time.Time { return r.ExpiresAt },
		open: openRecord,
		add: func(op *core.Op, ch *storage.Change, r *storage.Record) {
			ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: r.Kind, ID: r.ID, Rev: r.Rev})
			ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Kind, uuid.UUID(r.ID).String()))
		},
	}
)

func openRecord(ctx context.Context, op *core.Op, r *storage.Record) error {
	var doc any
	if err := op.OpenRecord(ctx, r, &doc); err != nil {
		return err
	}
	if r.ExpiresAt.IsZero() || r.ExpiresAt.After(op.Now) {
		return op.Vault.Alarm(ctx, core.AlarmAltered, op.Tenant(), core.Entity{Type: r.Kind, ID: uuid.UUID(r.ID).String()}, fault.ErrAltered)
	}
	return nil
}

// expired deletes expired rows, with a log entry for each. It leaves rows that
// do not open, and rows of tenants for which it fails, and continues after them.
func (s *sweep) expired(ctx context.Context) error {
	f := storage.ExpiredFilter{Limit: chunk}
	tokens := pass[storage.Token]{s, &expiredTokens, &f.Tokens, &s.swept.Tokens, map[string]bool{}}
	cvcs := pass[storage.Token]{s, &expiredCVCs, &f.CVCs, &s.swept.CVCs, map[string]bool{}}
	records := pass[storage.Record]{s, &expiredRecords, &f.Records, &s.swept.Sessions, map[string]bool{}}
	for idle := 0; idle < core.MaxAttempts; idle++ {
		f.Now = s.v.Now()
		due, err := s.v.Store.Expired(ctx, f)
		if err != nil || len(due.Tokens)+len(due.CVCs)+len(due.Records) == 0 {
			return errors.Join(append(s.errs, err)...)
		}
		was, swept := f, s.swept
		err = errors.Join(tokens.page(ctx, due.Tokens, f.Now), cvcs.page(ctx, due.CVCs, f.Now), records.page(ctx, due.Records, f.Now))
		if err != nil || len(s.errs) >= maxFailures {
			return errors.Join(append(s.errs, err)...)
		}
		if f != was || s.swept != swept {
			idle = 0
		}
	}
	return fault.ErrFaster // other nodes delete the rows, if any does
}

// pass is the way of a sweep through the expired rows of a kind.
type pass[T any] struct {
	*sweep
	kind    *kind[T]
	place   *storage.ExpiryPlace
	deleted *int
	// left are the keys of rows that stay, from the page before the place became
	// an ordered one. That page comes again.
	left map[string]bool
}

// dueRow is an expired row.
type dueRow[T any] struct {
	row  *T
	key  string
	left bool // it stays
}

// page deletes rows, in one change for each tenant, oldest row first, and moves the
// place past them. It returns an error if the database does not respond.
func (p *pass[T]) page(ctx context.Context, rows []T, now time.Time) error {
	all := make([]dueRow[T], len(rows))
	var order []storage.ID
	tenants := map[storage.ID][]*dueRow[T]{}
	for i := range rows {
		tenant, key := p.kind.key(&rows[i])
		all[i] = dueRow[T]{row: &rows[i], key: string(tenant[:]) + key}
		if all[i].left = p.left[all[i].key]; !all[i].left {
			if tenants[tenant] == nil {
				order = append(order, tenant)
			}
			tenants[tenant] = append(tenants[tenant], &all[i])
		}
	}
	for _, tenant := range order {
		due := tenants[tenant]
		err := p.expire(ctx, tenant, due, now)
		if err == nil {
			continue
		}
		if ctx.Err() != nil || errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrClosed) {
			return err
		}
		p.errs = append(p.errs, fmt.Errorf("deleting expired rows of tenant %s: %w", uuid.UUID(tenant), err))
		for _, d := range due {
			d.left = true
		}
	}
	p.move(all)
	return nil
}

// move moves the place past a page. If rows of the page stay, it requires the
// order that it takes to skip them.
func (p *pass[T]) move(page []dueRow[T]) {
	ordered := p.place.Ordered
	for i := range page {
		switch d := &page[i]; {
		case ordered:
			p.place.Pass(p.kind.at(d.row), d.left)
		case d.left:
			p.place.Ordered, p.left[d.key] = true, true
		}
	}
}

// expire opens the rows of a tenant, and deletes the rows that open.
func (p *pass[T]) expire(ctx context.Context, tenant storage.ID, rows []*dueRow[T], now time.Time) error {
	op, err := p.unlock(ctx, tenant)
	if err != nil {
		return err
	}
	if p.locked[tenant] {
		p.swept.Unopened += len(rows)
	}
	var opened []*T
	for _, d := range rows {
		if op == nil {
			d.left = true
			continue
		}
		op.Now = now
		switch err := p.kind.open(ctx, op, d.row); {
		case err == nil:
			opened = append(opened, d.row)
		case tokens.Unreadable(err):
			d.left = true
			p.swept.Unopened++
		case !errors.Is(err, fault.ErrNotFound): // unless another node was faster
			return err
		}
	}
	return core.SkipStale(opened, func(rows []*T) error { // another node may be faster
		ch := op.Change()
		ch.Before = time.Time{} // nothing is sealed, so the age of the keys does not matter
		for _, r := range rows {
			p.kind.add(op, ch, r)
		}
		err := op.Apply(ctx, ch)
		if err == nil {
			*p.deleted += len(rows)
		}
		return err
	})
}

// unlock returns an operation of the vault with the keys of a tenant, or nil if
// the keys cannot be read.
func (s *sweep) unlock(ctx context.Context, tenant storage.ID) (*core.Op, error) {
	if _, known := s.locked[tenant]; known {
		return nil, nil
	}
	op := s.v.System(tenant)
	err := op.Refresh(ctx)
	switch {
	case err == nil:
		return op, nil
	case errors.Is(err, fault.ErrNoTenant):
		return nil, s.missing(ctx, tenant, err)
	case core.Unreadable(err): // there was an alarm
	case s.v.Own.Status(uuid.UUID(tenant)) != nil && core.KeyDenied(err): // its rows wait for the tenant's key
	case !errors.Is(err, seal.ErrUnwrap):
		return nil, err
	case len(s.errs) == 0: // one error is enough if the master key does not respond
		s.errs = append(s.errs, err)
	}
	s.locked[tenant] = true
	return nil, nil
}

// missing raises an alarm about a tenant that has rows and no keys, unless the
// tenant is being deleted.
func (s *sweep) missing(ctx context.Context, tenant storage.ID, missing error) error {
	recs, _, err := s.v.Store.ListRecords(ctx, storage.RecordFilter{Kind: keyring.KindTombstone, IDs: []storage.ID{tenant}, Limit: 1})
	if err != nil {
		return err
	}
	s.locked[tenant] = len(recs) == 0
	if s.locked[tenant] {
		_ = s.v.Alarm(ctx, core.AlarmUnreadable, uuid.UUID(tenant), core.Entity{Type: keyring.KindRing, ID: uuid.UUID(tenant).String()}, missing)
	}
	return nil
}
